// Weights of 8 or 4 bits, and products with the packed weights, which are converted to floats in registers.
//
// The columns of a weight are divided into tiles of 64, and their rows into groups, which share scales. A group of a
// tile is a contiguous block of memory; blocks are in the order in which a product reads them:
//
//     64 scales   [64 zero points]   words: 64 of the rows 0 to 7, 64 of the rows 8 to 15, ...   (4 bits; else 4 rows)
//
// Scales and zero points are float32, or float16 where that holds all of them exactly: groups of 32 weights of 4 bits
// take a tenth less memory then, and a product of one row is as fast as memory is read.
// A word contains adjacent rows of one column, the first in the lowest bits, as signed numbers. So a load of words, two
// shifts and a conversion give the weights of as many columns as a register has lanes; a row of the left operand is
// read one number at a time. Padding rows and columns are zero, and so are their scales.
#include <algorithm>
#include <cstdint>
#include <cstring>

namespace annotated_region_dnnl {
namespace {

constexpr int64_t kTileColumns = 64;
constexpr int64_t kWordBits = 32;

// The format of a stored weight, in numbers that do not depend on the product.
struct PackedWeight {
  int64_t depth, columns;  // of the whole weight
  int64_t group, bits;     // a group is a whole number of words
  bool has_zeros;
  bool halves;  // scales and zero points are float16

  int64_t groups() const { return (depth + group - 1) / group; }
  int64_t tiles() const { return (columns + kTileColumns - 1) / kTileColumns; }
  int64_t words() const { return group * bits / kWordBits; }  // per column of a group
  int64_t padded_depth() const { return groups() * group; }
  int64_t scales() const { return kTileColumns * (has_zeros ? 2 : 1); }  // of a group, with its zero points
  int64_t scale_bytes() const { return scales() * (halves ? 2 : 4); }
  int64_t group_bytes() const { return kTileColumns * words() * 4 + scale_bytes(); }
  int64_t tile_bytes() const { return groups() * group_bytes(); }
};

// The scales of a group of a tile as floats, and behind them its zero points: where they are stored, or in `space`.
inline const float* scales_of(const PackedWeight& weight, const char* group, float* space) {
  if (!weight.halves) return reinterpret_cast<const float*>(group);
  widen_float16(reinterpret_cast<const uint16_t*>(group), space, weight.scales());
  return space;
}

// The registers of an instruction set by their size in bytes: floats, and words.
template <int kBytes>
struct Registers;
#define ANNOTATED_REGION_REGISTERS(bytes)                                       \
  template <>                                                                   \
  struct Registers<bytes> {                                                     \
    using Floats = float __attribute__((vector_size(bytes), may_alias));        \
    using Words = int32_t __attribute__((vector_size(bytes), may_alias));       \
    static constexpr int kPerTile = static_cast<int>(kTileColumns) * 4 / bytes; \
  }
ANNOTATED_REGION_REGISTERS(16);
ANNOTATED_REGION_REGISTERS(32);
ANNOTATED_REGION_REGISTERS(64);

#define ANNOTATED_REGION_INLINE inline __attribute__((always_inline))

// Adds the products of `kRows` rows, `stride` apart, with one group of a tile. The sums of a group stay in registers,
// `kVectors` of columns at a time, and are scaled at the end.
template <int kBytes, int kRows, int kVectors, int kBits, bool kZeros>
ANNOTATED_REGION_INLINE void add_group(const PackedWeight& weight, const char* group, const float* from, int64_t stride,
                                       float* sums) {
  using Set = Registers<kBytes>;
  using Floats = typename Set::Floats;
  using Words = typename Set::Words;
  constexpr int kEach = kWordBits / kBits, kKept = kWordBits - kBits;
  alignas(64) float space[2 * kTileColumns];
  const Floats* const scales = reinterpret_cast<const Floats*>(scales_of(weight, group, space));
  const Floats* const zeros = scales + Set::kPerTile;
  const Words* const stored = reinterpret_cast<const Words*>(group + weight.scale_bytes());
  const int64_t words = weight.words();
  Floats* const to = reinterpret_cast<Floats*>(sums);
  for (int first = 0; first < Set::kPerTile; first += kVectors) {
    Floats added[kRows][kVectors] = {};
    for (int64_t word = 0; word < words; ++word) {
      const Words* const at = stored + word * Set::kPerTile + first;
      const float* const next = from + word * kEach;
#pragma GCC unroll 8
      for (int item = 0; item < kEach; ++item) {
#pragma GCC unroll 8
        for (int vector = 0; vector < kVectors; ++vector) {
          const Words number = (at[vector] << (kKept - item * kBits)) >> kKept;
          Floats weights = __builtin_convertvector(number, Floats);
          if (kZeros) weights -= zeros[first + vector];
#pragma GCC unroll 4
          for (int row = 0; row < kRows; ++row) added[row][vector] += next[row * stride + item] * weights;
        }
      }
    }
#pragma GCC unroll 4
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 8
      for (int vector = 0; vector < kVectors; ++vector) {
        to[row * Set::kPerTile + first + vector] += added[row][vector] * scales[first + vector];
      }
    }
  }
}

// The same for all groups of a tile.
template <int kBytes, int kRows, int kVectors, int kBits, bool kZeros>
ANNOTATED_REGION_INLINE void add_tile(const PackedWeight& weight, const char* tile, const float* from, int64_t stride,
                                      float* sums) {
  const int64_t groups = weight.groups(), bytes = weight.group_bytes();
  for (int64_t group = 0; group < groups; ++group) {
    add_group<kBytes, kRows, kVectors, kBits, kZeros>(weight, tile + group * bytes, from + group * weight.group, stride,
                                                      sums);
  }
}

// Expands a tile to floats; rows are `step` apart, and have `width` columns.
template <int kBytes, int kBits, bool kZeros>
ANNOTATED_REGION_INLINE void unpack_tile(const PackedWeight& weight, const char* tile, float* to, int64_t step,
                                         int64_t width) {
  using Set = Registers<kBytes>;
  using Floats = typename Set::Floats;
  using Words = typename Set::Words;
  constexpr int kEach = kWordBits / kBits, kKept = kWordBits - kBits;
  alignas(64) float row[kTileColumns], space[2 * kTileColumns];
  const Floats* scales = nullptr;
  for (int64_t k = 0; k < weight.depth; ++k, to += step) {
    const char* const group = tile + k / weight.group * weight.group_bytes();
    const int64_t within = k % weight.group;
    if (within == 0) scales = reinterpret_cast<const Floats*>(scales_of(weight, group, space));
    const Words* const stored = reinterpret_cast<const Words*>(group + weight.scale_bytes());
    const int shift = kKept - static_cast<int>(within % kEach) * kBits;
    for (int vector = 0; vector < Set::kPerTile; ++vector) {
      const Words number = (stored[within / kEach * Set::kPerTile + vector] << shift) >> kKept;
      Floats weights = __builtin_convertvector(number, Floats);
      if (kZeros) weights -= scales[Set::kPerTile + vector];
      reinterpret_cast<Floats*>(row)[vector] = weights * scales[vector];
    }
    std::memcpy(to, row, static_cast<size_t>(width) * sizeof(float));
  }
}

// Instruction sets, in ascending order. The functions for each are compiled for it and selected by the caller: clones
// selected by the linker could not use registers of different sizes.
enum class Level { least, avx2, avx512 };

inline Level level() {
#if defined(__x86_64__) && defined(__GNUC__)
  const bool is_wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (is_wide) return Level::avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Level::avx2;
#endif
  return Level::least;
}

// The number of columns at a time that leaves enough registers for the sums of all rows.
template <int kRows, int kBits, bool kZeros>
void add_tile_least(const PackedWeight& weight, const char* tile, const float* from, int64_t stride, float* sums) {
  add_tile<16, kRows, 8 / kRows, kBits, kZeros>(weight, tile, from, stride, sums);
}
template <int kBits, bool kZeros>
void unpack_tile_least(const PackedWeight& weight, const char* tile, float* to, int64_t step, int64_t width) {
  unpack_tile<16, kBits, kZeros>(weight, tile, to, step, width);
}
#if defined(__x86_64__) && defined(__GNUC__)
template <int kRows, int kBits, bool kZeros>
__attribute__((target("avx2,fma"))) void add_tile_avx2(const PackedWeight& weight, const char* tile, const float* from,
                                                       int64_t stride, float* sums) {
  add_tile<32, kRows, 8 / kRows, kBits, kZeros>(weight, tile, from, stride, sums);
}
template <int kRows, int kBits, bool kZeros>
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))) void add_tile_avx512(
    const PackedWeight& weight, const char* tile, const float* from, int64_t stride, float* sums) {
  add_tile<64, kRows, 4, kBits, kZeros>(weight, tile, from, stride, sums);
}
template <int kBits, bool kZeros>
__attribute__((target("avx2,fma"))) void unpack_tile_avx2(const PackedWeight& weight, const char* tile, float* to,
                                                          int64_t step, int64_t width) {
  unpack_tile<32, kBits, kZeros>(weight, tile, to, step, width);
}
#endif

using AddTile = void (*)(const PackedWeight&, const char*, const float*, int64_t, float*);
using UnpackTile = void (*)(const PackedWeight&, const char*, float*, int64_t, int64_t);

template <int kBits, bool kZeros>
AddTile tile_adder(Level level, int64_t rows) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (level == Level::avx512) {
    return rows == 1   ? add_tile_avx512<1, kBits, kZeros>
           : rows == 2 ? add_tile_avx512<2, kBits, kZeros>
                       : add_tile_avx512<4, kBits, kZeros>;
  }
  if (level == Level::avx2) {
    return rows == 1   ? add_tile_avx2<1, kBits, kZeros>
           : rows == 2 ? add_tile_avx2<2, kBits, kZeros>
                       : add_tile_avx2<4, kBits, kZeros>;
  }
#endif
  return rows == 1   ? add_tile_least<1, kBits, kZeros>
         : rows == 2 ? add_tile_least<2, kBits, kZeros>
                     : add_tile_least<4, kBits, kZeros>;
}

template <int kBits, bool kZeros>
UnpackTile tile_unpacker(Level level) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (level != Level::least) return unpack_tile_avx2<kBits, kZeros>;
#endif
  return unpack_tile_least<kBits, kZeros>;
}

// A function that multiplies 1, 2 or 4 rows with a tile, and adds them to 64 sums each.
inline AddTile tile_adder(const PackedWeight& weight, Level level, int64_t rows) {
  if (weight.bits == 4) return weight.has_zeros ? tile_adder<4, true>(level, rows) : tile_adder<4, false>(level, rows);
  return weight.has_zeros ? tile_adder<8, true>(level, rows) : tile_adder<8, false>(level, rows);
}

inline UnpackTile tile_unpacker(const PackedWeight& weight, Level level) {
  if (weight.bits == 4) return weight.has_zeros ? tile_unpacker<4, true>(level) : tile_unpacker<4, false>(level);
  return weight.has_zeros ? tile_unpacker<8, true>(level) : tile_unpacker<8, false>(level);
}

// The products of rows, `stride` apart, with one tile, which are a slice of the result's columns. The rows are padded
// to the depth of the weight.
inline void multiply_tile(const PackedWeight& weight, Level level, const char* tile, const float* from, int64_t stride,
                          int64_t rows, const float* bias, float* to, int64_t width) {
  alignas(64) float sums[4 * kTileColumns];
  for (int64_t first = 0, taken = 0; first < rows; first += taken) {
    taken = rows - first >= 4 ? 4 : rows - first >= 2 ? 2 : 1;
    std::fill(sums, sums + taken * kTileColumns, 0.0f);
    tile_adder(weight, level, taken)(weight, tile, from + first * stride, stride, sums);
    for (int64_t row = 0; row < taken; ++row) {
      float* const out = to + (first + row) * weight.columns;
      const float* const sum = sums + row * kTileColumns;
      for (int64_t column = 0; column < width; ++column) out[column] = bias ? sum[column] + bias[column] : sum[column];
    }
  }
}

}  // namespace
}  // namespace annotated_region_dnnl
