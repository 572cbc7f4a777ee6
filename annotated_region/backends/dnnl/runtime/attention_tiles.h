// Attention in the matrix unit (Intel's AMX), where its operands are rounded to bfloat16: queries, keys, values and the
// weights of values; sums, scores and their exponentials are float32. Keys and values are packed once for all blocks of
// queries, in the order of the weights of packed_pairs.h.
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

namespace annotated_region_dnnl {
namespace {

#if defined(__x86_64__) && defined(__GNUC__)
ANNOTATED_REGION_VNNI_INLINE __m512 numbers_of(const float* from, int64_t left) {
  return _mm512_maskz_loadu_ps(present(std::clamp<int64_t>(left, 0, 16)), from);
}

// Rounds 32 rows of 16 columns, of which some exist, into a tile; rows are `stride` apart, and columns adjacent.
ANNOTATED_REGION_VNNI inline void pack_rows_of_tile(const float* from, int64_t stride, int64_t rows, int64_t columns,
                                                    char* to) {
  const __m512i interleaved = interleaving();
  for (int64_t row = 0; row < kStepDepth; row += 2, to += kTileBytes) {
    const __m512 lower = row < rows ? numbers_of(from + row * stride, columns) : _mm512_setzero_ps();
    const __m512 upper = row + 1 < rows ? numbers_of(from + (row + 1) * stride, columns) : _mm512_setzero_ps();
    _mm512_store_si512(to, _mm512_permutexvar_epi16(interleaved, rounded_numbers(lower, upper)));
  }
}

// The same with columns `stride` apart, and their rows adjacent. Interleaving the pairs of the first eight columns with
// those of the others moves the highest bit of a column's number behind those of a pair's: four times transpose them.
ANNOTATED_REGION_VNNI inline void pack_columns_of_tile(const float* from, int64_t stride, int64_t rows, int64_t columns,
                                                       char* to) {
  const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
  __m512i lines[16], next[16];
#pragma GCC unroll 16
  for (int column = 0; column < 16; ++column) {
    const float* const line = from + column * stride;
    lines[column] = column < columns ? rounded_numbers(numbers_of(line, rows), numbers_of(line + 16, rows - 16))
                                     : _mm512_setzero_si512();
  }
#pragma GCC unroll 4
  for (int round = 0; round < 4; ++round) {
#pragma GCC unroll 8
    for (int column = 0; column < 8; ++column) {
      next[2 * column] = _mm512_permutex2var_epi32(lines[column], first, lines[column + 8]);
      next[2 * column + 1] = _mm512_permutex2var_epi32(lines[column], second, lines[column + 8]);
    }
#pragma GCC unroll 16
    for (int line = 0; line < 16; ++line) lines[line] = next[line];
  }
#pragma GCC unroll 16
  for (int pair = 0; pair < 16; ++pair) _mm512_store_si512(to + pair * kTileBytes, lines[pair]);
}

// A stack of matrices as right factors: [matrix][slice of 32 columns][step].
struct PackedStack {
  Matrices from;
  int64_t rows, columns, count;

  explicit PackedStack(const Matrices& given)
      : from(given), rows(given.dims[given.dims.size() - 2]), columns(given.dims.back()),
        count(volume(given.dims, 0, given.dims.size() - 2)) {}

  int64_t slice_bytes() const { return DepthSpan{0, rows}.bytes(); }
  int64_t bytes() const { return (columns + kSliceColumns - 1) / kSliceColumns * slice_bytes(); }  // of a matrix

  // The matrix that serves a head.
  int64_t matrix_of(const Dims& stack, int64_t head) const {
    int64_t result = 0, size = 1;
    for (int axis = static_cast<int>(stack.size()) - 3; axis >= 0; --axis) {
      result += head % stack[axis] * from.dims[axis] / stack[axis] * size;
      size *= from.dims[axis];
      head /= stack[axis];
    }
    return result;
  }

  const float* matrix(const float* all, int64_t index) const { return all + from.offset(from.dims, index); }

  // Packs one matrix; returns its largest absolute value.
  float pack(const float* matrix, char* to) const {
    const bool by_rows = from.transposed == 'N';
    const int64_t stride = by_rows ? from.row_stride() : from.strides.back();
    for (int64_t column = 0; column < columns; column += kSliceColumns, to += slice_bytes()) {
      for (int64_t row = 0; row < rows; row += kStepDepth) {
        for (int64_t half = 0; half < kSliceColumns; half += 16) {
          const int64_t first = std::min(column + half, columns);
          const float* const part = matrix + (by_rows ? row * stride + first : first * stride + row);
          char* const tile = to + row / kStepDepth * kStepBytes + half / 16 * kPairTileBytes;
          (by_rows ? pack_rows_of_tile : pack_columns_of_tile)(part, stride, rows - row, columns - first, tile);
        }
      }
    }
    return from.magnitude(matrix, 0, rows, 0, columns);
  }
};

// Attention in blocks of 32 rows. The scratchpad: packed keys and values, their largest absolute values, and the memory of
// each thread for rows as left factors, scores, and weighted values.
struct AttentionInTiles {
  Attention work;
  PackedStack keys, values;

  explicit AttentionInTiles(const Attention& given) : work(given), keys(given.keys), values(given.values) {}

  size_t bytes() const { return shared_bytes() + static_cast<size_t>(omp_get_max_threads()) * own_bytes(); }

  void pack(const std::vector<char*>& pointers) const {
    const auto pack_stack = [&](const PackedStack& stack, int operand, char* to, float* bounds) {
#pragma omp parallel for
      for (int64_t index = 0; index < stack.count; ++index) {
        bounds[index] = stack.pack(stack.matrix(floats(pointers[operand]), index), to + index * stack.bytes());
      }
    };
    pack_stack(keys, 1, pointers.back(), bounds(pointers));
    pack_stack(values, 2, pointers.back() + keys.count * keys.bytes(), bounds(pointers) + keys.count);
  }

  // As `Attention::run`.
  void run(const std::vector<char*>& pointers, int64_t head, int64_t first) const {
    const Head of = head_of(pointers, head);
    const MatrixUnit unit(kTileBytes);
    const int64_t shown = work.columns_shown(
        pointers, head, first, [&](int64_t) { return of.key; }, [&](int64_t) { return of.value; });
    if (!compute(pointers, of, first, shown)) compute(pointers, of, first, work.columns);
  }

 private:
  // A head: its matrices, and bounds of their absolute values.
  struct Head {
    int64_t index;
    const char* keys;
    const char* values;
    float key, value;
  };

  Head head_of(const std::vector<char*>& pointers, int64_t head) const {
    const int64_t key = keys.matrix_of(work.queries.dims, head), value = values.matrix_of(work.queries.dims, head);
    const char* const all = pointers.back();
    return {head, all + key * keys.bytes(), all + keys.count * keys.bytes() + value * values.bytes(),
            bounds(pointers)[key], bounds(pointers)[keys.count + value]};
  }

  static int64_t whole_slices(int64_t columns) { return (columns + kSliceColumns - 1) / kSliceColumns * kSliceColumns; }
  int64_t packed_bytes() const { return keys.count * keys.bytes() + values.count * values.bytes(); }
  float* bounds(const std::vector<char*>& pointers) const { return floats(pointers.back() + packed_bytes()); }
  size_t shared_bytes() const {
    return round_up(static_cast<size_t>(packed_bytes()) + (keys.count + values.count) * sizeof(float), kAlignment);
  }
  int64_t left_bytes() const { return std::max(keys.slice_bytes(), values.slice_bytes()); }
  int64_t own_bytes() const {
    const int64_t sums = whole_slices(work.columns) + whole_slices(work.width);
    return left_bytes() + kPairBlockRows * sums * static_cast<int64_t>(sizeof(float));
  }

  // Multiplies some rows, which `left` holds, with the leading columns of a packed matrix.
  static void multiply(const char* left, int64_t rows, DepthSpan depth, const char* right, int64_t slice_bytes,
                       int64_t columns, float* to) {
    for (int64_t column = 0; column < columns; column += kSliceColumns, right += slice_bytes) {
      const PairSums sums{nullptr, 0, to + column, whole_slices(columns)};
      add_block_of_pairs(left, rows, right, depth.steps(), sums, /*in_tiles=*/true);
    }
  }

  bool compute(const std::vector<char*>& pointers, const Head& head, int64_t first, int64_t shown) const {
    const int64_t rows = work.height(first), width = whole_slices(work.width), line = whole_slices(shown);
    char* const left = pointers.back() + shared_bytes() + omp_get_thread_num() * own_bytes();
    float* const scores = floats(left + left_bytes());
    float* const sums = scores + kPairBlockRows * whole_slices(work.columns);
    const float* const queries = floats(pointers[0]) + work.queries.offset(work.queries.dims, head.index);
    const int64_t stride = work.queries.row_stride();
    round_rows(queries + first * stride, stride, rows, {0, work.depth}, left);
    multiply(left, rows, {0, work.depth}, head.keys, keys.slice_bytes(), shown, scores);
    for (int64_t row = 0; row < rows; ++row) {
      if (!work.weigh_row(pointers, head.index, first + row, shown, scores + row * line)) return false;
    }
    round_rows(scores, line, rows, {0, shown}, left);
    multiply(left, rows, {0, shown}, head.values, values.slice_bytes(), work.width, sums);
    work.write(pointers, head.index, first, sums, width);
    return true;
  }
};

// Whether attention can be computed so: queries are read by rows.
inline bool fits_tiles(const Attention& work) { return kAssemblesTiles && work.queries.transposed == 'N'; }
#else
struct AttentionInTiles {
  explicit AttentionInTiles(const Attention&) {}
  size_t bytes() const { return 0; }
  void pack(const std::vector<char*>&) const {}
  void run(const std::vector<char*>&, int64_t, int64_t) const {}
};

inline bool fits_tiles(const Attention&) { return false; }
#endif

}  // namespace
}  // namespace annotated_region_dnnl
