// The operands of products in bfloat16: rows, and the weights of a tile, which are expanded once for many rows.
//
// An instruction multiplies pairs of neighbouring numbers of a row with pairs of neighbouring numbers of a column, and
// adds both products to a float. The matrix unit (Intel's AMX) does so for 16 rows, 16 columns and 16 pairs at once, so
// that operands lie in tiles of a kilobyte, in the order in which a product reads them:
//
//     rows       [32 rows][step]           2 tiles: [row][pair]
//     weights    [32 columns][step]        2 tiles: [pair][column]      a step has a depth of 32
//
// A weight is (number - zero point) * scale, as everywhere, and is then rounded: with the scale in it, the sums of all
// groups are one sum. Rounding is to the nearest, ties to even; what is subnormal becomes zero. NaN and infinity stay.
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

namespace annotated_region_dnnl {
namespace {

constexpr int64_t kStepDepth = 32;
constexpr int64_t kPairsOfStep = kStepDepth / 2;
constexpr int64_t kPairBlockRows = 2 * kTileRows;
constexpr int64_t kPairTileBytes = kTileRows * kTileBytes;
constexpr int64_t kStepBytes = 2 * kPairTileBytes;  // of a block of rows, and of a slice of columns
constexpr int64_t kMostSteps = 64;                  // whose operands are kept at a time

// The assemblers beside older compilers do not know these instructions.
#if (defined(__clang__) && __clang_major__ >= 9) || (!defined(__clang__) && defined(__GNUC__) && __GNUC__ >= 10)
#define ANNOTATED_REGION_PAIRS(text) text
constexpr bool kAssemblesPairs = true;
#else
#define ANNOTATED_REGION_PAIRS(text) ""
constexpr bool kAssemblesPairs = false;
#endif

// A part of the depth of a product, which begins at a step.
struct DepthSpan {
  int64_t first, last;

  int64_t steps() const { return (last - first + kStepDepth - 1) / kStepDepth; }
  int64_t bytes() const { return steps() * kStepBytes; }  // of a block of rows, or of a slice of columns
};

// The parts of a depth, of about the same size.
struct DepthSpans {
  int64_t depth;

  int64_t steps() const { return DepthSpan{0, depth}.steps(); }
  int64_t count() const { return (steps() + kMostSteps - 1) / kMostSteps; }
  int64_t size() const { return (steps() + count() - 1) / count() * kStepDepth; }
  DepthSpan at(int64_t index) const { return {std::min(index * size(), depth), std::min((index + 1) * size(), depth)}; }
  int64_t bytes() const { return size() / kStepDepth * kStepBytes; }  // of the largest
};

#if defined(__x86_64__) && defined(__GNUC__)
// Rounds 32 floats to bfloat16. In assembly, because not every compiler that builds this library knows the intrinsic.
ANNOTATED_REGION_VNNI_INLINE __m512i rounded_numbers(__m512 lower, __m512 upper) {
  __m512i rounded;
  asm(ANNOTATED_REGION_PAIRS("vcvtne2ps2bf16 %2, %1, %0") : "=v"(rounded) : "v"(upper), "v"(lower));
  return rounded;
}

// One number of each word of 16 columns, as a float. A permutation looks at the lowest four bits only.
template <int kBits>
ANNOTATED_REGION_VNNI_INLINE __m512 number_of_words(__m512i words, int item) {
  if constexpr (kBits == 8) return _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(words, 24 - 8 * item), 24));
  const __m512 numbers = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1);
  return _mm512_permutexvar_ps(_mm512_srli_epi32(words, 4 * item), numbers);
}

// The scales of a group of a tile, and its zero points.
template <bool kZeros>
struct GroupScales {
  __m512 scales[4], zeros[4];

  ANNOTATED_REGION_VNNI_INLINE GroupScales(const PackedWeight& weight, const char* group) {
#pragma GCC unroll 4
    for (int vector = 0; vector < 4; ++vector) {
      scales[vector] = load_scales(weight, group, vector * 16);
      zeros[vector] = kZeros ? load_scales(weight, group, kTileColumns + vector * 16) : _mm512_setzero_ps();
    }
  }

  ANNOTATED_REGION_VNNI_INLINE __m512 weights(__m512 numbers, int vector) const {
    if (kZeros) numbers = _mm512_sub_ps(numbers, zeros[vector]);
    return _mm512_mul_ps(numbers, scales[vector]);
  }
};

// Expands the words of 64 columns; `slice` is the distance of the two slices.
template <int kBits, bool kZeros>
ANNOTATED_REGION_VNNI_INLINE void expand_words(const char* stored, const GroupScales<kZeros>& group, char* to,
                                               int64_t slice, __m512i interleaved) {
#pragma GCC unroll 4
  for (int vector = 0; vector < 4; ++vector) {
    const __m512i words = _mm512_load_si512(stored + vector * 64);
    char* const out = to + vector / 2 * slice + vector % 2 * kPairTileBytes;
#pragma GCC unroll 4
    for (int pair = 0; pair < kWordBits / kBits / 2; ++pair) {
      const __m512 lower = group.weights(number_of_words<kBits>(words, 2 * pair), vector);
      const __m512 upper = group.weights(number_of_words<kBits>(words, 2 * pair + 1), vector);
      const __m512i both = _mm512_permutexvar_epi16(interleaved, rounded_numbers(lower, upper));
      _mm512_store_si512(out + pair * kTileBytes, both);
    }
  }
}

ANNOTATED_REGION_VNNI_INLINE __m512i interleaving() {
  __m512i order = _mm512_setzero_si512();
  const __m512i counted = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  order = _mm512_or_si512(counted, _mm512_slli_epi32(_mm512_add_epi32(counted, _mm512_set1_epi32(16)), 16));
  return order;
}

// Expands a span of a tile: two slices. Behind the depth of the weight, weights are zero.
template <int kBits, bool kZeros>
ANNOTATED_REGION_VNNI void expand_span(const PackedWeight& weight, const char* tile, DepthSpan span, char* to) {
  constexpr int64_t kEach = kWordBits / kBits;
  const int64_t slice = span.bytes(), size = weight.group;
  const __m512i interleaved = interleaving();
  const auto place = [&](int64_t row) {
    const int64_t pair = (row - span.first) / 2;
    return to + pair / kPairsOfStep * kStepBytes + pair % kPairsOfStep * kTileBytes;
  };
  int64_t row = span.first;
  while (row < span.last) {
    const int64_t index = row / size, last = std::min(span.last, (index + 1) * size);
    const char* const group = tile + index * weight.group_bytes();
    const char* stored = group + weight.scale_bytes() + (row - index * size) / kEach * kTileColumns * 4;
    const GroupScales<kZeros> scales(weight, group);
    for (; row < last; row += kEach, stored += kTileColumns * 4) {
      expand_words<kBits, kZeros>(stored, scales, place(row), slice, interleaved);
    }
  }
  for (const int64_t end = span.first + span.steps() * kStepDepth; row < end; row += 2) {
    for (int vector = 0; vector < 4; ++vector) {
      _mm512_store_si512(place(row) + vector / 2 * slice + vector % 2 * kPairTileBytes, _mm512_setzero_si512());
    }
  }
}

inline void expand_to_pairs(const PackedWeight& weight, const char* tile, DepthSpan span, char* to) {
  const auto expand = weight.bits == 4 ? (weight.has_zeros ? expand_span<4, true> : expand_span<4, false>)
                                       : (weight.has_zeros ? expand_span<8, true> : expand_span<8, false>);
  expand(weight, tile, span, to);
}

// Rounds a span of up to 32 rows, which are `depth` apart. Behind their depth, numbers are zero.
ANNOTATED_REGION_VNNI inline void round_rows(const float* from, int64_t depth, int64_t rows, DepthSpan span, char* to) {
  for (int64_t row = 0; row < rows; ++row, from += depth, to += kTileBytes) {
    char* out = to;
    for (int64_t k = span.first; k < span.last; k += kStepDepth, out += kStepBytes) {
      const int64_t left = span.last - k;
      const __m512 lower = _mm512_maskz_loadu_ps(present(left), from + k);
      const __m512 upper = left > 16 ? _mm512_maskz_loadu_ps(present(left - 16), from + k + 16) : _mm512_setzero_ps();
      _mm512_store_si512(out, rounded_numbers(lower, upper));
    }
  }
}
#else
inline void expand_to_pairs(const PackedWeight&, const char*, DepthSpan, char*) {}
inline void round_rows(const float*, int64_t, int64_t, DepthSpan, char*) {}
#endif

}  // namespace
}  // namespace annotated_region_dnnl
