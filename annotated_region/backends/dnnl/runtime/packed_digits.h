// The product of one row with a packed weight in integers, for processors with AVX-512 VNNI: it takes a third of the
// instructions of a float product.
//
// The numbers of the row that belong to one group of weights are converted to integers of 23 bits, scaled by the
// largest of them, and split into three signed digits of 8 bits:
//
//     x = unit * (65536 * high + 256 * middle + low)
//
// The rounding error is less than the last bit of a float32 of the magnitude of the group's largest number. An option
// selects two digits or one, with larger units: then the error is up to 1/65000 or 1/254 of that number. A product of
// digits with weights, and its sum over a group, is exact; groups are summed in floats. An instruction multiplies the
// four bytes of a lane with four digits, so the digits must be in the order of the bytes of a word of weights: those of
// rows 0, 2, 4 and 6, then of 1, 3, 5 and 7 (4 bits), or of 0 to 3 (8 bits).
#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace annotated_region_dnnl {
namespace {

constexpr int64_t kMostDigits = 3;
constexpr int64_t kBytesOfWord = kWordBits / 8;
constexpr int64_t kLongestExact = 256;       // rows of a group whose sums of digits are exact in float32
constexpr float kSmallestLargest = 1e-30f;   // of a group: a smaller one has no normal unit
constexpr float kFinite = 3.4028235e38f;

// How a thread reads weights: the adjacent tiles that it reads by turns, a group of each; how far ahead of the products
// it asks for them, in bytes; and for how many lines of the 256 bytes of a row of a tile.
//
// The processor itself looks ahead by the instructions in flight, which cover a kilobyte of weights; that is less than the
// latency of memory. Prefetches go to the second-level cache, as those of attention do: a hint that bypasses it
// (`_MM_HINT_NTA`) made a step three times as slow on an Intel Granite Rapids, where such lines are dropped from the first
// level before they are read.
//
// That processor reads several streams faster than one, because its own prefetcher follows each within its page: two
// threads read 33.5 to 35.7 GB/s of 290 MB so, in place of 32.0 to 33.4. Four tiles at once are not faster; the distance
// was 2, 3, 4 and 8 kB: 34.3, 36.6, 31.9 and 32.7 GB/s.
struct TwoStreams {
  static constexpr int kTiles = 2, kAhead = 2048, kLines = 4;
};

// AMD's read one stream faster than two, and their prefetcher follows it within its page, so that one line of four is
// enough to make it begin with the next pages early. On a Zen 4 (EPYC) one thread read weights of 4 bits that no cache
// holds at 20.3 GB/s as two streams and at 30.3 so; 8 kB ahead with all lines asked for at 17.3, with none at 29.1. A plain
// loop read 30.5. With one digit these were 20.6, 31.1, 31.2 and 29.6 GB/s.
struct OneStream {
  static constexpr int kTiles = 1, kAhead = 8192, kLines = 1;
};

// A Zen 5 keeps more lines on their way: two threads of an EPYC, whose plain loop read 66 to 79 GB/s, read weights of 4 and
// 8 bits in three digits at 54 and 69 GB/s as above, at 57 and 70 without prefetches, at 61 and 73 with all lines 4 kB
// ahead, and at 62 and 75 so; with one digit at 65 and 76 as above and at 67 and 75 so.
struct FullStream {
  static constexpr int kTiles = 1, kAhead = 6144, kLines = 4;
};

constexpr int64_t kMostTilesAtOnce = TwoStreams::kTiles;

enum class Streams { two, one, full };

inline Streams best_streams() {
#if defined(__x86_64__) && defined(__GNUC__)
  if (!__builtin_cpu_is("amd")) return Streams::two;
  unsigned signature = 0, unused = 0;
  __get_cpuid(1, &signature, &unused, &unused, &unused);
  const unsigned family = (signature >> 8 & 0xf) + (signature >> 20 & 0xff);  // as AMD counts them: 0x19 is Zen 3 and 4
  return family > 0x19 ? Streams::full : Streams::one;
#else
  return Streams::two;
#endif
}

inline Streams streams() {
  static const Streams best = best_streams();
  return best;
}

inline bool reads_one_stream() { return streams() != Streams::two; }

inline int64_t tiles_at_once() { return reads_one_stream() ? OneStream::kTiles : TwoStreams::kTiles; }

// The integer for the largest number of a group: digits of 127, the lowest reduced by what rounding may add.
constexpr float largest_whole(int64_t digits) { return digits == 3 ? 8355584.0f : digits == 2 ? 32512.0f : 127.0f; }

// A row as digits, in the caller's memory.
struct DigitRow {
  int64_t digits;    // per number
  int32_t* words;    // [group][word][half][digit]: the same digit of four numbers
  int32_t* offsets;  // [group][digit]: initial values of the sums
  float* units;      // [group]
  float* sums;       // [group]: of the integers
};

inline int64_t digit_words(const PackedWeight& weight, int64_t digits) { return weight.group / kBytesOfWord * digits; }

inline int64_t digit_bytes(const PackedWeight& weight, int64_t digits) {
  return weight.groups() * (digit_words(weight, digits) + digits + 2) * static_cast<int64_t>(sizeof(float));
}

inline DigitRow digit_row(const PackedWeight& weight, int64_t digits, char* memory) {
  int32_t* const words = reinterpret_cast<int32_t*>(memory);
  int32_t* const offsets = words + weight.groups() * digit_words(weight, digits);
  float* const units = reinterpret_cast<float*>(offsets + weight.groups() * digits);
  return {digits, words, offsets, units, units + weight.groups()};
}

#if defined(__x86_64__) && defined(__GNUC__)
#define ANNOTATED_REGION_VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,bmi2,fma")))
#define ANNOTATED_REGION_VNNI_INLINE ANNOTATED_REGION_VNNI inline __attribute__((always_inline))

// Whether a row is multiplied with this weight in digits.
inline bool takes_digits(const PackedWeight& weight) {
  return weight.group <= kLongestExact && level() == Level::avx512 && __builtin_cpu_supports("avx512vnni") &&
         __builtin_cpu_supports("bmi2");
}

// The mask of the next 16 numbers, if `left` of them remain.
ANNOTATED_REGION_VNNI inline __mmask16 present(int64_t left) {
  return static_cast<__mmask16>(left >= 16 ? 0xffff : (1 << left) - 1);
}

// The largest absolute value of a group; negative if a number is not finite.
ANNOTATED_REGION_VNNI inline float largest_of(const float* from, int64_t size) {
  __m512 largest = _mm512_setzero_ps();
  __mmask16 odd = 0;
  for (int64_t k = 0; k < size; k += 16) {
    const __m512 numbers = _mm512_abs_ps(_mm512_maskz_loadu_ps(present(size - k), from + k));
    odd |= _mm512_cmp_ps_mask(numbers, _mm512_set1_ps(kFinite), _CMP_NLE_UQ);
    largest = _mm512_max_ps(largest, numbers);
  }
  return odd ? -1.0f : _mm512_reduce_max_ps(largest);
}

// Extracts the lowest signed digit of each number; the numbers keep the higher digits.
ANNOTATED_REGION_VNNI inline __m512i take_digit(__m512i& numbers) {
  const __m512i digit = _mm512_srai_epi32(_mm512_slli_epi32(numbers, 24), 24);
  numbers = _mm512_srai_epi32(_mm512_sub_epi32(numbers, digit), 8);
  return digit;
}

// Permutes the digits of a group into the order of the bytes of its words.
ANNOTATED_REGION_VNNI inline void arrange(const PackedWeight& weight, const int8_t* digits, int32_t* to, int64_t step) {
  if (weight.bits == 8) {
    for (int64_t word = 0; word < weight.words(); ++word) std::memcpy(to + word * step, digits + word * 4, 4);
    return;
  }
  for (int64_t word = 0; word < weight.words(); ++word, to += 2 * step) {
    uint64_t eight;
    std::memcpy(&eight, digits + word * 8, sizeof eight);
    to[0] = static_cast<int32_t>(_pext_u64(eight, 0x00ff00ff00ff00ff));
    to[step] = static_cast<int32_t>(_pext_u64(eight, 0xff00ff00ff00ff00));
  }
}

// The digits of one group of numbers at `from`; false if one is not finite, or all are too small.
ANNOTATED_REGION_VNNI inline bool make_group(const PackedWeight& weight, const float* from, const DigitRow& row,
                                             int64_t group) {
  const float largest = largest_of(from, weight.group);
  if (largest < 0.0f || (largest > 0.0f && largest < kSmallestLargest)) return false;
  const float whole_of_largest = largest_whole(row.digits);
  const __m512 inverse = _mm512_set1_ps(largest > 0.0f ? whole_of_largest / largest : 0.0f);
  alignas(64) int8_t digits[kMostDigits][kLongestExact];
  __m512i totals[kMostDigits] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
  for (int64_t k = 0; k < weight.group; k += 16) {
    const __m512 numbers = _mm512_maskz_loadu_ps(present(weight.group - k), from + k);
    __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(numbers, inverse));
    for (int64_t digit = 0; digit < row.digits; ++digit) {
      const __m512i part = take_digit(whole);
      totals[digit] = _mm512_add_epi32(totals[digit], part);
      _mm_store_si128(reinterpret_cast<__m128i*>(digits[digit] + k), _mm512_cvtepi32_epi8(part));
    }
  }
  // The stored weights are signed, and read as unsigned ones with half of their range added.
  const int32_t middle = 1 << (weight.bits - 1);
  float sum = 0.0f;
  for (int64_t digit = row.digits - 1; digit >= 0; --digit) {
    const int32_t total = _mm512_reduce_add_epi32(totals[digit]);
    row.offsets[group * row.digits + digit] = -middle * total;
    sum = sum * 256.0f + static_cast<float>(total);
    arrange(weight, digits[digit], row.words + group * digit_words(weight, row.digits) + digit, row.digits);
  }
  row.units[group] = largest / whole_of_largest;
  row.sums[group] = sum;
  return true;
}

// The digits of a row; false if they do not exist.
ANNOTATED_REGION_VNNI inline bool make_digits(const PackedWeight& weight, const float* from, const DigitRow& row) {
  for (int64_t group = 0; group < weight.groups(); ++group) {
    if (!make_group(weight, from + group * weight.group, row, group)) return false;
  }
  return true;
}

// Adds products of four bytes per lane, unsigned by signed; in assembly, because g++ 12 copies each sum to another
// register and back.
ANNOTATED_REGION_VNNI_INLINE void add_four(__m512i& sum, __m512i unsigned_bytes, __m512i signed_bytes) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(unsigned_bytes), "v"(signed_bytes));
}

template <typename Reading>
ANNOTATED_REGION_VNNI_INLINE void ask_for_tile_row(const char* stored) {
#pragma GCC unroll 4
  for (int64_t line = 0; line < Reading::kLines; ++line) {
    _mm_prefetch(stored + Reading::kAhead + line * 64, _MM_HINT_T1);
  }
}

// Scales or zero points of 16 columns: those from `index` on.
ANNOTATED_REGION_VNNI inline __m512 load_scales(const PackedWeight& weight, const char* group, int64_t index) {
  if (!weight.halves) return _mm512_load_ps(group + index * 4);
  return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(group + index * 2)));
}

// The number that the sums of the digits of a group represent, in units. Two digits are combined as integers, which is
// exact, and takes other execution units than the products do.
template <int kDigits>
ANNOTATED_REGION_VNNI_INLINE __m512 combined(const __m512i (&sums)[kDigits]) {
  if constexpr (kDigits == 1) return _mm512_cvtepi32_ps(sums[0]);
  const __m512i high = _mm512_slli_epi32(sums[kDigits - 1], 8);
  const __m512 upper = _mm512_cvtepi32_ps(_mm512_add_epi32(high, sums[kDigits > 1 ? kDigits - 2 : 0]));
  if constexpr (kDigits == 2) return upper;
  const __m512 place = _mm512_set1_ps(256.0f);
  return _mm512_fmadd_ps(upper, place, _mm512_cvtepi32_ps(sums[0]));
}

// The numbers of a vector of words as unsigned bytes, with half of their range added: those of even rows and of odd ones
// (4 bits), or all. A shift and two operations of three operands for 4 bits, where VNNI leaves few units to others.
template <int kBits>
ANNOTATED_REGION_VNNI_INLINE void split_words(const char* stored, __m512i (&halves)[kBits == 4 ? 2 : 1]) {
  const __m512i given = _mm512_load_si512(stored);
  if constexpr (kBits == 8) {
    halves[0] = _mm512_xor_si512(given, _mm512_set1_epi8(-128));
  } else {
    const __m512i low_bits = _mm512_set1_epi8(0x0f), middle = _mm512_set1_epi8(0x08);
    constexpr int kMaskThenFlip = 0x6a;  // (a & b) ^ c
    halves[1] = _mm512_ternarylogic_epi32(_mm512_srli_epi32(given, 4), low_bits, middle, kMaskThenFlip);
    halves[0] = _mm512_ternarylogic_epi32(given, low_bits, middle, kMaskThenFlip);
  }
}

// The sizes of a group, computed once for all.
struct DigitGroup {
  int64_t scale_bytes, words, digit_words;

  DigitGroup(const PackedWeight& weight, int64_t digits)
      : scale_bytes(weight.scale_bytes()), words(weight.words()),
        digit_words(annotated_region_dnnl::digit_words(weight, digits)) {}
};

// Adds the products of a row of a tile's words with the digits at `from`.
template <int kBits, int kDigits>
ANNOTATED_REGION_VNNI_INLINE void add_tile_row(const char* stored, const int32_t* from, __m512i (&added)[4][kDigits]) {
  constexpr int kHalves = kBits == 4 ? 2 : 1;
  __m512i fours[kHalves][kDigits];
#pragma GCC unroll 2
  for (int half = 0; half < kHalves; ++half) {
#pragma GCC unroll 3
    for (int digit = 0; digit < kDigits; ++digit) fours[half][digit] = _mm512_set1_epi32(from[half * kDigits + digit]);
  }
#pragma GCC unroll 4
  for (int vector = 0; vector < 4; ++vector) {
    __m512i numbers[kHalves];
    split_words<kBits>(stored + vector * 64, numbers);
#pragma GCC unroll 2
    for (int half = 0; half < kHalves; ++half) {
#pragma GCC unroll 3
      for (int digit = 0; digit < kDigits; ++digit) add_four(added[vector][digit], numbers[half], fours[half][digit]);
    }
  }
}

// Adds the products with one group of a tile to 64 sums. All columns together: twelve sums of digits stay in registers.
// Not inlined for two tiles, whose sums would take registers from each other.
template <typename Reading, int kBits, bool kZeros, int kDigits>
ANNOTATED_REGION_VNNI inline void add_digit_group(const PackedWeight& weight, const DigitGroup& size, const char* group,
                                                  const DigitRow& row, int64_t index, __m512 (&sums)[4]) {
  constexpr int kHalves = kBits == 4 ? 2 : 1;
  const char* stored = group + size.scale_bytes;
  const int32_t* from = row.words + index * size.digit_words;
  if (Reading::kLines > 1) {
    for (const char* line = group; line < stored; line += 64) _mm_prefetch(line + Reading::kAhead, _MM_HINT_T1);
  }
  __m512i added[4][kDigits];
#pragma GCC unroll 4
  for (int vector = 0; vector < 4; ++vector) {
#pragma GCC unroll 3
    for (int digit = 0; digit < kDigits; ++digit) {
      added[vector][digit] = _mm512_set1_epi32(row.offsets[index * kDigits + digit]);
    }
  }
  for (int64_t word = 0; word < size.words; ++word, stored += 256, from += kHalves * kDigits) {
    ask_for_tile_row<Reading>(stored);
    add_tile_row<kBits, kDigits>(stored, from, added);
  }
  const __m512 unit = _mm512_set1_ps(row.units[index]);
#pragma GCC unroll 4
  for (int vector = 0; vector < 4; ++vector) {
    __m512 whole = combined<kDigits>(added[vector]);
    if (kZeros) {
      const __m512 zeros = load_scales(weight, group, kTileColumns + vector * 16);
      whole = _mm512_fnmadd_ps(zeros, _mm512_set1_ps(row.sums[index]), whole);
    }
    const __m512 factor = _mm512_mul_ps(load_scales(weight, group, vector * 16), unit);
    sums[vector] = _mm512_fmadd_ps(whole, factor, sums[vector]);
  }
}

template <typename Reading, int kBits, bool kZeros, int kDigits>
ANNOTATED_REGION_VNNI void digit_tiles(const PackedWeight& weight, const char* tiles, const DigitRow& row, float* to) {
  const int64_t group_bytes = weight.group_bytes(), tile_bytes = weight.tile_bytes(), groups = weight.groups();
  const DigitGroup size(weight, kDigits);
  __m512 sums[Reading::kTiles][4] = {};
  for (int64_t group = 0; group < groups; ++group) {
#pragma GCC unroll 2
    for (int tile = 0; tile < Reading::kTiles; ++tile) {
      const char* const stored = tiles + tile * tile_bytes + group * group_bytes;
      add_digit_group<Reading, kBits, kZeros, kDigits>(weight, size, stored, row, group, sums[tile]);
    }
  }
#pragma GCC unroll 2
  for (int tile = 0; tile < Reading::kTiles; ++tile) {
#pragma GCC unroll 4
    for (int vector = 0; vector < 4; ++vector, to += 16) _mm512_store_ps(to, sums[tile][vector]);
  }
}

template <typename Reading, int kBits, bool kZeros>
void tiles_of_digits(const PackedWeight& weight, const char* tiles, const DigitRow& row, float* to) {
  if (row.digits == 1) return digit_tiles<Reading, kBits, kZeros, 1>(weight, tiles, row, to);
  if (row.digits == 2) return digit_tiles<Reading, kBits, kZeros, 2>(weight, tiles, row, to);
  digit_tiles<Reading, kBits, kZeros, 3>(weight, tiles, row, to);
}

template <typename Reading>
void multiply_tiles(const PackedWeight& weight, const char* tiles, const DigitRow& row, float* to) {
  if (weight.bits == 4 && weight.has_zeros) return tiles_of_digits<Reading, 4, true>(weight, tiles, row, to);
  if (weight.bits == 4) return tiles_of_digits<Reading, 4, false>(weight, tiles, row, to);
  if (weight.has_zeros) return tiles_of_digits<Reading, 8, true>(weight, tiles, row, to);
  tiles_of_digits<Reading, 8, false>(weight, tiles, row, to);
}

// The last tile of an odd number, where two are read by turns.
struct LastStream {
  static constexpr int kTiles = 1, kAhead = TwoStreams::kAhead, kLines = TwoStreams::kLines;
};

// The product with one tile or, if it is wider, with two adjacent ones: a slice of the result's columns.
inline void multiply_digits(const PackedWeight& weight, const char* tiles, const DigitRow& row, const float* bias,
                            float* to, int64_t width) {
  static_assert(kMostTilesAtOnce == 2, "the width tells whether it is one tile or all");
  alignas(64) float sums[kMostTilesAtOnce * kTileColumns];
  const auto multiply = width > kTileColumns         ? multiply_tiles<TwoStreams>
                        : streams() == Streams::full ? multiply_tiles<FullStream>
                        : streams() == Streams::one  ? multiply_tiles<OneStream>
                                                     : multiply_tiles<LastStream>;
  multiply(weight, tiles, row, sums);
  for (int64_t column = 0; column < width; ++column) to[column] = bias ? sums[column] + bias[column] : sums[column];
}
#else
inline bool takes_digits(const PackedWeight&) { return false; }
inline bool make_digits(const PackedWeight&, const float*, const DigitRow&) { return false; }
inline void multiply_digits(const PackedWeight&, const char*, const DigitRow&, const float*, float*, int64_t) {}
#endif

}  // namespace
}  // namespace annotated_region_dnnl
