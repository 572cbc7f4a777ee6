// Decides which products round their operands to bfloat16, and which tensors are then stored in it. With the option,
// all products are candidates; otherwise those whose operands are bfloat16 in the module.

namespace annotated_region_dnnl {

// With fewer channels per group, bfloat16 convolutions take two to three times as long as float32 ones.
constexpr int64_t kLeastChannels = 16;
// With at most this many rows, a product is bound by reading its weights, unless these fit the cache.
constexpr int64_t kFewRows = 16;
constexpr int64_t kLargeWeights = int64_t{1} << 18;

inline bool has_instructions(dnnl::cpu_isa wanted) {
  const auto bits = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto needed = static_cast<unsigned>(wanted);
  return (bits & needed) == needed;
}

inline bool multiplies_bfloat16() { return has_instructions(dnnl::cpu_isa::avx512_core_bf16); }

// Intel's vector units have half the throughput in bfloat16 as in float32; its matrix units (AMX) and AMD's vector
// units have more.
inline bool multiplies_bfloat16_faster() {
#if defined(__x86_64__) && defined(__GNUC__)
  return has_instructions(dnnl::cpu_isa::avx512_core_amx) || !__builtin_cpu_is("intel");
#else
  return true;
#endif
}

// Calls `visit` once for each use of a tensor by a node.
template <typename Visit>
void for_operands(const NodeRow& node, Visit visit) {
  for (int tensor : node.inputs) visit(tensor);
  for (const PostOpRow& post : node.post_ops) {
    if (post.operand >= 0) visit(post.operand);
  }
  if (node.quantized == nullptr) return;
  for (int tensor : {node.quantized->weights_scales, node.quantized->source_zero}) {
    if (tensor >= 0) visit(tensor);
  }
}

class Rounding {
 public:
  Rounding(const GraphTable& graph, const std::vector<Dims>& dims)
      : graph_(graph), dims_(dims), constant_(graph.tensors.size), wanted_(graph.tensors.size),
        added_(graph.tensors.size), rounds_(graph.nodes.size) {
    if (!is_asked() || !multiplies_bfloat16()) return;
    for (int tensor = 0; tensor < graph.tensors.size; ++tensor) {
      constant_[tensor] = graph.tensors[tensor].source == Source::constant;
    }
    for (int index = 0; index < graph.nodes.size; ++index) visit(index);
    for (int index = graph.nodes.size - 1; index >= 0; --index) want(index);
  }

  // Whether a node is a product whose operands are rounded.
  bool rounds(int node) const { return rounds_[node]; }

  // Whether a tensor leads to such a product, so that its producer should round it.
  bool wants(int tensor) const { return wanted_[tensor]; }

  // Whether the operands of attention are rounded: in a matrix unit only, which is many times as fast as in float32.
  bool rounds_attention(int index) const {
    const NodeRow& node = graph_.nodes[index];
    const int operands = node.kind == Kind::parted_attention ? 5 : 3;  // without the mask
    if (!has_instructions(dnnl::cpu_isa::avx512_core_amx)) return false;
    return std::all_of(node.inputs.begin(), node.inputs.begin() + operands, [&](int each) { return may_be_rounded(each); });
  }

  // Withdraws the decision for a node that turns out to have no fast bfloat16 implementation.
  void refuse(int node) { rounds_[node] = false; }

  // The line for the description of a plan; empty if no precision was requested.
  std::string note() const {
    if (!is_asked()) return {};
    if (!multiplies_bfloat16()) return "float32: the processor has no instructions for products of bfloat16\n";
    int products = 0, rounded = 0;
    for (int index = 0; index < graph_.nodes.size; ++index) {
      products += is_product(graph_.nodes[index].kind) && !constant_[graph_.nodes[index].output];
      rounded += rounds_[index];
    }
    return "bfloat16: " + std::to_string(rounded) + " of " + std::to_string(products) + " products\n";
  }

  static bool is_product(Kind kind) {
    return kind == Kind::convolution || kind == Kind::deconvolution || kind == Kind::matmul;
  }

  // The kinds that read any type and can round their result.
  static bool rounds_result(Kind kind) {
    return kind == Kind::layer_norm || kind == Kind::rms_norm || kind == Kind::attention;
  }

  // The kinds that compute in the type of their operand.
  static bool follows(Kind kind) {
    switch (kind) {
      case Kind::pooling: case Kind::eltwise: case Kind::binary: case Kind::prelu:
      case Kind::resampling: case Kind::lrn: case Kind::concat: case Kind::reshape:
      case Kind::permute: case Kind::slice: case Kind::gather: case Kind::gather_elements: case Kind::border_pad:
        return true;
      default:
        return false;
    }
  }

 private:
  void visit(int index) {
    const NodeRow& node = graph_.nodes[index];
    bool constant = true;
    for_operands(node, [&](int tensor) { constant = constant && constant_[tensor]; });
    constant_[node.output] = constant;
    if (constant || !is_product(node.kind)) return;
    const bool may_round = may_be_rounded(node.inputs[0]) && may_be_rounded(node.inputs[1]);
    rounds_[index] = may_round && (node.kind == Kind::matmul ? rounds_matrices(node) : rounds_images(node));
  }

  bool is_asked() const {
    const auto is_bfloat16 = [](const TensorRow& tensor) { return tensor.half == Type::bfloat16; };
    return graph_.precision != Precision::fp32 || std::any_of(graph_.tensors.begin(), graph_.tensors.end(), is_bfloat16);
  }

  // Whether a tensor is computed in float32, and may be rounded to bfloat16.
  bool may_be_rounded(int tensor) const {
    const TensorRow& row = graph_.tensors[tensor];
    return row.type == Type::float32 && (graph_.precision != Precision::fp32 || row.half == Type::bfloat16);
  }

  bool only_if_faster() const { return graph_.precision != Precision::bf16 && !multiplies_bfloat16_faster(); }

  bool rounds_matrices(const NodeRow& node) const {
    if (!only_if_faster()) return true;
    const Dims& left = dims_[node.inputs[0]];
    const Dims& right = dims_[node.inputs[1]];
    const int64_t rows = volume(left, 0, left.size() - 1);
    return constant_[node.inputs[1]] && rows <= kFewRows && volume(right, 0, right.size()) >= kLargeWeights;
  }

  bool rounds_images(const NodeRow& node) const {
    const Dims& weights = dims_[node.inputs[1]];
    return !only_if_faster() && weights[weights.size() - parameters_of<ConvolutionRow>(node).strides.size - 1] >= kLeastChannels;
  }

  // Precondition: all readers of the node's result have been visited.
  void want(int index) {
    const NodeRow& node = graph_.nodes[index];
    keep(node);
    const bool passes_on = follows(node.kind) && wanted_[node.output];
    for (int position = 0; position < node.inputs.size; ++position) {
      const bool is_factor = rounds_[index] && position < 2;
      const bool is_data = passes_on && dims_[node.inputs[position]].size() == dims_[node.inputs[0]].size();
      if ((is_factor || is_data) && may_be_rounded(node.inputs[position])) wanted_[node.inputs[position]] = true;
    }
  }

  // A norm whose result is added to a float32 sum (BERT's residual sum, which runs through all layers) stays float32:
  // otherwise the sum would be rounded at each norm, which causes most of the error of such a model.
  void keep(const NodeRow& node) {
    const bool is_view = node.kind == Kind::reshape || node.kind == Kind::permute;
    if (added_[node.output] && (is_view || rounds_result(node.kind))) wanted_[node.output] = false;
    if (wanted_[node.output]) return;
    const bool computes = node.kind == Kind::binary || (follows(node.kind) && added_[node.output]);
    if (computes) std::for_each(node.inputs.begin(), node.inputs.end(), [&](int tensor) { added_[tensor] = true; });
    for (const PostOpRow& post : node.post_ops) {
      if (post.operand >= 0) added_[post.operand] = true;
    }
  }

  const GraphTable& graph_;
  const std::vector<Dims>& dims_;
  std::vector<bool> constant_;
  std::vector<bool> wanted_;
  std::vector<bool> added_;  // to what is float32
  std::vector<bool> rounds_;
};

}  // namespace annotated_region_dnnl
