// Vectorizable loops over rows, compiled for several instruction sets; the best is selected at load time.
#include <cmath>
#include <cstdint>
#include <cstring>

// By CPU features: a clone for "arch=skylake-avx512" would be selected only on that model, not on later ones.
#if !defined(__x86_64__) || !defined(__GNUC__) || defined(__clang__)
#define ANNOTATED_REGION_CLONES
#elif __GNUC__ >= 12
#define ANNOTATED_REGION_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define ANNOTATED_REGION_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#endif

namespace annotated_region_dnnl {
namespace {

// Reinterprets the bits as another type.
template <typename To, typename From>
inline __attribute__((always_inline)) To bits_as(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To result;
  std::memcpy(&result, &value, sizeof result);
  return result;
}

// A polynomial of x by Horner's rule, from its highest coefficient to the lowest.
template <typename T>
inline __attribute__((always_inline)) T polynomial(T, T sum) {
  return sum;
}
template <typename T, typename... Rest>
inline __attribute__((always_inline)) T polynomial(T x, T sum, T next, Rest... rest) {
  return polynomial(x, sum * x + next, rest...);
}

// exp in two factors: power * 2^turns, for turns of -126 to 127 at least, with an error of at most two units in the last
// place. Cody and Waite's range reduction to [-ln 2 / 2, ln 2 / 2], then the polynomial of Cephes.
struct Exponential {
  float power, turns;  // a whole number of turns, behind 1.5 * 2^23: the last bits are those of the number
};
inline __attribute__((always_inline)) Exponential exponential_in_factors(float x) {
  const float turns = x * 1.44269504f + 12582912.0f;  // rounds to whole numbers
  const float whole = turns - 12582912.0f;
  const float rest = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  const float highest = polynomial(rest, 1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f,
                                   1.6666665459e-1f, 5.0000001201e-1f);
  return {highest * rest * rest + rest + 1.0f, turns};
}

constexpr float kLowestExponent = -87.3365402f;  // the power of any number below is subnormal

// exp; 0 where the result would be subnormal. The exponent is added to that of the power, which is about 1, so that the
// largest results do not overflow early. A last selection makes NaN of NaN.
inline __attribute__((always_inline)) float exponential(float x) {
  const auto [power, turns] = exponential_in_factors(x);
  const float whole = bits_as<float>(bits_as<uint32_t>(power) + (bits_as<uint32_t>(turns) << 23));
  const float result = x < kLowestExponent ? 0.0f : whole;
  return x < 88.7228394f ? result : x + INFINITY;
}

// The same bits for numbers from kLowestExponent to 0, and NaN for NaN, without selections: a factor suffices.
inline __attribute__((always_inline)) float bounded_decay(float x) {
  const auto [power, turns] = exponential_in_factors(x);
  // Shifted, the bits of 1.5 * 2^23 vanish. The product keeps NaN, whatever the factor.
  return power * bits_as<float>((bits_as<uint32_t>(turns) << 23) + 0x3f800000u);
}

// The same for all numbers up to 0.
inline __attribute__((always_inline)) float decay(float x) {
  const float power = bounded_decay(x < kLowestExponent ? kLowestExponent : x);
  return x < kLowestExponent ? 0.0f : power;
}

// log, computed in double precision and rounded once: the nearest float32, except for about one in ten million
// arguments. x = 2^k m with m in [sqrt(1/2), sqrt(2)], and log(m) = 2 artanh((m - 1) / (m + 1)) by its series.
inline __attribute__((always_inline)) float logarithm(float x) {
  constexpr uint64_t one = 0x3ff0000000000000;
  constexpr uint64_t half_root = 0x3fe6a09e667f3bcd;  // sqrt(1/2)
  constexpr uint64_t whole = 0x4330000000000000;      // 2^52, whose last bits count ones
  const double wide = x;                              // never subnormal
  const uint64_t bits = bits_as<uint64_t>(wide) + (one - half_root);
  const double order = bits_as<double>(bits >> 52 | whole);
  const double mantissa = bits_as<double>((bits & 0x000fffffffffffff) + half_root);
  const double ratio = (mantissa - 1.0) / (mantissa + 1.0);
  const double square = ratio * ratio;
  const double series = polynomial(square, 1.0 / 19.0, 1.0 / 17.0, 1.0 / 15.0, 1.0 / 13.0, 1.0 / 11.0, 1.0 / 9.0,
                                   1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0);
  const double rest = 2.0 * ratio + 2.0 * ratio * square * series;
  const float result = static_cast<float>((order - (4503599627370496.0 + 1023.0)) * 0.69314718055994530942 + rest);
  // Selection by integer masks: branches would prevent vectorization.
  const uint32_t given_bits = bits_as<uint32_t>(x);
  constexpr uint32_t infinity = 0x7f800000;
  const uint32_t negative = given_bits << 1 == 0 ? infinity | 0x80000000 : 0x7fc00000;  // of zero and of what is below
  const uint32_t outside = given_bits == infinity ? infinity : negative;
  const uint32_t inside = -static_cast<uint32_t>(given_bits - 1 < infinity - 1);  // all bits, or none
  return bits_as<float>((bits_as<uint32_t>(result) & inside) | (outside & ~inside));
}

// The sine of x, turned by some quarters of a circle, for angles up to kLargestAngle; computed in double precision and
// rounded once: the nearest float32, except for about one in ten million arguments. Cody and Waite's range reduction to
// [-pi / 4, pi / 4] with pi / 2 in two parts, of which the first has 33 bits, then Taylor's series.
constexpr float kLargestAngle = 1.0e6f;  // so that quarters times the first part are exact

inline __attribute__((always_inline)) float turned_sine(float x, uint64_t quarters) {
  const double turns = x * 0.63661977236758134308 + 6755399441055744.0;  // 1.5 * 2^52: rounds to whole numbers
  const double whole = turns - 6755399441055744.0;
  const double rest = (x - whole * 1.57079632673412561417) - whole * 6.07710050650619224932e-11;
  const double square = rest * rest;
  const double sine = rest * polynomial(square, -1.0 / 1307674368000.0, 1.0 / 6227020800.0, -1.0 / 39916800.0,
                                        1.0 / 362880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0, 1.0);
  const double cosine = polynomial(square, -1.0 / 87178291200.0, 1.0 / 479001600.0, -1.0 / 3628800.0, 1.0 / 40320.0,
                                   -1.0 / 720.0, 1.0 / 24.0, -0.5, 1.0);
  const uint64_t quarter = bits_as<uint64_t>(turns) + quarters;
  const uint64_t odd = -(quarter & 1);  // all bits, or none
  const uint64_t size = (bits_as<uint64_t>(sine) & ~odd) | (bits_as<uint64_t>(cosine) & odd);
  return static_cast<float>(bits_as<double>(size ^ (quarter & 2) << 62));
}

// erf with an error of at most two units in the last place. Up to 1: an odd polynomial; up to 4: 1 - exp(-g) with a
// polynomial for g = -log(1 - erf); beyond: 1. Both polynomials are Chebyshev fits.
inline __attribute__((always_inline)) float gauss_error(float x) {
  const float size = __builtin_fabsf(x);
  const float square = x * x;
  const float odd = polynomial(square, -9.67359080e-6f, 1.12682539e-4f, -8.48439655e-4f, 5.22105341e-3f,
                               -2.68654383e-2f, 1.12837826e-1f, -3.76126385e-1f, 1.28379167e-1f);
  const float bounded = size > 4.0f ? 4.0f : size;
  const float left = polynomial(bounded, -1.61406160e-6f, 4.55906229e-5f, -5.92769531e-4f, 4.74022236e-3f,
                                -2.63647176e-2f, 1.09978244e-1f, 6.31937087e-1f, 1.13016665f, -3.03212961e-4f);
  const float far = __builtin_copysignf(1.0f - bounded_decay(-left), x);
  return size < 1.0f ? x * odd + x : far;
}

ANNOTATED_REGION_CLONES void gauss_error_run(const float* from, float* to, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) to[i] = gauss_error(from[i]);
}

ANNOTATED_REGION_CLONES void exponential_run(const float* from, float* to, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) to[i] = exponential(from[i]);
}

ANNOTATED_REGION_CLONES void logarithm_run(const float* from, float* to, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) to[i] = logarithm(from[i]);
}

// Whether all angles are small enough; no number is.
ANNOTATED_REGION_CLONES bool are_small_angles(const float* from, int64_t size) {
  int large = 0;
#pragma omp simd reduction(| : large)
  for (int64_t i = 0; i < size; ++i) large |= !(__builtin_fabsf(from[i]) <= kLargestAngle);
  return large == 0;
}

ANNOTATED_REGION_CLONES void small_sine_run(const float* from, float* to, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) to[i] = turned_sine(from[i], 0);
}

ANNOTATED_REGION_CLONES void small_cosine_run(const float* from, float* to, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) to[i] = turned_sine(from[i], 1);
}

ANNOTATED_REGION_CLONES void floor_run(const float* from, float* to, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) to[i] = __builtin_floorf(from[i]);
}

ANNOTATED_REGION_CLONES void ceiling_run(const float* from, float* to, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) to[i] = __builtin_ceilf(from[i]);
}

ANNOTATED_REGION_CLONES void truncation_run(const float* from, float* to, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) to[i] = __builtin_truncf(from[i]);
}

// x Phi(x) as max(x, 0) - |x| Phi(-|x|), by Abramowitz and Stegun's 7.1.26, with an error of at most 1.5e-7; beyond
// 20 the second term vanishes. Minus infinity gives 0 * x, which is NaN.
inline __attribute__((always_inline)) float gauss_linear(float x) {
  const float whole = __builtin_fabsf(x);
  const float size = whole > 20.0f ? 20.0f : whole;
  const float t = 1.0f / (1.0f + 0.231641889f * size);
  const float tail = polynomial(t, 0.530702715f, -0.726576014f, 0.710706870f, -0.142248368f, 0.127414796f);
  const float rest = size * tail * t * decay(-0.5f * size * size);
  const float result = (x > 0.0f ? x : 0.0f) - rest;
  return x == -INFINITY ? NAN : result;
}

ANNOTATED_REGION_CLONES void gelu_run(const float* from, float* to, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) to[i] = gauss_linear(from[i]);
}

// x times its sigmoid, by exp(-|x|), which does not overflow. Minus infinity gives -inf * 0, which is NaN.
ANNOTATED_REGION_CLONES void silu_run(const float* from, float* to, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) {
    const float power = decay(-__builtin_fabsf(from[i]));
    to[i] = from[i] * ((from[i] < 0.0f ? power : 1.0f) / (1.0f + power));
  }
}

ANNOTATED_REGION_CLONES void add_run(const float* left, const float* right, float* to, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) to[i] = left[i] + right[i];
}

ANNOTATED_REGION_CLONES void multiply_run(const float* left, const float* right, float* to, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) to[i] = left[i] * right[i];
}

// A product, to which a zero is added: 0 makes -0 to 0, and -0 leaves all as it is.
ANNOTATED_REGION_CLONES void scale_run(const float* from, float* to, int64_t size, float factor, float zero) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) to[i] = from[i] * factor + zero;
}

// Maps NaN to the upper bound, like TVM.
ANNOTATED_REGION_CLONES void clip_run(const float* from, float* to, int64_t size, float low, float high) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) {
    const float least = from[i] < high ? from[i] : high;
    to[i] = least < low ? low : least;
  }
}

// The argument whose sqrt equals pow(x, 0.5); the two differ for -0.0 and minus infinity.
inline __attribute__((always_inline)) float rooted(float x) { return x == -INFINITY ? INFINITY : x + 0.0f; }

ANNOTATED_REGION_CLONES void half_power_run(const float* from, float* to, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) to[i] = std::sqrt(rooted(from[i]));
}

ANNOTATED_REGION_CLONES void inverse_half_power_run(const float* from, float* to, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) to[i] = 1.0f / std::sqrt(rooted(from[i]));
}

ANNOTATED_REGION_CLONES void reciprocal_root_run(const float* from, float* to, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) to[i] = 1.0f / std::sqrt(from[i]);
}

constexpr int64_t kColumns = 64;  // that a loop over rows goes down at once

// Rounds to the nearest bfloat16, ties to even; returns the upper half of the bits. NaN stays NaN.
inline __attribute__((always_inline)) uint16_t rounded(float value) {
  const uint32_t bits = bits_as<uint32_t>(value);
  const uint32_t nearest = bits + 0x7fff + (bits >> 16 & 1);
  return static_cast<uint16_t>((value == value ? nearest : bits | 0x400000) >> 16);
}

ANNOTATED_REGION_CLONES void round_row(const float* from, uint16_t* to, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) to[i] = rounded(from[i]);
}

// The factor that scales the root mean square of a row to one.
inline __attribute__((always_inline)) float inverse_root_mean_square(const float* row, int64_t size, float epsilon) {
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < size; ++i) sum += row[i] * row[i];
  return 1.0f / std::sqrt(sum / static_cast<float>(size) + epsilon);
}

// Divides a row by its root mean square and multiplies it by the scale.
ANNOTATED_REGION_CLONES void normalize_row(const float* from, const float* scale, float* to, int64_t size,
                                           float epsilon) {
  const float factor = inverse_root_mean_square(from, size, epsilon);
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) to[i] = from[i] * factor * scale[i];
}

// The same, rounded to bfloat16.
ANNOTATED_REGION_CLONES void normalize_row(const float* from, const float* scale, uint16_t* to, int64_t size,
                                           float epsilon) {
  const float factor = inverse_root_mean_square(from, size, epsilon);
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) to[i] = rounded(from[i] * factor * scale[i]);
}

}  // namespace
}  // namespace annotated_region_dnnl
