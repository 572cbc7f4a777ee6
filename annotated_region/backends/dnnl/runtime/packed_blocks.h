// Integer products of many rows with a packed weight, for processors with AVX-512 VNNI: by the digits of packed_lines.h,
// and the bytes of packed_panels.h. The sums of some rows stay in registers for all groups of a slice: those of the
// digits, and the floats that add up the groups.
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

namespace annotated_region_dnnl {
namespace {

#if defined(__x86_64__) && defined(__GNUC__)
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

  ANNOTATED_REGION_VNNI_INLINE __m512 whole(int row, int half) const {
    __m512i digits[kDigits];
#pragma GCC unroll 4
    for (int digit = 0; digit < kDigits; ++digit) digits[digit] = sums[row][digit][half];
    return combined<kDigits>(digits);
  }
};

// Adds the products of the rows from `row` on with a slice of a panel.
template <int kDigits, bool kZeros>
ANNOTATED_REGION_VNNI void add_rows(const Panel& panel, int64_t slice, const RowSums& rows, int64_t row,
                                    const TileResult& result) {
  constexpr int kRows = rows_in_registers(kDigits);
  const DigitBlock& block = rows.block;
  const int64_t line = block.line, groups = block.groups, fours = panel.weight.group / 4;
  const uint8_t* digits = block.lines + row * kDigits * line + panel.first * panel.weight.group;
  const int8_t* weights = panel.slice(slice);
  const int32_t* starts = panel.starts_of(slice);
  const float* const units = block.units + row * groups;
  const float* const sums = kZeros ? block.sums + row * groups : nullptr;
  float* const kept = rows.of(row, slice);
  RowTotals<kRows, 2, kZeros> totals;
  totals.begin(kept, panel.first == 0);
  for (int64_t group = panel.first; group < panel.last; ++group, starts += kSliceColumns) {
    DigitSums<kDigits, kRows> added;
    added.begin(starts);
    for (int64_t four = 0; four < fours; ++four, digits += 4, weights += 4 * kSliceColumns) {
      added.add(weights, digits, line);
    }
    const float* const scales = panel.scales(group) + slice * kSliceColumns;
    totals.add(added, scales, units + group, kZeros ? sums + group : nullptr, groups);
  }
  if (panel.last < panel.weight.groups()) return totals.store(kept);
  totals.write(result, row, rows.last - row, slice * kSliceColumns);
}

// The bytes of a slice stay in the first-level cache for all rows.
template <int kDigits, bool kZeros>
void add_panel(const Panel& panel, const RowSums& rows, const TileResult& result) {
  for (int64_t slice = 0; slice < kSlices; ++slice) {
    for (int64_t row = rows.first; row < rows.last; row += rows_in_registers(kDigits)) {
      add_rows<kDigits, kZeros>(panel, slice, rows, row, result);
    }
  }
}

template <bool kZeros>
AddPanel panel_adder(int64_t digits) {
  return digits == 1 ? add_panel<1, kZeros> : digits == 2 ? add_panel<2, kZeros> : add_panel<3, kZeros>;
}
#endif

}  // namespace
}  // namespace annotated_region_dnnl
