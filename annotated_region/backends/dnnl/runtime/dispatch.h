// Builds the plan of a graph: calls the builder of each node, in order.

namespace annotated_region_dnnl {

inline std::shared_ptr<Plan> build_plan(const GraphTable& graph, const std::vector<Dims>& dims,
                                        const std::vector<int64_t>& expressions, Constants& constants) {
  Builder builder(graph, dims, expressions, constants);
  for (int index = 0; index < graph.nodes.size; ++index) {
    const NodeRow& node = graph.nodes[index];
    builder.begin(index);
    switch (node.kind) {
#define ANNOTATED_REGION_CASE(kind) \
  case Kind::kind: kind(builder, node); break;
      ANNOTATED_REGION_KINDS(ANNOTATED_REGION_CASE)
    }
  }
  return builder.finish();
}

}  // namespace annotated_region_dnnl
