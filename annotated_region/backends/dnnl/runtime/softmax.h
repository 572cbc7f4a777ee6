// Softmax over any axis, in any dense order. oneDNN's gives zeros for what is no number, and its logarithms are off by
// three units of the sixth digit.

namespace annotated_region_dnnl {

// Whether a row of scores, the largest of which is known, shows nothing: then all its weights are zero.
inline bool shows_nothing(const float* row, int64_t size, float largest) {
  return largest == -INFINITY && std::all_of(row, row + size, [](float score) { return score == -INFINITY; });
}

enum class Softmax { powers, logarithms, guarded };

inline void softmax_row(const float* from, float* to, int64_t size, Softmax form) {
  if (form == Softmax::powers) return softmax_powers(from, to, size);
  std::copy_n(from, size, to);
  const float largest = masked_scores(to, size, 1.0f, Mask::none, nullptr, 0, 0.0f);
  if (form == Softmax::logarithms) {
    logarithms_of_shares(to, size, largest);
  } else if (form == Softmax::guarded && shows_nothing(to, size, largest)) {
    std::fill_n(to, size, 0.0f);
  } else {
    normalized_powers(to, size, largest);
  }
}

// Numbers along the axis are `stride` apart in memory, and what is further inside than the axis fills that stride.
inline Kernel softmax_kernel(int64_t count, int64_t size, int64_t stride, Softmax form) {
  const int64_t columns = std::min(stride, kColumns);
  const int64_t blocks = (stride + columns - 1) / columns;
  return [=](const std::vector<char*>& pointers) {
#pragma omp parallel for
    for (int64_t item = 0; item < count / size / stride * blocks; ++item) {
      const int64_t column = item % blocks * columns;
      const int64_t first = item / blocks * size * stride + column;
      const float* from = floats(pointers[0]) + first;
      float* to = floats(pointers[1]) + first;
      if (stride == 1) {
        softmax_row(from, to, size, form);
      } else {
        softmax_columns(from, to, size, stride, std::min(columns, stride - column), form == Softmax::logarithms);
      }
    }
  };
}

inline void softmax_over(Builder& builder, const NodeRow& node, int axis, Softmax form) {
  const int src = node.inputs[0];
  const Dims& dims = builder.dims(src);
  const Desc dense = builder.dense(src);
  const Desc desc = is_strided(dense) ? retyped(dense, kFloat) : plain(dims, kFloat);
  const int64_t stride = dims[axis] == 1 ? 1 : desc.get_strides()[axis];
  builder.add_unary_kernel(softmax_kernel(volume(dims, 0, dims.size()), dims[axis], stride, form), desc, desc,
                           "softmax " + layout_name(desc));
}

// ints: axis.
inline void softmax(Builder& builder, const NodeRow& node) {
  const bool is_log = algorithm_of(node.algorithm) == dnnl::algorithm::softmax_log;
  softmax_over(builder, node, static_cast<int>(node.ints[0]), is_log ? Softmax::logarithms : Softmax::powers);
}

// Over the last axis; zeros for a row that shows nothing.
inline void guarded_softmax(Builder& builder, const NodeRow& node) {
  softmax_over(builder, node, static_cast<int>(builder.dims(node.output).size()) - 1, Softmax::guarded);
}

}  // namespace annotated_region_dnnl
