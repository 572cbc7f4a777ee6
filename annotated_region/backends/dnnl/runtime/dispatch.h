// Builds the plan of a graph: calls the builder of each node, in order.

namespace annotated_region_dnnl {

// Whether a node that reads a tensor without elements can compute its result, which has some: from other operands, or
// from its padding.
inline bool has_other_elements(const Builder& builder, const NodeRow& node) {
  if (node.kind == Kind::concat || node.kind == Kind::pad) return true;
  const auto is_there = [&](int index) { return !is_empty(builder.dims(node.inputs[index])); };
  if (node.kind == Kind::recurrence) return is_there(node.inputs.size - 1);
  if (node.kind != Kind::parted_attention) return false;
  return is_there(0) && (is_there(1) || is_there(2));
}

// Whether a node writes no updates to its data, such as those for what `nonzero` finds.
inline bool writes_nothing(const Builder& builder, const NodeRow& node) {
  const bool writes = node.kind == Kind::scatter || node.kind == Kind::scatter_elements;
  return writes && is_empty(builder.dims(node.inputs[2]));
}

// Symbolic extents may be 0 in a call. oneDNN has no layout of some tensors without elements, so only the builders that
// `has_other_elements` lists get such operands.
inline void require_elements(const Builder& builder, const NodeRow& node) {
  if (has_other_elements(builder, node)) return;
  for_operands(node, [&](int tensor) {
    if (!is_empty(builder.dims(tensor))) return;
    TVM_FFI_THROW(ValueError) << builder.graph().symbol << ": an extent of the inputs is 0, so that an op of the region "
                              << "reads a tensor of shape " << text_of(builder.dims(tensor)) << ", which has no elements, "
                              << "for a result of shape " << text_of(builder.dims(node.output))
                              << "; call it with extents of at least 1, or ban the op from the target";
  });
}

inline std::shared_ptr<Plan> build_plan(const GraphTable& graph, const std::vector<Dims>& dims,
                                        const std::vector<int64_t>& expressions, Constants& constants) {
  Builder builder(graph, dims, expressions, constants);
  for (int index = 0; index < graph.nodes.size; ++index) {
    const NodeRow& node = graph.nodes[index];
    if (const OpenViewRow* const view = builder.open_view(node.output)) {
      builder.add(node.output, builder.value(view->input));  // attention finds the axes of the view itself
      continue;
    }
    builder.begin(index);
    if (is_empty(dims[node.output])) {
      builder.define_empty();
      continue;
    }
    if (writes_nothing(builder, node)) {
      builder.define_view(builder.layout(node.inputs[0]));
      continue;
    }
    require_elements(builder, node);
    switch (node.kind) {
#define ANNOTATED_REGION_CASE(kind) \
  case Kind::kind: build_##kind(builder, node); break;
      ANNOTATED_REGION_KINDS(ANNOTATED_REGION_CASE)
    }
  }
  return builder.finish();
}

}  // namespace annotated_region_dnnl
