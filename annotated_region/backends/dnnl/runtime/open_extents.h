// Extents that a plan leaves open, so that calls which differ in nothing else share it: the number of earlier tokens,
// where only attention of few queries depends on it.

namespace annotated_region_dnnl {

constexpr int64_t kMostQueries = 8;  // of a head; with more, oneDNN is used

// Whether a kernel for few queries computes an attention.
inline bool has_few_queries(const std::vector<Dims>& dims, const NodeRow& node) {
  const auto& given = parameters_of<AttentionRow>(node);
  const Dims& queries = dims[node.inputs[0]];
  if (queries.size() != 4 || queries[2] > kMostQueries || given.causal != Causal::none || given.guarded) return false;
  const Dims &keys = dims[node.inputs[1]], &values = dims[node.inputs[node.kind == Kind::attention ? 2 : 3]];
  return keys[0] == queries[0] && values[0] == queries[0] && keys[1] == values[1];  // one batch may serve all, or other heads
}

// Whether the plan for some extents serves all values of the open ones.
inline bool leaves_open(const GraphTable& graph, const std::vector<Dims>& dims) {
  return graph.open_views.size > 0 && std::all_of(graph.nodes.begin(), graph.nodes.end(), [&](const NodeRow& node) {
    return node.kind != Kind::parted_attention || has_few_queries(dims, node);
  });
}

// A number of a table; a negative code refers to an expression over extents, as in a `TensorRow`.
inline int64_t number_of(int64_t code, const int64_t* expressions) { return code < 0 ? expressions[-1 - code] : code; }

// The axes of a view among those of an input, as in an `OpenViewRow`, and the extents of that.
struct OpenView {
  List<int64_t> extents;
  List<int64_t> axes;
};

}  // namespace annotated_region_dnnl
