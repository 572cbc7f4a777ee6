// Products of few rows with large 16-bit weights. These are memory-bound, so each weight is read once in its stored
// type, and converted to float32 in a register or in the first-level cache.

namespace annotated_region_dnnl {
namespace {

constexpr int64_t kBlockRows = 16, kBlockColumns = 64;  // of the weights: the layout BA16a64b
constexpr int64_t kMostRows = 2;                        // oneDNN is faster with more

using Wide = float __attribute__((vector_size(kAlignment)));  // as many registers as the processor needs for it
constexpr int64_t kWide = sizeof(Wide) / sizeof(float);

// Accumulates the product of a row of `depth` numbers with a block of weights; the sums stay in registers.
ANNOTATED_REGION_CLONES void add_block(const float* from, int64_t depth, const float* block, float* sums) {
  Wide* const to = reinterpret_cast<Wide*>(sums);
  const Wide* next = reinterpret_cast<const Wide*>(block);
  Wide first = to[0], second = to[1], third = to[2], fourth = to[3];
  static_assert(kBlockColumns == 4 * kWide);
  for (int64_t k = 0; k < depth; ++k, next += 4) {
    first += from[k] * next[0];
    second += from[k] * next[1];
    third += from[k] * next[2];
    fourth += from[k] * next[3];
  }
  to[0] = first, to[1] = second, to[2] = third, to[3] = fourth;
}

}  // namespace

struct FewRows {
  int64_t rows, depth, columns;
  DataType stored;
  bool has_bias;

  // One block of columns of the result. Sums of 16 products each are accumulated in float32.
  void run(const float* from, const char* weights, const float* bias, float* to, int64_t index) const {
    const int64_t first = index * kBlockColumns, width = std::min(kBlockColumns, columns - first);
    const int64_t blocks = (depth + kBlockRows - 1) / kBlockRows, size = kBlockRows * kBlockColumns;
    alignas(kAlignment) float sums[kMostRows * kBlockColumns] = {};
    alignas(kAlignment) float block[kBlockRows * kBlockColumns];
    const char* next = weights + index * blocks * size * static_cast<int64_t>(sizeof(uint16_t));
    for (int64_t k = 0; k < depth; k += kBlockRows, next += size * sizeof(uint16_t)) {
      convert_run(stored, next, kFloat, reinterpret_cast<char*>(block), size);
      for (int64_t row = 0; row < rows; ++row) {
        add_block(from + row * depth + k, std::min(kBlockRows, depth - k), block, sums + row * kBlockColumns);
      }
    }
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < width; ++column) {
        to[row * columns + first + column] = sums[row * kBlockColumns + column] + (has_bias ? bias[first + column] : 0.0f);
      }
    }
  }
};

// Whether the current node is a product that this file computes.
inline bool has_few_rows(Builder& builder, const NodeRow& node) {
  const int left = node.inputs[0], right = node.inputs[1];
  const Dims& weights = builder.dims(right);
  if (!builder.is_stored_in_half(right) || builder.rounds() || builder.is_folding() || weights.size() != 2) return false;
  const bool has_vector = node.inputs.size < 3 || volume(builder.dims(node.inputs[2]), 0, 2) == weights[1];
  return has_vector && builder.dims(left)[0] <= kMostRows &&
         volume(weights, 0, 2) * static_cast<int64_t>(sizeof(float)) >= static_cast<int64_t>(kLeastHalved);
}

// One post-op of a product as a separate in-place step.
inline void follow(Builder& builder, const PostOpRow& post, const Desc& desc, Place product) {
  const dnnl::algorithm algorithm = algorithm_of(post.algorithm);
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, desc, product}, {DNNL_ARG_DST, desc, product}};
  if (post.operand < 0 && !is_bound(post)) {
    const dnnl::eltwise_forward::primitive_desc pd(cpu(), dnnl::prop_kind::forward_inference, algorithm, desc, desc,
                                                   post.alpha, post.beta, Builder::attributes());
    return builder.add_step(pd, std::move(arguments), layout_name(desc));
  }
  const Desc operand = is_bound(post) ? plain({1, 1}, kFloat) : builder.plain(post.operand);
  const dnnl::binary::primitive_desc pd(cpu(), algorithm, desc, operand, desc, Builder::attributes());
  const Place place =
      is_bound(post) ? builder.constant(std::vector<float>{post.alpha}) : builder.fetch(post.operand, operand);
  arguments.push_back({DNNL_ARG_SRC_1, operand, place});
  builder.add_step(pd, std::move(arguments), layout_name(desc));
}

inline void few_rows(Builder& builder, const NodeRow& node) {
  const int right = node.inputs[1];
  const Dims &out = builder.dims(node.output), &weights = builder.dims(right);
  const FewRows work{out[0], weights[0], out[1], builder.stored_type(right), node.inputs.size > 2};
  const Desc from = plain(builder.dims(node.inputs[0]), kFloat), to = plain(out, kFloat);
  const Desc packed(weights, kFloat, Tag::BA16a64b);
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, from, builder.fetch(node.inputs[0], from)},
                                     {DNNL_ARG_WEIGHTS, packed, builder.pack_halved(right, packed)}};
  if (work.has_bias) {
    const Desc bias = plain(builder.dims(node.inputs[2]), kFloat);
    arguments.push_back({DNNL_ARG_BIAS, bias, builder.fetch(node.inputs[2], bias)});
  }
  const Place place = builder.fresh(to);
  arguments.push_back({DNNL_ARG_DST, to, place});
  const auto kernel = [work](const std::vector<char*>& pointers) {
    const int64_t blocks = (work.columns + kBlockColumns - 1) / kBlockColumns;
#pragma omp parallel for
    for (int64_t index = 0; index < blocks; ++index) {
      const float* bias = work.has_bias ? floats(pointers[2]) : nullptr;
      work.run(floats(pointers[0]), pointers[1], bias, floats(pointers.back()), index);
    }
  };
  builder.add_kernel(kernel, std::move(arguments), "few rows " + layout_name(retyped(to, work.stored)));
  // As separate steps: oneDNN has only reference code for an element-wise primitive with a binary post-op.
  for (const PostOpRow& post : node.post_ops) follow(builder, post, to, place);
  builder.define(node.output, to, place);
}

}  // namespace annotated_region_dnnl
