// The weights of a packed product as signed bytes, and the results that many rows add up from them.
//
// The weights of a slice of a tile are expanded once for all rows, as many of them as stay in the first-level cache:
//
//     bytes of a slice: [group][four of its rows][column][row]     32 columns, four bytes each
//
// In the vector unit, the sums of the highest digit begin at -128 times the sum of the group's weights, which subtracts
// what has made the digits unsigned. Sums of a group are exact.
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
  float* widened;       // [group][column of the tile]: scales, and as many zero points, that are stored as float16

  Panel(const PackedWeight& all, const char* stored, int64_t group, char* memory)
      : weight(all), tile(stored), first(group), last(std::min(group + groups_at_once(all), all.groups())),
        bytes(reinterpret_cast<int8_t*>(memory)),
        starts(reinterpret_cast<int32_t*>(memory + groups_at_once(all) * all.group * kTileColumns)),
        widened(reinterpret_cast<float*>(starts + groups_at_once(all) * kTileColumns)) {}

  // The same for all weights that meet the same rows, whatever their scales are.
  static int64_t memory_bytes(const PackedWeight& weight) {
    return groups_at_once(weight) * kTileColumns * (weight.group + 3 * static_cast<int64_t>(sizeof(float)));
  }

  const char* group(int64_t index) const { return tile + index * weight.group_bytes(); }
  float* space(int64_t index) const { return widened + (index - first) * weight.scales(); }
  const float* scales(int64_t index) const {
    return weight.halves ? space(index) : reinterpret_cast<const float*>(group(index));
  }
  int8_t* slice(int64_t index) const { return bytes + index * (last - first) * weight.group * kSliceColumns; }
  int32_t* starts_of(int64_t index) const { return starts + index * (last - first) * kSliceColumns; }
};

// The memory of a thread: a panel, then sums.
inline int64_t block_bytes(const PackedWeight& weight, DigitFormat format, int64_t rows) {
  return Panel::memory_bytes(weight) + format.with_padding(rows) * kTileColumns * static_cast<int64_t>(sizeof(float));
}

// The columns of a tile in the result; rows are `stride` apart. The bias is null if there is none.
struct TileResult {
  float* to;
  int64_t stride;
  const float* bias;
  int64_t width;
};

#if defined(__x86_64__) && defined(__GNUC__)
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

// Asks for a group of the next panel of the tile, or of the first one of the next tile, which are read after this one has been
// multiplied. Only on AMD's processors: on a Zen 4 (EPYC), 64 rows with weights that no cache holds (4 bits in groups of 32)
// took 3.1 cycles a row and 64 bytes of weights with one digit, and take 2.9; with three digits 7.2 and 7.0; 8 bits, 1.8 and 1.6.
// One line of four (`OneStream`) is too few here: nothing reads on while rows are multiplied.
// Inlined, because g++ 12 leaves out calls of a function that does nothing but prefetch.
ANNOTATED_REGION_VNNI_INLINE void ask_for_next(const Panel& panel, int64_t group) {
  const int64_t ahead = groups_at_once(panel.weight);
  const char* const end = panel.group(group + 1 + ahead);
  for (const char* line = panel.group(group + ahead); line < end; line += kLine) _mm_prefetch(line, _MM_HINT_T1);
}

ANNOTATED_REGION_VNNI inline void expand(const Panel& panel) {
  const PackedWeight& weight = panel.weight;
  const auto expand_columns = weight.bits == 4 ? expand_group<4> : expand_group<8>;
  const bool asks = reads_one_stream();
  for (int64_t group = panel.first; group < panel.last; ++group) {
    const char* const words = panel.group(group + 1) - weight.words() * kTileColumns * 4;
    const int64_t index = group - panel.first;
    if (asks) ask_for_next(panel, group);
    scales_of(weight, panel.group(group), panel.space(group));
    for (int64_t column = 0; column < kTileColumns; column += 16) {
      const int64_t slice = column / kSliceColumns, within = column % kSliceColumns;
      int8_t* const to = panel.slice(slice) + index * weight.group * kSliceColumns + within * 4;
      expand_columns(words + column * 4, weight.words(), to, panel.starts_of(slice) + index * kSliceColumns + within);
    }
  }
}

// Writes 16 columns of a row, or those that the result has.
ANNOTATED_REGION_VNNI_INLINE void write_columns(__m512 sums, const TileResult& result, float* to, int64_t column) {
  if (column >= result.width) return;
  const __mmask16 mask = present(result.width - column);
  if (result.bias != nullptr) sums = _mm512_add_ps(sums, _mm512_maskz_loadu_ps(mask, result.bias + column));
  _mm512_mask_storeu_ps(to + column, mask, sums);
}

// The results of some rows, for the columns of a slice, or for half of them.
template <int kRows, int kHalves, bool kZeros>
struct RowTotals {
  __m512 totals[kRows][kHalves];

  ANNOTATED_REGION_VNNI_INLINE void begin(const float* from, bool is_first) {
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 2
      for (int half = 0; half < kHalves; ++half) {
        const float* const kept = from + row * kTileColumns + half * 16;
        totals[row][half] = is_first ? _mm512_setzero_ps() : _mm512_load_ps(kept);
      }
    }
  }

  ANNOTATED_REGION_VNNI_INLINE void store(float* to) const {
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 2
      for (int half = 0; half < kHalves; ++half) {
        _mm512_store_ps(to + row * kTileColumns + half * 16, totals[row][half]);
      }
    }
  }

  // Writes the first rows, with the bias, to the columns of the result from `column` on.
  ANNOTATED_REGION_VNNI_INLINE void write(const TileResult& result, int64_t row, int64_t rows, int64_t column) const {
#pragma GCC unroll 16
    for (int each = 0; each < kRows; ++each) {
      if (each >= rows) return;
      float* const to = result.to + (row + each) * result.stride;
#pragma GCC unroll 2
      for (int half = 0; half < kHalves; ++half) write_columns(totals[each][half], result, to, column + half * 16);
    }
  }

  // Adds a group; its scales, and zero points behind those of the tile, and the units and sums of the first row, which
  // are `step` before those of the next.
  template <typename Sums>
  ANNOTATED_REGION_VNNI_INLINE void add(const Sums& group, const float* scales, const float* units, const float* sums,
                                        int64_t step) {
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
      const __m512 unit = _mm512_set1_ps(units[row * step]);
#pragma GCC unroll 2
      for (int half = 0; half < kHalves; ++half) {
        __m512 whole = group.whole(row, half);
        if (kZeros) {
          const __m512 zeros = _mm512_load_ps(scales + kTileColumns + half * 16);
          whole = _mm512_fnmadd_ps(zeros, _mm512_set1_ps(sums[row * step]), whole);
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

  float* of(int64_t row, int64_t slice) const { return sums + (row - first) * kTileColumns + slice * kSliceColumns; }
};

// Adds the products of rows with a panel to their sums. The last panel writes the results: among the products of the
// next rows, a store does not wait for memory.
using AddPanel = void (*)(const Panel& panel, const RowSums& rows, const TileResult& result);
#endif

}  // namespace
}  // namespace annotated_region_dnnl
