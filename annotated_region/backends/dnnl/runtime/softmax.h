// Softmax over any axis, in any dense layout. oneDNN's softmax maps NaN to zero, and its log-softmax is only accurate
// to about six digits.

namespace annotated_region_dnnl {
namespace {

template <Mask hiding>
inline __attribute__((always_inline)) float masked(const float* from, float* to, int64_t size, float scale,
                                                   const float* mask, int64_t step, float fill) {
  float largest = -INFINITY;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < size; ++i) {
    float score = from[i] * scale;
    if (hiding == Mask::added) score += mask[i * step];
    if (hiding == Mask::selected) score = mask[i * step] != 0.0f ? score : fill;
    to[i] = score;
    largest = largest < score ? score : largest;
  }
  return largest;
}

// Stores scores * scale, masked; returns the maximum.
ANNOTATED_REGION_CLONES float masked_scores(const float* from, float* to, int64_t size, float scale, Mask hiding,
                                            const float* mask, int64_t step, float fill) {
  if (hiding == Mask::added) return masked<Mask::added>(from, to, size, scale, mask, step, fill);
  if (hiding == Mask::selected) return masked<Mask::selected>(from, to, size, scale, mask, step, fill);
  return masked<Mask::none>(from, to, size, scale, mask, step, fill);
}

// The exponentials of scores less the largest of them; returns their sum.
ANNOTATED_REGION_CLONES float powers(float* scores, int64_t size, float largest) {
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < size; ++i) {
    scores[i] = decay(scores[i] - largest);
    sum += scores[i];
  }
  return sum;
}

// Softmax of a row of scores, in place, given their maximum.
ANNOTATED_REGION_CLONES void normalized_powers(float* row, int64_t size, float largest) {
  const float factor = 1.0f / powers(row, size, largest);
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) row[i] *= factor;
}

// Log-softmax of a row of scores, in place, given their maximum.
ANNOTATED_REGION_CLONES void logarithms_of_shares(float* row, int64_t size, float largest) {
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < size; ++i) sum += decay(row[i] - largest);
  const float shift = logarithm(sum);
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) row[i] = (row[i] - largest) - shift;
}

// The largest scores of columns, with those of one more row.
inline __attribute__((always_inline)) void add_scores(const float* from, int64_t count, float* largest) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) largest[i] = largest[i] < from[i] ? from[i] : largest[i];
}

// The powers of one more row, or what they are powers of; adds them to the sums of their columns.
template <bool logarithms>
inline __attribute__((always_inline)) void add_powers(const float* from, float* to, int64_t count, const float* largest,
                                                      float* sum) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float rest = from[i] - largest[i], power = decay(rest);
    sum[i] += power;
    to[i] = logarithms ? rest : power;
  }
}

// Softmax or log-softmax along `width` columns, at most kColumns, of rows that are `stride` apart. Several rows that lie
// side by side are treated as one, so that vectors are filled if the columns are few, such as the heads of attention.
template <bool logarithms>
inline __attribute__((always_inline)) void normalize_columns(const float* from, float* to, int64_t size, int64_t stride,
                                                             int64_t width) {
  float largest[kColumns];
  float sum[kColumns];
  const int64_t rows = width == stride ? kColumns / stride : 1;
  const int64_t whole = rows * width, step = rows * stride, end = size * stride;
  std::fill_n(largest, whole, -INFINITY);
  std::fill_n(sum, whole, 0.0f);
  for (int64_t row = 0; row < end; row += step) add_scores(from + row, std::min(whole, end - row), largest);
  for (int64_t i = width; i < whole; i += width) add_scores(largest + i, width, largest);
  for (int64_t i = width; i < whole; ++i) largest[i] = largest[i - width];
  for (int64_t row = 0; row < end; row += step) {
    add_powers<logarithms>(from + row, to + row, std::min(whole, end - row), largest, sum);
  }
  for (int64_t i = width; i < whole; ++i) sum[i % width] += sum[i];
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) sum[i] = logarithms ? logarithm(sum[i]) : 1.0f / sum[i];
  for (int64_t i = width; i < whole; ++i) sum[i] = sum[i - width];
  for (int64_t row = 0; row < end; row += step) {
    const int64_t count = std::min(whole, end - row);
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) to[row + i] = logarithms ? to[row + i] - sum[i] : to[row + i] * sum[i];
  }
}

ANNOTATED_REGION_CLONES void softmax_columns(const float* from, float* to, int64_t size, int64_t stride, int64_t width,
                                             bool logarithms) {
  if (logarithms) return normalize_columns<true>(from, to, size, stride, width);
  normalize_columns<false>(from, to, size, stride, width);
}

}  // namespace

// Whether all scores of a row are minus infinity, given their maximum; all weights are then zero.
inline bool shows_nothing(const float* row, int64_t size, float largest) {
  return largest == -INFINITY && std::all_of(row, row + size, [](float score) { return score == -INFINITY; });
}

inline void softmax_row(const float* from, float* to, int64_t size, const SoftmaxRow& given) {
  const float largest = masked_scores(from, to, size, 1.0f, Mask::none, nullptr, 0, 0.0f);
  if (given.algorithm == dnnl_softmax_log) {
    logarithms_of_shares(to, size, largest);
  } else if (given.guarded && shows_nothing(to, size, largest)) {
    std::fill_n(to, size, 0.0f);
  } else {
    normalized_powers(to, size, largest);
  }
}

// Elements along the axis are `stride` apart in memory; the axes inside of it fill that stride.
inline Kernel softmax_kernel(int64_t count, int64_t size, int64_t stride, const SoftmaxRow& given) {
  const int64_t columns = std::min(stride, kColumns);
  const int64_t blocks = (stride + columns - 1) / columns;
  return [=, given = given](const std::vector<char*>& pointers) {
#pragma omp parallel for
    for (int64_t item = 0; item < count / size / stride * blocks; ++item) {
      const int64_t column = item % blocks * columns;
      const int64_t first = item / blocks * size * stride + column;
      const float* from = floats(pointers[0]) + first;
      float* to = floats(pointers[1]) + first;
      if (stride == 1) {
        softmax_row(from, to, size, given);
      } else {
        const bool is_log = given.algorithm == dnnl_softmax_log;
        softmax_columns(from, to, size, stride, std::min(columns, stride - column), is_log);
      }
    }
  };
}

inline void softmax(Builder& builder, const NodeRow& node) {
  const auto& given = parameters_of<SoftmaxRow>(node);
  const int src = node.inputs[0], axis = static_cast<int>(given.axis);
  const Dims& dims = builder.dims(src);
  const Desc dense = builder.dense(src);
  const Desc desc = is_strided(dense) ? retyped(dense, kFloat) : plain(dims, kFloat);
  const int64_t stride = dims[axis] == 1 ? 1 : desc.get_strides()[axis];
  builder.add_unary_kernel(node, softmax_kernel(volume(dims, 0, dims.size()), dims[axis], stride, given), desc, desc,
                           "softmax " + layout_name(desc));
}

}  // namespace annotated_region_dnnl
