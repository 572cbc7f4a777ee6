// The digits of many rows that are multiplied by a packed weight, for processors with AVX-512 VNNI.
//
// The numbers of a row that belong to one group of weights are converted to integers of 24 bits, scaled by the largest
// of them, whose bytes are the digits. An option selects integers of 16 or 8 bits, with larger units:
//
//     x = unit * (65536 * high + 256 * middle + low - 2^23)       2^23 makes all digits unsigned
//
// The matrix unit takes signed digits, too, so that the highest one stays signed there: without 2^23.
//
// A line holds one digit of all numbers of a row, in their order.
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

namespace annotated_region_dnnl {
namespace {

constexpr int64_t kLine = 64;  // bytes of a line of the cache

constexpr int64_t whole_lines(int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

// The rows whose sums fill the registers: 12, 16 or 18 sums of digits, and 12, 8 or 6 of floats.
constexpr int64_t rows_in_registers(int64_t digits) { return digits == 1 ? 6 : digits == 2 ? 4 : 3; }

constexpr int64_t kTileRows = 16;  // of a tile of the matrix unit

// How rows are multiplied: the digits of each number, and the unit of the processor.
struct DigitFormat {
  int64_t digits;  // 0 if rows are multiplied as floats
  bool in_tiles;   // by the matrix unit (packed_tiles.h)

  int64_t rows_together() const { return in_tiles ? kTileRows : rows_in_registers(digits); }
  int64_t with_padding(int64_t rows) const { return (rows + rows_together() - 1) / rows_together() * rows_together(); }
};

// The digits of a block of rows, in the caller's memory; rows without digits are marked.
struct DigitBlock {
  DigitFormat format;
  int64_t line, groups;  // bytes between lines
  uint8_t* lines;                // [row][digit]
  float* units;                  // [row][group]; for tiles [row / 16][group][row % 16]
  float* sums;                   // as units: of the integers; null if no weight has zero points
  char* absent;                  // [row]: nonzero if a row has no digits

  DigitBlock(const PackedWeight& weight, DigitFormat given, int64_t rows, bool has_zeros, char* memory)
      : format(given), line(line_bytes(weight)), groups(weight.groups()), lines(reinterpret_cast<uint8_t*>(memory)),
        units(reinterpret_cast<float*>(lines + format.with_padding(rows) * format.digits * line)),
        sums(has_zeros ? units + format.with_padding(rows) * groups : nullptr),
        absent(reinterpret_cast<char*>(units + 2 * format.with_padding(rows) * groups)) {}

  static int64_t bytes(const PackedWeight& weight, DigitFormat format, int64_t rows) {
    const int64_t numbers = 2 * weight.groups() * static_cast<int64_t>(sizeof(float));
    return format.with_padding(rows) * (format.digits * line_bytes(weight) + numbers + 1);
  }

  // The index of the unit of a row's group.
  int64_t unit(int64_t row, int64_t group) const {
    if (!format.in_tiles) return row * groups + group;
    return (row / kTileRows * groups + group) * kTileRows + row % kTileRows;
  }

 private:
  // Digits are written 16 at a time, also behind the last group; and lines at a distance of 4 kB, which the extra line
  // of the cache avoids, would share its sets.
  static int64_t line_bytes(const PackedWeight& weight) { return whole_lines(weight.padded_depth()) + kLine; }
};

#if defined(__x86_64__) && defined(__GNUC__)
// Writes the digits of one group of numbers; false if they do not exist.
ANNOTATED_REGION_VNNI inline bool make_lines(const PackedWeight& weight, const float* from, const DigitBlock& block,
                                             int64_t row, int64_t group) {
  const int64_t digits = block.format.digits;
  const float largest = largest_of(from, weight.group), whole_of_largest = largest_whole(digits);
  if (largest < 0.0f || (largest > 0.0f && largest < kSmallestLargest)) return false;
  const __m512 inverse = _mm512_set1_ps(largest > 0.0f ? whole_of_largest / largest : 0.0f);
  const __m512i half = _mm512_set1_epi32(block.format.in_tiles ? 0 : 1 << (8 * digits - 1));
  uint8_t* const to = block.lines + row * digits * block.line + group * weight.group;
  __m512i total = _mm512_setzero_si512();
  for (int64_t k = 0; k < weight.group; k += 16) {
    const __m512 numbers = _mm512_maskz_loadu_ps(present(weight.group - k), from + k);
    const __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(numbers, inverse));
    total = _mm512_add_epi32(total, whole);
    __m512i rest = _mm512_add_epi32(whole, half);
    for (int64_t digit = 0; digit < digits; ++digit, rest = _mm512_srli_epi32(rest, 8)) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + digit * block.line + k), _mm512_cvtepi32_epi8(rest));
    }
  }
  block.units[block.unit(row, group)] = largest / whole_of_largest;
  if (block.sums != nullptr) block.sums[block.unit(row, group)] = static_cast<float>(_mm512_reduce_add_epi32(total));
  return true;
}

inline bool make_lines(const PackedWeight& weight, const float* from, const DigitBlock& block, int64_t row) {
  for (int64_t group = 0; group < block.groups; ++group) {
    if (!make_lines(weight, from + group * weight.group, block, row, group)) return false;
  }
  return true;
}
#else
inline bool make_lines(const PackedWeight&, const float*, const DigitBlock&, int64_t) { return false; }
#endif

}  // namespace
}  // namespace annotated_region_dnnl
