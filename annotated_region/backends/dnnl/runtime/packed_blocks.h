// Integer products of many rows with a packed weight, by the digits of packed_digits.h: the weights of a tile are
// expanded to bytes once, in the second-level cache, and multiplied with all rows of a block.
//
// A byte has half of the weight's range added to it, because the instruction requires unsigned weights:
//
//     bytes of a tile: [group][four of its rows][column][row]     64 columns, four bytes each
//
// The number of rows processed together is chosen so that the sums of their digits fill 24 registers.
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

namespace annotated_region_dnnl {
namespace {

constexpr int64_t kDepthAtOnce = 2048;  // rows of a tile that are expanded to bytes at a time: 128 kB
constexpr int64_t kRowsAtOnce = 256;    // rows whose sums are kept at a time: 64 kB

// Digits of equally spaced rows; rows without digits are marked.
struct DigitRows {
  DigitRow first;
  int64_t stride;  // bytes
  char* absent;    // [row]: nonzero if a row has no digits

  DigitRow row(int64_t index) const {
    const auto moved = [&](auto* pointer) {
      return reinterpret_cast<decltype(pointer)>(reinterpret_cast<char*>(pointer) + index * stride);
    };
    return {first.digits, moved(first.words), moved(first.offsets), moved(first.units), moved(first.sums)};
  }
};

// A range of groups of a tile, with their weights as bytes.
struct TilePart {
  const char* tile;
  int64_t first, last;   // groups
  const char* bytes;  // of the first group and the following ones
};

inline int64_t groups_at_once(const PackedWeight& weight) {
  return std::min(weight.groups(), std::max<int64_t>(1, kDepthAtOnce / weight.group));
}

// The memory of a thread: the weights of a part of a tile, then sums.
inline int64_t weight_bytes(const PackedWeight& weight) { return groups_at_once(weight) * weight.group * kTileColumns; }
inline int64_t block_bytes(const PackedWeight& weight) {
  return weight_bytes(weight) + kRowsAtOnce * kTileColumns * static_cast<int64_t>(sizeof(float));
}

#if defined(__x86_64__) && defined(__GNUC__)
// Expands the weights of some groups to bytes.
template <int kBits>
ANNOTATED_REGION_VNNI inline void spread_weights(const PackedWeight& weight, const TilePart& part, char* to) {
  const __m512i low_bits = _mm512_set1_epi8(kBits == 4 ? 0x0f : -1);
  const __m512i middle = _mm512_set1_epi8(kBits == 4 ? 0x08 : -128);
  for (int64_t group = part.first; group < part.last; ++group) {
    const char* stored = part.tile + (group + 1) * weight.group_bytes() - weight.words() * 256;
    for (int64_t word = 0; word < weight.words(); ++word, stored += 256, to += kBits == 4 ? 512 : 256) {
#pragma GCC unroll 4
      for (int64_t vector = 0; vector < 256; vector += 64) {
        const __m512i given = _mm512_load_si512(stored + vector);
        _mm512_store_si512(to + vector, _mm512_xor_si512(_mm512_and_si512(given, low_bits), middle));
        if (kBits == 8) continue;
        const __m512i upper = _mm512_and_si512(_mm512_srli_epi32(given, 4), low_bits);
        _mm512_store_si512(to + 256 + vector, _mm512_xor_si512(upper, middle));
      }
    }
  }
}

#define ANNOTATED_REGION_VNNI_INLINE ANNOTATED_REGION_VNNI inline __attribute__((always_inline))

// Adds products of four bytes per lane; in assembly, because g++ 12 copies each sum to another register and back.
ANNOTATED_REGION_VNNI_INLINE void add_four(__m512i& sum, __m512i weights, __m512i digits) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(weights), "v"(digits));
}

// The operands and the destination of one step: the group, and the digits with their distance between rows.
struct DigitGroup {
  const float* scales;
  const DigitRow& row;
  int64_t index, step;
  float* to;  // [row][column]
};

// The sums of a line and of those after it, 64 columns each; a line is one digit of one row. A recursive template
// instead of an array, because the compiler would keep an array of so many registers in memory.
template <int kDigits, int kLine, int kLines>
struct DigitSums {
  __m512i first, second, third, fourth;
  DigitSums<kDigits, kLine + 1, kLines> others;

  ANNOTATED_REGION_VNNI_INLINE void begin(const int32_t* offsets, int64_t step) {
    first = second = third = fourth = _mm512_set1_epi32(offsets[kLine / kDigits * step + kLine % kDigits]);
    others.begin(offsets, step);
  }

  ANNOTATED_REGION_VNNI_INLINE void add(const __m512i* weights, const int32_t* digits, int64_t step) {
    const __m512i four = _mm512_set1_epi32(digits[kLine / kDigits * step + kLine % kDigits]);
    add_four(first, _mm512_load_si512(weights), four);
    add_four(second, _mm512_load_si512(weights + 1), four);
    add_four(third, _mm512_load_si512(weights + 2), four);
    add_four(fourth, _mm512_load_si512(weights + 3), four);
    others.add(weights, digits, step);
  }

  // Adds the numbers that the digits of each row represent.
  template <bool kZeros>
  ANNOTATED_REGION_VNNI_INLINE void finish(const DigitGroup& group) const {
    if constexpr (kLine % kDigits == 0) {
      finish_vector<kZeros, 0>(group);
      finish_vector<kZeros, 1>(group);
      finish_vector<kZeros, 2>(group);
      finish_vector<kZeros, 3>(group);
    }
    others.template finish<kZeros>(group);
  }

  // The numbers that digit `kDigit` of a row and the higher ones represent, in units of that digit.
  template <int kVector, int kDigit>
  ANNOTATED_REGION_VNNI_INLINE __m512 whole() const {
    const __m512 lower = _mm512_cvtepi32_ps(kVector == 0 ? first : kVector == 1 ? second : kVector == 2 ? third : fourth);
    if constexpr (kDigit + 1 < kDigits) {
      return _mm512_fmadd_ps(others.template whole<kVector, kDigit + 1>(), _mm512_set1_ps(256.0f), lower);
    }
    return lower;
  }

 private:
  template <bool kZeros, int kVector>
  ANNOTATED_REGION_VNNI_INLINE void finish_vector(const DigitGroup& group) const {
    constexpr int kRow = kLine / kDigits;
    const int64_t place = kRow * group.step + group.index;
    __m512 sum = whole<kVector, 0>();
    if (kZeros) {
      const __m512 zeros = _mm512_load_ps(group.scales + kTileColumns + kVector * 16);
      sum = _mm512_fnmadd_ps(zeros, _mm512_set1_ps(group.row.sums[place]), sum);
    }
    const __m512 unit = _mm512_set1_ps(group.row.units[place]);
    const __m512 factor = _mm512_mul_ps(_mm512_load_ps(group.scales + kVector * 16), unit);
    float* const to = group.to + kRow * kTileColumns + kVector * 16;
    _mm512_store_ps(to, _mm512_fmadd_ps(sum, factor, _mm512_load_ps(to)));
  }
};

template <int kDigits, int kLines>
struct DigitSums<kDigits, kLines, kLines> {
  ANNOTATED_REGION_VNNI_INLINE void begin(const int32_t*, int64_t) {}
  ANNOTATED_REGION_VNNI_INLINE void add(const __m512i*, const int32_t*, int64_t) {}
  template <bool kZeros>
  ANNOTATED_REGION_VNNI_INLINE void finish(const DigitGroup&) const {}
};

// Adds the products of `kRows` rows with a part of a tile to 64 sums each.
template <int kDigits, int kRows, bool kZeros>
ANNOTATED_REGION_VNNI void add_rows(const PackedWeight& weight, const TilePart& part, const DigitRow& row,
                                    int64_t stride, float* sums) {
  const int64_t fours = weight.group / kBytesOfWord, step = stride / static_cast<int64_t>(sizeof(float));
  const __m512i* given = reinterpret_cast<const __m512i*>(part.bytes);
  for (int64_t group = part.first; group < part.last; ++group) {
    DigitSums<kDigits, 0, kRows * kDigits> added;
    added.begin(row.offsets + group * kDigits, step);
    const int32_t* from = row.words + group * fours * kDigits;
    for (int64_t four = 0; four < fours; ++four, given += 4, from += kDigits) added.add(given, from, step);
    const float* const scales = reinterpret_cast<const float*>(part.tile + group * weight.group_bytes());
    added.template finish<kZeros>({scales, row, group, step, sums});
  }
}

template <int kDigits, bool kZeros>
void add_all_rows(const PackedWeight& weight, const TilePart& part, const DigitRows& rows, int64_t first, int64_t last,
                  float* sums) {
  constexpr int kTogether = 6 / kDigits;
  for (; first + kTogether <= last; first += kTogether, sums += kTogether * kTileColumns) {
    add_rows<kDigits, kTogether, kZeros>(weight, part, rows.row(first), rows.stride, sums);
  }
  for (; first < last; ++first, sums += kTileColumns) {
    add_rows<kDigits, 1, kZeros>(weight, part, rows.row(first), rows.stride, sums);
  }
}

template <bool kZeros>
void add_all_rows(const PackedWeight& weight, const TilePart& part, const DigitRows& rows, int64_t first, int64_t last,
                  float* sums) {
  if (rows.first.digits == 1) return add_all_rows<1, kZeros>(weight, part, rows, first, last, sums);
  if (rows.first.digits == 2) return add_all_rows<2, kZeros>(weight, part, rows, first, last, sums);
  add_all_rows<3, kZeros>(weight, part, rows, first, last, sums);
}

// The products of at most `kRowsAtOnce` rows with one tile: 64 sums per row, in `memory` after the weights.
inline const float* multiply_rows(const PackedWeight& weight, const char* tile, const DigitRows& rows, int64_t first,
                                  int64_t last, char* memory) {
  float* const sums = reinterpret_cast<float*>(memory + weight_bytes(weight));
  std::fill(sums, sums + (last - first) * kTileColumns, 0.0f);
  const int64_t groups = groups_at_once(weight);
  for (int64_t group = 0; group < weight.groups(); group += groups) {
    const TilePart part{tile, group, std::min(group + groups, weight.groups()), memory};
    weight.bits == 4 ? spread_weights<4>(weight, part, memory) : spread_weights<8>(weight, part, memory);
    weight.has_zeros ? add_all_rows<true>(weight, part, rows, first, last, sums)
                     : add_all_rows<false>(weight, part, rows, first, last, sums);
  }
  return sums;
}
#else
inline const float* multiply_rows(const PackedWeight&, const char*, const DigitRows&, int64_t, int64_t, char*) {
  return nullptr;
}
#endif

}  // namespace
}  // namespace annotated_region_dnnl
