// Products of many rows with a packed weight in bfloat16, whose operands are those of packed_pairs.h; sums are float32.
//
// Rows and columns are taken 32 at a time. In the matrix unit their sums are four tiles, and each step loads as many:
//
//                      weights: tiles 6 and 7
//     rows: tile 4     sums:    tiles 0 and 1
//           tile 5              tiles 2 and 3
//
// Elsewhere AVX512_BF16 multiplies eight rows at a time, whose sums fill 16 registers. Sums stay in the unit for a
// span of the depth, and in the result between spans. They begin at the bias.
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

namespace annotated_region_dnnl {
namespace {

constexpr int64_t kVectorRows = 8;
constexpr int64_t kStepsAtOnce = 8;  // 16 kB of rows and of weights
constexpr int64_t kPairBlockSums = kPairBlockRows * kSliceColumns;

// Where the sums of 32 columns of some rows begin, and where they go; distances of rows are in floats. Those that begin at
// null are zero.
struct PairSums {
  const float* from;
  int64_t from_stride;
  float* to;
  int64_t to_stride;
};

#if defined(__x86_64__) && defined(__GNUC__)
template <int kSum>
ANNOTATED_REGION_TILE_INLINE void begin_tile(const PairSums& sums) {
  if (sums.from == nullptr) return clear_tile<kSum>();
  load_tile<kSum>(sums.from + kSum / 2 * kTileRows * sums.from_stride + kSum % 2 * 16, 4 * sums.from_stride);
}

template <int kSum>
ANNOTATED_REGION_TILE_INLINE void end_tile(const PairSums& sums) {
  store_tile<kSum>(sums.to + kSum / 2 * kTileRows * sums.to_stride + kSum % 2 * 16, 4 * sums.to_stride);
}

template <int kSum>
ANNOTATED_REGION_TILE_INLINE void add_tile_pairs() {
  asm volatile(ANNOTATED_REGION_TILE("tdpbf16ps %%tmm%c0, %%tmm%c1, %%tmm%c2")
               : : "i"(6 + kSum % 2), "i"(4 + kSum / 2), "i"(kSum));
}

// 32 rows, or 16.
template <bool kBoth>
inline void add_tiles_of_pairs(const char* rows, const char* weights, int64_t steps, const PairSums& sums) {
  begin_tile<0>(sums), begin_tile<1>(sums);
  if constexpr (kBoth) begin_tile<2>(sums), begin_tile<3>(sums);
  for (int64_t step = 0; step < steps; ++step, rows += kStepBytes, weights += kStepBytes) {
    load_tile<4>(rows, kTileBytes);
    load_tile<6>(weights, kTileBytes);
    add_tile_pairs<0>();
    load_tile<7>(weights + kPairTileBytes, kTileBytes);
    add_tile_pairs<1>();
    if constexpr (kBoth) {
      load_tile<5>(rows + kPairTileBytes, kTileBytes);
      add_tile_pairs<2>();
      add_tile_pairs<3>();
    }
  }
  end_tile<0>(sums), end_tile<1>(sums);
  if constexpr (kBoth) end_tile<2>(sums), end_tile<3>(sums);
}

// In assembly for the reasons of `add_four` and `rounded_numbers`.
ANNOTATED_REGION_VNNI_INLINE void add_pairs(__m512& sum, __m512i rows, __m512i weights) {
  asm(ANNOTATED_REGION_PAIRS("vdpbf16ps %2, %1, %0") : "+v"(sum) : "v"(rows), "v"(weights));
}

ANNOTATED_REGION_VNNI inline void add_vectors_of_pairs(const char* rows, const char* weights, int64_t steps,
                                                       const PairSums& sums) {
  __m512 added[kVectorRows][2];
#pragma GCC unroll 8
  for (int row = 0; row < kVectorRows; ++row) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const float* const from = sums.from + row * sums.from_stride + half * 16;
      added[row][half] = sums.from == nullptr ? _mm512_setzero_ps() : _mm512_loadu_ps(from);
    }
  }
  for (int64_t step = 0; step < steps; ++step, rows += kStepBytes, weights += kStepBytes) {
    for (int64_t pair = 0; pair < kPairsOfStep; ++pair) {
      const char* const column = weights + pair * kTileBytes;
      const __m512i left = _mm512_load_si512(column), right = _mm512_load_si512(column + kPairTileBytes);
#pragma GCC unroll 8
      for (int row = 0; row < kVectorRows; ++row) {
        int32_t both;
        std::memcpy(&both, rows + row * kTileBytes + pair * 4, sizeof both);
        const __m512i numbers = _mm512_set1_epi32(both);
        add_pairs(added[row][0], numbers, left);
        add_pairs(added[row][1], numbers, right);
      }
    }
  }
#pragma GCC unroll 8
  for (int row = 0; row < kVectorRows; ++row) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) _mm512_storeu_ps(sums.to + row * sums.to_stride + half * 16, added[row][half]);
  }
}

// Adds a span to the sums of up to 32 rows; also to those of the rows behind them, up to those of a tile or of the
// registers.
inline void add_block_of_pairs(const char* rows, int64_t count, const char* weights, int64_t steps, const PairSums& sums,
                               bool in_tiles) {
  if (in_tiles) {
    return count > kTileRows ? add_tiles_of_pairs<true>(rows, weights, steps, sums)
                             : add_tiles_of_pairs<false>(rows, weights, steps, sums);
  }
  for (int64_t row = 0; row < count; row += kVectorRows) {
    const float* const from = sums.from == nullptr ? nullptr : sums.from + row * sums.from_stride;
    const PairSums of_row{from, sums.from_stride, sums.to + row * sums.to_stride, sums.to_stride};
    add_vectors_of_pairs(rows + row * kTileBytes, weights, steps, of_row);
  }
}

// Some rows, up to 512, and the weights of a tile, which they meet in a span of the depth.
struct PairOperands {
  const char* rows;     // [block of 32]
  const char* weights;  // [slice of 32 columns]
  DepthSpan span;
  bool in_tiles;
  float* kept;  // [slice][block]: sums between parts of the span
};

// Some steps of a span, whose weights of a slice and rows of a block stay in the first-level cache.
struct PairSteps {
  int64_t first, last;
};

// A block of rows, and a slice of columns of a tile: the sums of both.
struct PairBlock {
  const PairOperands& operands;
  const TileResult& result;
  int64_t first, rows, column, columns;  // those that the result has; the first row is that of a block
  float* kept;

  PairBlock(const PairOperands& given, const TileResult& to, int64_t row, int64_t last, int64_t slice, int64_t blocks)
      : operands(given), result(to), first(row), rows(std::min(kPairBlockRows, last - row)),
        column(slice * kSliceColumns), columns(std::min(kSliceColumns, to.width - column)),
        kept(given.kept + slice * blocks * kPairBlockSums) {}

  bool is_whole() const { return rows == kPairBlockRows && columns == kSliceColumns; }
  float* to() const { return result.to + first * result.stride + column; }

  // Where the sums of the span begin: the bias, or the sums of the span before.
  PairSums beginning() const {
    if (operands.span.first > 0) return {to(), result.stride, nullptr, 0};
    return {result.bias == nullptr ? nullptr : result.bias + column, 0, nullptr, 0};
  }

  // Copies these to memory that has all rows and columns, and back.
  void take() const {
    const PairSums begin = beginning();
    std::fill(kept, kept + kPairBlockSums, 0.0f);
    if (begin.from == nullptr) return;
    for (int64_t row = 0; row < rows; ++row) {
      const float* const from = begin.from + row * begin.from_stride;
      std::copy(from, from + columns, kept + row * kSliceColumns);
    }
  }
  void give() const {
    for (int64_t row = 0; row < rows; ++row) {
      const float* const from = kept + row * kSliceColumns;
      std::copy(from, from + columns, to() + row * result.stride);
    }
  }

  void add(PairSteps steps) const {
    const bool begins = steps.first == 0, ends = steps.last == operands.span.steps();
    PairSums sums{kept, kSliceColumns, kept, kSliceColumns};
    if (begins && !is_whole()) take();
    if (begins && is_whole()) sums.from = beginning().from, sums.from_stride = beginning().from_stride;
    if (ends && is_whole()) sums.to = to(), sums.to_stride = result.stride;
    const int64_t bytes = operands.span.bytes(), begin = steps.first * kStepBytes;
    const char* const from = operands.rows + first / kPairBlockRows * bytes + begin;
    const char* const weights = operands.weights + column / kSliceColumns * bytes + begin;
    add_block_of_pairs(from, rows, weights, steps.last - steps.first, sums, operands.in_tiles);
    if (ends && !is_whole()) give();
  }
};

// Adds a span of the products of rows with one tile to their result. The first row begins a block.
inline void add_span(const PairOperands& operands, int64_t first, int64_t last, const TileResult& result) {
  const int64_t steps = operands.span.steps(), blocks = (last - first + kPairBlockRows - 1) / kPairBlockRows;
  for (int64_t step = 0; step < steps; step += kStepsAtOnce) {
    for (int64_t slice = 0; slice * kSliceColumns < result.width; ++slice) {
      for (int64_t block = 0; block < blocks; ++block) {
        PairBlock each(operands, result, first + block * kPairBlockRows, last, slice, blocks);
        each.kept += block * kPairBlockSums;
        each.add({step, std::min(step + kStepsAtOnce, steps)});
      }
    }
  }
}

// The matrix unit, if the products are made there.
inline void multiply_pairs(const PairOperands& operands, int64_t first, int64_t last, const TileResult& result) {
  if (!operands.in_tiles) return add_span(operands, first, last, result);
  const MatrixUnit unit(kTileBytes);
  add_span(operands, first, last, result);
}
#else
struct PairOperands {
  const char* rows;
  const char* weights;
  DepthSpan span;
  bool in_tiles;
  float* kept;
};
inline void multiply_pairs(const PairOperands&, int64_t, int64_t, const TileResult&) {}
#endif

}  // namespace
}  // namespace annotated_region_dnnl
