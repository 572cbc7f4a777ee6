// Numbers of the 16-bit storage types, float16 and bfloat16, as float32 and back.
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

namespace annotated_region_dnnl {
namespace {

// A bfloat16 is the upper half of a float32.
inline __attribute__((always_inline)) float from_bfloat16(uint16_t half) {
  return bits_as<float>(static_cast<uint32_t>(half) << 16);
}

// The exponent bias is 15 in float16 and 127 in float32. Selection by masks lets the compiler vectorize the loops.
// No operand is a subnormal float32, because the process may have enabled flush-to-zero.
inline __attribute__((always_inline)) float from_float16(uint16_t half) {
  constexpr uint32_t shift = (127 - 15) << 23, least = 1 << 23, most = 31 << 23;
  const uint32_t size = static_cast<uint32_t>(half & 0x7fff) << 13;
  const float tiny = bits_as<float>(size + shift + least) - 0x1p-14f;
  const uint32_t is_tiny = -static_cast<uint32_t>(size < least);  // all bits, or none
  const uint32_t is_special = -static_cast<uint32_t>(size >= most);
  const uint32_t bits = (bits_as<uint32_t>(tiny) & is_tiny) | ((size + shift) & ~is_tiny);
  return bits_as<float>(bits | (is_special & 0x7f800000) | static_cast<uint32_t>(half & 0x8000) << 16);
}

// Rounds to the nearest float16, ties to even; 65520 and above become infinity. NaN stays NaN.
inline __attribute__((always_inline)) uint16_t to_float16(float value) {
  constexpr uint32_t shift = (127 - 15) << 23, least = shift + (1 << 23), most = shift + (31 << 23);
  const uint32_t bits = bits_as<uint32_t>(value);
  const uint32_t size = bits & 0x7fffffff;
  // Adding 0.5 rounds to a multiple of the smallest float16 subnormal, 2^-24: that is the ulp of float32 at 0.5.
  const uint32_t tiny = bits_as<uint32_t>(bits_as<float>(size) + 0.5f) - 0x3f000000;
  const uint32_t nearest = (size - shift + 0xfff + (size >> 13 & 1)) >> 13;
  const uint32_t special = size > 0x7f800000 ? 0x7e00 : 0x7c00;
  const uint32_t is_tiny = -static_cast<uint32_t>(size < least);
  const uint32_t is_special = -static_cast<uint32_t>(size >= most);
  const uint32_t finite = (tiny & is_tiny) | (nearest & ~is_tiny);
  return static_cast<uint16_t>((special & is_special) | (finite & ~is_special) | (bits >> 16 & 0x8000));
}

ANNOTATED_REGION_CLONES void widen_bfloat16(const uint16_t* from, float* to, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) to[i] = from_bfloat16(from[i]);
}

ANNOTATED_REGION_CLONES void widen_float16_by_bits(const uint16_t* from, float* to, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) to[i] = from_float16(from[i]);
}

// float16 weights are widened in each call; the processor's instruction takes a third of the time.
#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx512f"))) void widen_float16_by_instruction(const uint16_t* from, float* to, int64_t size) {
  constexpr int64_t width = 16;
  for (; size >= width; size -= width, from += width, to += width) {
    _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
  }
  widen_float16_by_bits(from, to, size);
}

inline void widen_float16(const uint16_t* from, float* to, int64_t size) {
  static const bool has_instruction = __builtin_cpu_supports("avx512f");
  (has_instruction ? widen_float16_by_instruction : widen_float16_by_bits)(from, to, size);
}
#else
inline void widen_float16(const uint16_t* from, float* to, int64_t size) { widen_float16_by_bits(from, to, size); }
#endif

ANNOTATED_REGION_CLONES void narrow_float16(const float* from, uint16_t* to, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) to[i] = to_float16(from[i]);
}

}  // namespace
}  // namespace annotated_region_dnnl
