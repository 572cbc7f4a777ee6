// Integer products of many rows with a packed weight in the matrix unit (Intel's AMX): the results of packed_blocks.h,
// bit by bit. One instruction multiplies 16 rows by 16 columns, in as much depth as a row of a tile has bytes.
//
//     digits of 16 rows            tile 6: a line of digits each
//     weights of 16 columns        tile 7: fours of their rows, as packed_panels.h expands them
//     sums of a group of weights   tiles 0 to 2: one for each digit
//
// The unit adds to its tiles only, so the sums of each group go through memory, from where they are scaled and added to
// totals in registers, while the unit multiplies the next groups.
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

namespace annotated_region_dnnl {
namespace {

constexpr int64_t kTileBytes = 64;                               // of a row of a tile
constexpr int64_t kTileSums = kTileRows * kTileBytes / 4;        // integers of a tile
constexpr int64_t kStored = 4;                                   // groups whose sums are in memory at a time
constexpr int kDigitTile = 6, kWeightTile = 7, kNumberOfTiles = 8;

// The assemblers beside older compilers do not know these instructions.
#if (defined(__clang__) && __clang_major__ >= 12) || (!defined(__clang__) && defined(__GNUC__) && __GNUC__ >= 11)
#define ANNOTATED_REGION_TILE(text) text
constexpr bool kAssemblesTiles = true;
#else
#define ANNOTATED_REGION_TILE(text) ""
constexpr bool kAssemblesTiles = false;
#endif

// The depth of a product of tiles: as few equal parts of a group as their rows hold; 0 if there are none.
constexpr int64_t tile_depth(int64_t group) {
  if (!kAssemblesTiles) return 0;
  const int64_t parts = (group + kTileBytes - 1) / kTileBytes;
  return group % (4 * parts) == 0 ? group / parts : 0;
}

#if defined(__x86_64__) && defined(__GNUC__)
// The shapes of the tiles, as the instruction reads them.
struct alignas(64) TileShapes {
  uint8_t palette = 1, first_row = 0, unused[14] = {};
  uint16_t bytes[16] = {};
  uint8_t rows[16] = {};

  explicit TileShapes(int64_t depth) {
    for (int tile = 0; tile < kNumberOfTiles; ++tile) bytes[tile] = kTileBytes, rows[tile] = kTileRows;
    bytes[kDigitTile] = static_cast<uint16_t>(depth);
    rows[kWeightTile] = static_cast<uint8_t>(depth / 4);
  }
};

// The matrix unit of this thread, from construction to destruction. Instructions are in assembly, because not every
// compiler that builds this library knows their intrinsics.
class MatrixUnit {
 public:
  explicit MatrixUnit(int64_t depth) {
    const TileShapes shapes(depth);
    asm volatile(ANNOTATED_REGION_TILE("ldtilecfg %0") : : "m"(shapes));
  }
  MatrixUnit(const MatrixUnit&) = delete;
  MatrixUnit& operator=(const MatrixUnit&) = delete;
  ~MatrixUnit() { asm volatile(ANNOTATED_REGION_TILE("tilerelease") : : : "memory"); }
};

#define ANNOTATED_REGION_TILE_INLINE inline __attribute__((always_inline))

template <int kTile>
ANNOTATED_REGION_TILE_INLINE void clear_tile() {
  asm volatile(ANNOTATED_REGION_TILE("tilezero %%tmm%c0") : : "i"(kTile));
}

// Rows are `stride` bytes apart.
template <int kTile>
ANNOTATED_REGION_TILE_INLINE void load_tile(const void* from, int64_t stride) {
  asm volatile(ANNOTATED_REGION_TILE("tileloadd (%0,%1,1), %%tmm%c2")
               : : "r"(from), "r"(stride), "i"(kTile) : "memory");
}

template <int kTile>
ANNOTATED_REGION_TILE_INLINE void store_tile(void* to, int64_t stride) {
  asm volatile(ANNOTATED_REGION_TILE("tilestored %%tmm%c2, (%0,%1,1)")
               : : "r"(to), "r"(stride), "i"(kTile) : "memory");
}

// Adds the products of digits, signed or not, and signed weights.
template <int kTile, bool kSigned>
ANNOTATED_REGION_TILE_INLINE void add_tile_products() {
  if constexpr (kSigned) {
    asm volatile(ANNOTATED_REGION_TILE("tdpbssd %%tmm%c0, %%tmm%c1, %%tmm%c2")
                 : : "i"(kWeightTile), "i"(kDigitTile), "i"(kTile));
  } else {
    asm volatile(ANNOTATED_REGION_TILE("tdpbusd %%tmm%c0, %%tmm%c1, %%tmm%c2")
                 : : "i"(kWeightTile), "i"(kDigitTile), "i"(kTile));
  }
}

template <int kDigits, int kDigit = 0>
ANNOTATED_REGION_TILE_INLINE void clear_sums() {
  clear_tile<kDigit>();
  if constexpr (kDigit + 1 < kDigits) clear_sums<kDigits, kDigit + 1>();
}

template <int kDigits, int kDigit = 0>
ANNOTATED_REGION_TILE_INLINE void add_digits(const uint8_t* digits, int64_t line) {
  load_tile<kDigitTile>(digits, kDigits * line);
  add_tile_products<kDigit, kDigit + 1 == kDigits>();
  if constexpr (kDigit + 1 < kDigits) add_digits<kDigits, kDigit + 1>(digits + line, line);
}

template <int kDigits, int kDigit = 0>
ANNOTATED_REGION_TILE_INLINE void store_sums(int32_t* to) {
  store_tile<kDigit>(to, kTileBytes);
  if constexpr (kDigit + 1 < kDigits) store_sums<kDigits, kDigit + 1>(to + kTileSums);
}

// The sums of the digits of 16 rows, for one group and 16 columns: [digit][row][column].
template <int kDigits>
ANNOTATED_REGION_TILE_INLINE void multiply_group(const uint8_t* digits, int64_t line, const int8_t* weights,
                                                 int64_t group, int64_t depth, int32_t* to) {
  clear_sums<kDigits>();
  for (int64_t k = 0; k < group; k += depth, digits += depth, weights += depth * kSliceColumns) {
    load_tile<kWeightTile>(weights, 4 * kSliceColumns);
    add_digits<kDigits>(digits, line);
  }
  store_sums<kDigits>(to);
}

// The sums of a group in memory.
template <int kDigits>
struct StoredSums {
  const int32_t* from;

  ANNOTATED_REGION_VNNI_INLINE __m512 whole(int row, int) const {
    __m512i sums[kDigits];
#pragma GCC unroll 4
    for (int digit = 0; digit < kDigits; ++digit) sums[digit] = _mm512_load_si512(from + digit * kTileSums + row * 16);
    return combined<kDigits>(sums);
  }
};

// Adds the products of 16 rows with 16 columns of a panel, from `column` of the weight's tile on.
template <int kDigits, bool kZeros>
ANNOTATED_REGION_VNNI void add_columns_in_tiles(const Panel& panel, int64_t column, const RowSums& rows, int64_t row,
                                                const TileResult& result) {
  const DigitBlock& block = rows.block;
  const int64_t size = panel.weight.group, groups = block.groups, depth = tile_depth(size);
  const int64_t slice = column / kSliceColumns, within = column % kSliceColumns;
  const uint8_t* const digits = block.lines + row * kDigits * block.line;
  const int8_t* const weights = panel.slice(slice) + 4 * within;
  float* const kept = rows.of(row, slice) + within;
  alignas(64) int32_t stored[kStored][kDigits * kTileSums];
  const auto multiply = [&](int64_t group) {
    const int8_t* const from = weights + (group - panel.first) * size * kSliceColumns;
    multiply_group<kDigits>(digits + group * size, block.line, from, size, depth, stored[group % kStored]);
  };
  RowTotals<kTileRows, 1, kZeros> totals;
  totals.begin(kept, panel.first == 0);
  int64_t ahead = panel.first;
  for (int64_t group = panel.first; group < panel.last; ++group) {
    for (; ahead < std::min(group + kStored, panel.last); ++ahead) multiply(ahead);
    const StoredSums<kDigits> sums{stored[group % kStored]};
    const float* const scales = panel.scales(group) + column;
    const int64_t first = block.unit(row, group);
    totals.add(sums, scales, block.units + first, kZeros ? block.sums + first : nullptr, 1);
  }
  if (panel.last < groups) return totals.store(kept);
  totals.write(result, row, rows.last - row, column);
}

// The digits of the rows stay in the first-level cache for all columns.
template <int kDigits, bool kZeros>
void add_panel_in_tiles(const Panel& panel, const RowSums& rows, const TileResult& result) {
  for (int64_t row = rows.first; row < rows.last; row += kTileRows) {
    for (int64_t column = 0; column < kTileColumns; column += 16) {
      add_columns_in_tiles<kDigits, kZeros>(panel, column, rows, row, result);
    }
  }
}

template <bool kZeros>
AddPanel panel_adder(DigitFormat format) {
  if (!format.in_tiles) return panel_adder<kZeros>(format.digits);
  return format.digits == 1   ? add_panel_in_tiles<1, kZeros>
         : format.digits == 2 ? add_panel_in_tiles<2, kZeros>
                              : add_panel_in_tiles<3, kZeros>;
}

inline void multiply_panels(const PackedWeight& weight, const char* tile, const RowSums& rows, const TileResult& result,
                            char* memory) {
  const DigitFormat format = rows.block.format;
  const AddPanel add = weight.has_zeros ? panel_adder<true>(format) : panel_adder<false>(format);
  for (int64_t group = 0; group < weight.groups(); group += groups_at_once(weight)) {
    const Panel panel(weight, tile, group, memory);
    expand(panel);
    add(panel, rows, result);
  }
}

// The products of some rows of a block with one tile; `memory` is that of the thread.
inline void multiply_rows(const PackedWeight& weight, const char* tile, const DigitBlock& block, int64_t first,
                          int64_t last, const TileResult& result, char* memory) {
  const RowSums rows{block, first, last, reinterpret_cast<float*>(memory + Panel::memory_bytes(weight))};
  if (!block.format.in_tiles) return multiply_panels(weight, tile, rows, result, memory);
  const MatrixUnit unit(tile_depth(weight.group));
  multiply_panels(weight, tile, rows, result, memory);
}
#else
inline void multiply_rows(const PackedWeight&, const char*, const DigitBlock&, int64_t, int64_t, const TileResult&,
                          char*) {}
#endif

}  // namespace
}  // namespace annotated_region_dnnl
