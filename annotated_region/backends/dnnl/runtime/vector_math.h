// Loops over rows of numbers, compiled for several instruction sets; the machine's best is chosen when loading.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

// By what the processor can do: a clone for "arch=skylake-avx512" is for that very model, and no later one.
#if !defined(__x86_64__) || !defined(__GNUC__) || defined(__clang__)
#define ANNOTATED_REGION_CLONES
#elif __GNUC__ >= 12
#define ANNOTATED_REGION_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define ANNOTATED_REGION_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#endif

namespace annotated_region_dnnl {
namespace {

// The natural exponential function to two units in the last place; 0 below the smallest normal number.
// Cody and Waite's reduction to half a binary order, then Cephes' polynomial.
inline __attribute__((always_inline)) float exponential(float x) {
  const float low = -87.3365448f;
  const float high = 88.7228394f;
  const float bounded = x < low ? low : (x > high ? high : x);
  const float turns = bounded * 1.44269504f + 12582912.0f;  // rounds to whole numbers
  const float whole = turns - 12582912.0f;
  const float rest = (bounded - whole * 0.693359375f) + whole * 2.12194440e-4f;
  float power = 1.9875691500e-4f;
  power = power * rest + 1.3981999507e-3f;
  power = power * rest + 8.3334519073e-3f;
  power = power * rest + 4.1665795894e-2f;
  power = power * rest + 1.6666665459e-1f;
  power = power * rest + 5.0000001201e-1f;
  power = power * rest * rest + rest + 1.0f;
  int32_t exponent;  // the lowest bits of the sum; the cast of what is not a number would be undefined
  std::memcpy(&exponent, &turns, sizeof exponent);
  exponent -= 0x4b400000;
  const int32_t half = exponent / 2;  // in two steps, so that the largest results do not overflow early
  const uint32_t first_bits = static_cast<uint32_t>(half + 127) << 23;
  const uint32_t second_bits = static_cast<uint32_t>(exponent - half + 127) << 23;
  float first;
  float second;
  std::memcpy(&first, &first_bits, sizeof first);
  std::memcpy(&second, &second_bits, sizeof second);
  return x < low ? 0.0f : power * first * second;
}

// To two units in the last place. Up to one, an odd polynomial; then 1 - exp(-g) with a polynomial for g, which is
// the logarithm of what is left to one; beyond four, one. Both are Chebyshev fits.
inline __attribute__((always_inline)) float gauss_error(float x) {
  const float size = __builtin_fabsf(x);
  const float square = x * x;
  float odd = -9.67359080e-6f;
  odd = odd * square + 1.12682539e-4f;
  odd = odd * square - 8.48439655e-4f;
  odd = odd * square + 5.22105341e-3f;
  odd = odd * square - 2.68654383e-2f;
  odd = odd * square + 1.12837826e-1f;
  odd = odd * square - 3.76126385e-1f;
  odd = odd * square + 1.28379167e-1f;
  const float bounded = size > 4.0f ? 4.0f : size;
  float left = -1.61406160e-6f;
  left = left * bounded + 4.55906229e-5f;
  left = left * bounded - 5.92769531e-4f;
  left = left * bounded + 4.74022236e-3f;
  left = left * bounded - 2.63647176e-2f;
  left = left * bounded + 1.09978244e-1f;
  left = left * bounded + 6.31937087e-1f;
  left = left * bounded + 1.13016665f;
  left = left * bounded - 3.03212961e-4f;
  const float far = __builtin_copysignf(1.0f - exponential(-left), x);
  return size < 1.0f ? x * odd + x : far;
}

ANNOTATED_REGION_CLONES void gauss_error_run(const float* from, float* to, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) to[i] = gauss_error(from[i]);
}

// What hides scores before a softmax.
enum class Mask { none, added, selected };

// scores * scale, masked; returns the largest.
ANNOTATED_REGION_CLONES float masked_scores(float* row, int64_t size, float scale, Mask mode, const float* mask,
                                            int64_t step, float fill) {
  float largest = -INFINITY;
  if (mode == Mask::none) {
#pragma omp simd reduction(max : largest)
    for (int64_t i = 0; i < size; ++i) {
      row[i] *= scale;
      largest = largest < row[i] ? row[i] : largest;
    }
  } else if (mode == Mask::added) {
#pragma omp simd reduction(max : largest)
    for (int64_t i = 0; i < size; ++i) {
      row[i] = row[i] * scale + mask[i * step];
      largest = largest < row[i] ? row[i] : largest;
    }
  } else {
#pragma omp simd reduction(max : largest)
    for (int64_t i = 0; i < size; ++i) {
      row[i] = mask[i * step] != 0.0f ? row[i] * scale : fill;
      largest = largest < row[i] ? row[i] : largest;
    }
  }
  return largest;
}

// Probabilities from scores whose largest is known.
ANNOTATED_REGION_CLONES void normalized_powers(float* row, int64_t size, float largest) {
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < size; ++i) {
    row[i] = exponential(row[i] - largest);
    sum += row[i];
  }
  const float factor = 1.0f / sum;
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) row[i] *= factor;
}

// To the nearest bfloat16, ties to even: the upper half of the bits. What is not a number stays so.
inline __attribute__((always_inline)) uint16_t rounded(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint32_t nearest = bits + 0x7fff + (bits >> 16 & 1);
  return static_cast<uint16_t>((value == value ? nearest : bits | 0x400000) >> 16);
}

ANNOTATED_REGION_CLONES void round_row(const float* from, uint16_t* to, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) to[i] = rounded(from[i]);
}

// What brings the root mean square of a row to one.
inline __attribute__((always_inline)) float inverse_root_mean_square(const float* row, int64_t size, float epsilon) {
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < size; ++i) sum += row[i] * row[i];
  return 1.0f / std::sqrt(sum / static_cast<float>(size) + epsilon);
}

// One row by its root mean square, times the scale.
ANNOTATED_REGION_CLONES void normalize_row(const float* from, const float* scale, float* to, int64_t size,
                                           float epsilon) {
  const float factor = inverse_root_mean_square(from, size, epsilon);
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) to[i] = from[i] * factor * scale[i];
}

// The same, rounded.
ANNOTATED_REGION_CLONES void normalize_row(const float* from, const float* scale, uint16_t* to, int64_t size,
                                           float epsilon) {
  const float factor = inverse_root_mean_square(from, size, epsilon);
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) to[i] = rounded(from[i] * factor * scale[i]);
}

}  // namespace
}  // namespace annotated_region_dnnl
