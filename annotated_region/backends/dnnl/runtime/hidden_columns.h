// The columns at the end of a block of attention's rows that a mask hides, such as the later tokens of a prompt: they
// need not be read where their weights are certainly zero.

namespace annotated_region_dnnl {
namespace {

constexpr float kHidden = -1e20f;      // a mask that adds no more hides a column
constexpr float kLeastShown = -1e19f;  // a row whose largest score is less may show hidden columns
constexpr float kMostProduct = 1e18f;  // of a query and a key, which then cannot show a hidden column

// The bits of the largest absolute value, ordered like the values, with infinity and NaN above all numbers.
ANNOTATED_REGION_CLONES int32_t largest_magnitude(const float* from, int64_t size) {
  int32_t largest = 0;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < size; ++i) {
    const int32_t bits = bits_as<int32_t>(from[i]) & 0x7fffffff;
    largest = largest < bits ? bits : largest;
  }
  return largest;
}

// One more than the last column from `first` on that a row of a mask does not hide; `first` if there is none.
ANNOTATED_REGION_CLONES int32_t end_of_shown(const float* mask, int32_t first, int32_t columns) {
  int32_t end = first;
#pragma omp simd reduction(max : end)
  for (int32_t column = first; column < columns; ++column) {
    const int32_t shown = mask[column] <= kHidden ? 0 : column + 1;
    end = end < shown ? shown : end;
  }
  return end;
}

}  // namespace
}  // namespace annotated_region_dnnl
