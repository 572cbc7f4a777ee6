// Rotary positions: the two halves of each row, as the coordinates of points, turned by angles.

namespace annotated_region_dnnl {
namespace {

ANNOTATED_REGION_CLONES void rotate_run(const float* from, const float* cosines, const float* sines, float* to,
                                        int64_t half) {
#pragma omp simd
  for (int64_t item = 0; item < half; ++item) {
    const float first = from[item], second = from[half + item];
    to[item] = first * cosines[item] - second * sines[item];
    to[half + item] = second * cosines[half + item] + first * sines[half + item];
  }
}

}  // namespace

inline void rotated_row(const Lines& lines, char* result, int64_t size) {
  const Line<float> from = lines.of<float>(0), cosines = lines.of<float>(1), sines = lines.of<float>(2);
  float* const to = floats(result);
  const int64_t half = size / 2;
  if (from.step == 1 && cosines.step == 1 && sines.step == 1) {
    return rotate_run(from.data, cosines.data, sines.data, to, half);
  }
  for (int64_t item = 0; item < half; ++item) {
    const float first = from[item], second = from[half + item];
    to[item] = first * cosines[item] - second * sines[item];
    to[half + item] = second * cosines[half + item] + first * sines[half + item];
  }
}

// inputs: data, cosines, sines; these may repeat.
inline void rotation(Builder& builder, const NodeRow& node) {
  add_repeating_kernel(builder, node, rotated_row, "rotation", RowUse::whole_rows);
}

}  // namespace annotated_region_dnnl
