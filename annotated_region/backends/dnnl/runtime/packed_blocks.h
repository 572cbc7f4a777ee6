// Integer products of many rows with a packed weight, for processors with AVX-512 VNNI: by the digits of packed_lines.h.
//
// The weights of a slice of a tile are expanded to signed bytes once for all rows, as many of them as stay in the
// first-level cache:
//
//     bytes of a slice: [group][four of its rows][column][row]     32 columns, four bytes each
//
// The sums of the highest digit begin at -128 times the sum of the group's weights, which subtracts what has made the
// digits unsigned. Sums of a group are exact. The sums of some rows stay in registers for all groups of a slice: those
// of the digits, and the floats that add up the groups.
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

namespace annotated_region_dnnl {
namespace {

constexpr int64_t kSliceColumns = 32;  // of a tile
constexpr int64_t kSlices = kTileColumns / kSliceColumns;
constexpr int64_t kDepthAtOnce = 512;  // rows of a slice that are expanded at a time: 16 kB
constexpr int64_t kRowsAtOnce = 512;   // rows whose sums are kept at a time: 128 kB

inline int64_t groups_at_once(const PackedWeight& weight) {
  return std::min(weight.groups(), std::max<int64_t>(1, kDepthAtOnce / weight.group));
}

// Some groups of a tile as bytes, in the memory of a thread.
struct Panel {
  const PackedWeight& weight;
  const char* tile;
  int64_t first, last;  // groups
  int8_t* bytes;        // [slice][group][four][column][row]
  int32_t* starts;      // [slice][group][column]: where the sums of the highest digit begin

  Panel(const PackedWeight& all, const char* stored, int64_t group, char* memory)
      : weight(all), tile(stored), first(group), last(std::min(group + groups_at_once(all), all.groups())),
        bytes(reinterpret_cast<int8_t*>(memory)),
        starts(reinterpret_cast<int32_t*>(memory + groups_at_once(all) * all.group * kTileColumns)) {}

  static int64_t memory_bytes(const PackedWeight& weight) {
    return groups_at_once(weight) * kTileColumns * (weight.group + static_cast<int64_t>(sizeof(int32_t)));
  }

  const char* group(int64_t index) const { return tile + index * weight.group_bytes(); }
  int8_t* slice(int64_t index) const { return bytes + index * (last - first) * weight.group * kSliceColumns; }
  int32_t* starts_of(int64_t index) const { return starts + index * (last - first) * kSliceColumns; }
};

// The memory of a thread: a panel, then sums.
inline int64_t block_bytes(const PackedWeight& weight, int64_t digits, int64_t rows) {
  return Panel::memory_bytes(weight) + with_padding(rows, digits) * kTileColumns * static_cast<int64_t>(sizeof(float));
}

// The columns of a tile in the result; rows are `stride` apart. The bias is null if there is none.
struct TileResult {
  float* to;
  int64_t stride;
  const float* bias;
  int64_t width;
};

#if defined(__x86_64__) && defined(__GNUC__)
#define ANNOTATED_REGION_VNNI_INLINE ANNOTATED_REGION_VNNI inline __attribute__((always_inline))

// The weights of eight rows, four bits each, as bytes: two fours of the rows of 16 columns.
ANNOTATED_REGION_VNNI_INLINE void expand_eight(__m512i words, __m512i (&fours)[2]) {
  const __m512i low_bits = _mm512_set1_epi8(0x0f), sign = _mm512_set1_epi8(0x08);
  const __m512i even = _mm512_xor_si512(_mm512_and_si512(words, low_bits), sign);
  const __m512i odd = _mm512_xor_si512(_mm512_and_si512(_mm512_srli_epi32(words, 4), low_bits), sign);
  const __m512 left = _mm512_castsi512_ps(_mm512_sub_epi8(_mm512_unpacklo_epi8(even, odd), sign));
  const __m512 right = _mm512_castsi512_ps(_mm512_sub_epi8(_mm512_unpackhi_epi8(even, odd), sign));
  fours[0] = _mm512_castps_si512(_mm512_shuffle_ps(left, right, 0x88));  // first words of the pairs in both
  fours[1] = _mm512_castps_si512(_mm512_shuffle_ps(left, right, 0xdd));
}

// Expands one group of 16 columns of a slice; the fours of a column are two registers apart.
template <int kBits>
ANNOTATED_REGION_VNNI inline void expand_group(const char* stored, int64_t words, int8_t* to, int32_t* start) {
  constexpr int kFours = kBits == 4 ? 2 : 1;
  __m512i sum = _mm512_setzero_si512();
  for (int64_t word = 0; word < words; ++word, stored += kTileColumns * 4) {
    __m512i fours[2] = {_mm512_load_si512(stored)};
    if (kBits == 4) expand_eight(fours[0], fours);
#pragma GCC unroll 2
    for (int four = 0; four < kFours; ++four, to += kSliceColumns * 4) {
      sum = _mm512_dpbusd_epi32(sum, _mm512_set1_epi8(1), fours[four]);
      _mm512_store_si512(to, fours[four]);
    }
  }
  _mm512_store_si512(start, _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32(sum, 7)));
}

inline void expand(const Panel& panel) {
  const PackedWeight& weight = panel.weight;
  const auto expand_columns = weight.bits == 4 ? expand_group<4> : expand_group<8>;
  for (int64_t group = panel.first; group < panel.last; ++group) {
    const char* const words = panel.group(group + 1) - weight.words() * kTileColumns * 4;
    const int64_t index = group - panel.first;
    for (int64_t column = 0; column < kTileColumns; column += 16) {
      const int64_t slice = column / kSliceColumns, within = column % kSliceColumns;
      int8_t* const to = panel.slice(slice) + index * weight.group * kSliceColumns + within * 4;
      expand_columns(words + column * 4, weight.words(), to, panel.starts_of(slice) + index * kSliceColumns + within);
    }
  }
}

// Adds products of four bytes per lane; in assembly, because g++ 12 copies each sum to another register and back.
ANNOTATED_REGION_VNNI_INLINE void add_four(__m512i& sum, __m512i digits, __m512i weights) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(digits), "v"(weights));
}

// The sums of the digits of some rows, for one group and the columns of a slice.
template <int kDigits, int kRows>
struct DigitSums {
  __m512i sums[kRows][kDigits][2];

  ANNOTATED_REGION_VNNI_INLINE void begin(const int32_t* starts) {
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
      for (int digit = 0; digit < kDigits; ++digit) {
        const bool is_highest = digit == kDigits - 1;
        sums[row][digit][0] = is_highest ? _mm512_load_si512(starts) : _mm512_setzero_si512();
        sums[row][digit][1] = is_highest ? _mm512_load_si512(starts + 16) : _mm512_setzero_si512();
      }
    }
  }

  ANNOTATED_REGION_VNNI_INLINE void add(const int8_t* weights, const uint8_t* digits, int64_t line) {
    const __m512i left = _mm512_load_si512(weights), right = _mm512_load_si512(weights + 64);
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
      for (int digit = 0; digit < kDigits; ++digit) {
        int32_t word;
        std::memcpy(&word, digits + (row * kDigits + digit) * line, sizeof word);
        const __m512i four = _mm512_set1_epi32(word);
        add_four(sums[row][digit][0], four, left);
        add_four(sums[row][digit][1], four, right);
      }
    }
  }

  // The number that the sums of a row represent, in units. Two digits are combined as integers, which is exact, and
  // takes other execution units than the products do.
  ANNOTATED_REGION_VNNI_INLINE __m512 whole(int row, int half) const {
    if constexpr (kDigits == 1) return _mm512_cvtepi32_ps(sums[row][0][half]);
    const __m512i high = _mm512_slli_epi32(sums[row][kDigits - 1][half], 8);
    const __m512 upper = _mm512_cvtepi32_ps(_mm512_add_epi32(high, sums[row][kDigits - 2][half]));
    if constexpr (kDigits == 2) return upper;
    return _mm512_fmadd_ps(upper, _mm512_set1_ps(256.0f), _mm512_cvtepi32_ps(sums[row][0][half]));
  }
};

// Writes 16 columns of a row, or those that the result has.
ANNOTATED_REGION_VNNI_INLINE void write_columns(__m512 sums, const TileResult& result, float* to, int64_t column) {
  if (column >= result.width) return;
  const __mmask16 mask = present(result.width - column);
  if (result.bias != nullptr) sums = _mm512_add_ps(sums, _mm512_maskz_loadu_ps(mask, result.bias + column));
  _mm512_mask_storeu_ps(to + column, mask, sums);
}

// The results of some rows, for the columns of a slice.
template <int kDigits, int kRows, bool kZeros>
struct RowTotals {
  __m512 totals[kRows][2];

  ANNOTATED_REGION_VNNI_INLINE void begin(const float* from, bool is_first) {
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      totals[row][0] = is_first ? _mm512_setzero_ps() : _mm512_load_ps(from + row * kTileColumns);
      totals[row][1] = is_first ? _mm512_setzero_ps() : _mm512_load_ps(from + row * kTileColumns + 16);
    }
  }

  ANNOTATED_REGION_VNNI_INLINE void store(float* to) const {
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      _mm512_store_ps(to + row * kTileColumns, totals[row][0]);
      _mm512_store_ps(to + row * kTileColumns + 16, totals[row][1]);
    }
  }

  // Writes the first rows, with the bias, to the columns of the result from `column` on.
  ANNOTATED_REGION_VNNI_INLINE void write(const TileResult& result, int64_t row, int64_t rows, int64_t column) const {
#pragma GCC unroll 8
    for (int each = 0; each < kRows; ++each) {
      if (each >= rows) return;
      float* const to = result.to + (row + each) * result.stride;
      write_columns(totals[each][0], result, to, column);
      write_columns(totals[each][1], result, to, column + 16);
    }
  }

  // Adds a group; its scales, and zero points behind those of the tile, and the units and sums of the first row.
  ANNOTATED_REGION_VNNI_INLINE void add(const DigitSums<kDigits, kRows>& group, const float* scales, const float* units,
                                        const float* sums, int64_t groups) {
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      const __m512 unit = _mm512_set1_ps(units[row * groups]);
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        __m512 whole = group.whole(row, half);
        if (kZeros) {
          const __m512 zeros = _mm512_load_ps(scales + kTileColumns + half * 16);
          whole = _mm512_fnmadd_ps(zeros, _mm512_set1_ps(sums[row * groups]), whole);
        }
        const __m512 factor = _mm512_mul_ps(_mm512_load_ps(scales + half * 16), unit);
        totals[row][half] = _mm512_fmadd_ps(whole, factor, totals[row][half]);
      }
    }
  }
};

// Some rows of a block, and 64 sums of each in the memory of a thread.
struct RowSums {
  const DigitBlock& block;
  int64_t first, last;
  float* sums;
};

// Adds the products of the rows from `row` on with a slice of a panel to their sums. The last panel writes the results:
// among the products of the next rows, a store does not wait for memory.
template <int kDigits, bool kZeros>
ANNOTATED_REGION_VNNI void add_rows(const Panel& panel, int64_t slice, const RowSums& rows, int64_t row,
                                    const TileResult& result) {
  constexpr int kRows = rows_together(kDigits);
  const DigitBlock& block = rows.block;
  const int64_t line = block.line, groups = block.groups, fours = panel.weight.group / 4;
  const uint8_t* digits = block.lines + row * kDigits * line + panel.first * panel.weight.group;
  const int8_t* weights = panel.slice(slice);
  const int32_t* starts = panel.starts_of(slice);
  const float* const units = block.units + row * groups;
  const float* const sums = kZeros ? block.sums + row * groups : nullptr;
  float* const kept = rows.sums + (row - rows.first) * kTileColumns + slice * kSliceColumns;
  RowTotals<kDigits, kRows, kZeros> totals;
  totals.begin(kept, panel.first == 0);
  for (int64_t group = panel.first; group < panel.last; ++group, starts += kSliceColumns) {
    DigitSums<kDigits, kRows> added;
    added.begin(starts);
    for (int64_t four = 0; four < fours; ++four, digits += 4, weights += 4 * kSliceColumns) {
      added.add(weights, digits, line);
    }
    const float* const scales = reinterpret_cast<const float*>(panel.group(group)) + slice * kSliceColumns;
    totals.add(added, scales, units + group, kZeros ? sums + group : nullptr, groups);
  }
  if (panel.last < panel.weight.groups()) return totals.store(kept);
  totals.write(result, row, rows.last - row, slice * kSliceColumns);
}

template <bool kZeros>
auto row_adder(int64_t digits) {
  return digits == 1 ? add_rows<1, kZeros> : digits == 2 ? add_rows<2, kZeros> : add_rows<3, kZeros>;
}

// The products of some rows of a block with one tile; `memory` is that of the thread.
inline void multiply_rows(const PackedWeight& weight, const char* tile, const DigitBlock& block, int64_t first,
                          int64_t last, const TileResult& result, char* memory) {
  const RowSums rows{block, first, last, reinterpret_cast<float*>(memory + Panel::memory_bytes(weight))};
  const auto add = weight.has_zeros ? row_adder<true>(block.digits) : row_adder<false>(block.digits);
  for (int64_t group = 0; group < weight.groups(); group += groups_at_once(weight)) {
    const Panel panel(weight, tile, group, memory);
    expand(panel);
    for (int64_t slice = 0; slice < kSlices; ++slice) {
      for (int64_t row = first; row < last; row += rows_together(block.digits)) add(panel, slice, rows, row, result);
    }
  }
}
#else
inline void multiply_rows(const PackedWeight&, const char*, const DigitBlock&, int64_t, int64_t, const TileResult&, char*) {}
#endif

}  // namespace
}  // namespace annotated_region_dnnl
