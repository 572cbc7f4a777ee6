// Scaled dot-product attention in blocks of scores that fit into the cache of a thread. Heads are read and written in
// place, so there are no transposed copies.

namespace annotated_region_dnnl {

// The matrices in the last two axes of a tensor; one of these axes is contiguous.
struct Matrices {
  Dims dims;
  Dims strides;
  char transposed;  // 'T' if columns are contiguous
  int64_t leading;

  explicit Matrices(const Desc& desc) : dims(desc.get_dims()), strides(desc.get_strides()) {
    const size_t rank = dims.size();
    const bool by_rows = strides[rank - 1] == 1;
    transposed = by_rows ? 'N' : 'T';
    leading = by_rows ? std::max(strides[rank - 2], dims[rank - 1]) : std::max(strides[rank - 1], dims[rank - 2]);
  }

  int64_t row_stride() const { return strides[strides.size() - 2]; }

  // The largest absolute value of a part of a matrix; NaN if there is one.
  float magnitude(const float* matrix, int64_t rows_begin, int64_t rows_end, int64_t columns_begin,
                  int64_t columns_end) const {
    int32_t largest = 0;
    const auto add = [&](const float* run, int64_t size) { largest = std::max(largest, largest_magnitude(run, size)); };
    if (transposed == 'N') {
      for (int64_t row = rows_begin; row < rows_end; ++row) {
        add(matrix + row * row_stride() + columns_begin, columns_end - columns_begin);
      }
    } else {
      for (int64_t column = columns_begin; column < columns_end; ++column) {
        add(matrix + column * strides.back() + rows_begin, rows_end - rows_begin);
      }
    }
    return bits_as<float>(largest);
  }

  // The offset of matrix `index` in a stack with the leading extents `stack`; each matrix of a smaller stack serves
  // several heads.
  int64_t offset(const Dims& stack, int64_t index) const {
    int64_t result = 0;
    for (int axis = static_cast<int>(stack.size()) - 3; axis >= 0; --axis) {
      result += index % stack[axis] * dims[axis] / stack[axis] * strides[axis];
      index /= stack[axis];
    }
    return result;
  }
};

constexpr int64_t kScoreBytes = 256 << 10;  // of a block of scores: an eighth to a quarter of the second-level cache
constexpr int64_t kLeastRows = 16;

struct Attention {
  Matrices queries, keys, values, result;  // keys: (depth, columns)
  AttentionRow given;
  Dims mask_dims, mask_strides;
  int64_t rows, columns, depth, width, block, count;
  bool rounds;  // whether the result is rounded to bfloat16

  // Computes one block of rows of one head. Columns at the end that are hidden from all its rows are left out where
  // that gives the same result: their values times zero are zero, and their scores cannot be the largest.
  void run(const std::vector<char*>& pointers, int64_t head, int64_t first, float* scores) const {
    const float* const k = floats(pointers[1]) + keys.offset(queries.dims, head);
    const float* const v = floats(pointers[2]) + values.offset(queries.dims, head);
    const int64_t shown = columns_shown(
        pointers, head, first, [&](int64_t column) { return keys.magnitude(k, 0, depth, column, columns); },
        [&](int64_t row) { return values.magnitude(v, row, columns, 0, width); });
    if (!compute(pointers, head, first, shown, scores)) compute(pointers, head, first, columns, scores);
  }

  // The scratch memory of a thread, in floats.
  int64_t scratch() const { return block * (columns + (rounds ? width : 0)); }

  bool has_mask() const { return given.mask != Mask::none; }
  int64_t blocks() const { return (rows + block - 1) / block; }
  int64_t height(int64_t first) const { return std::min(block, rows - first); }

  const float* mask_line(const std::vector<char*>& pointers, int64_t head, int64_t row) const {
    return has_mask() ? floats(pointers[3]) + mask_offset(head, row) : nullptr;
  }

  // The columns to read for a block: all, unless the values of the others are numbers, and their scores are known to be
  // small. `key` and `value` tell the largest absolute value of the keys and values from a column on, or a larger number.
  template <typename KeyBound, typename ValueBound>
  int64_t columns_shown(const std::vector<char*>& pointers, int64_t head, int64_t first, KeyBound key,
                        ValueBound value) const {
    const int64_t size = height(first);
    int64_t shown = seen(first + size - 1);
    if (given.mask == Mask::added && given.causal == Causal::none && mask_strides.back() == 1) {
      shown = 1;
      for (int64_t row = size - 1; row >= 0 && shown < columns; --row) {
        shown = end_of_shown(mask_line(pointers, head, first + row), shown, columns);
      }
      const float* const q = floats(pointers[0]) + queries.offset(queries.dims, head);
      const float query = queries.magnitude(q, first, first + size, 0, depth);
      if (!(query * key(shown) * static_cast<float>(depth) * std::fabs(given.scale) <= kMostProduct)) return columns;
    }
    return std::isfinite(value(shown)) ? shown : columns;
  }

  // The number of visible columns of a row, at least one: TVM shifts the diagonal by the difference of the lengths.
  int64_t seen(int64_t row) const {
    if (given.causal == Causal::none) return columns;
    return std::min(columns, row + 1 + (given.causal == Causal::to_lower_right ? std::abs(columns - rows) : 0));
  }

  // Makes weights of the scores of a row; false if it might show other columns.
  bool weigh_row(const std::vector<char*>& pointers, int64_t head, int64_t row, int64_t shown, float* scores) const {
    const float largest = weigh(scores, std::min(shown, seen(row)), shown, mask_line(pointers, head, row));
    return shown == columns || given.causal != Causal::none || largest >= kLeastShown;
  }

  // Stores the results of a block of rows, which are `stride` apart.
  void write(const std::vector<char*>& pointers, int64_t head, int64_t first, const float* from, int64_t stride) const {
    char* const whole = results(pointers);
    for (int64_t row = first; row < first + height(first); ++row, from += stride) {
      const int64_t offset = result.offset(queries.dims, head) + row * result.row_stride();
      if (rounds) {
        round_row(from, halves(whole) + offset, width);
      } else {
        std::copy_n(from, width, floats(whole) + offset);
      }
    }
  }

  char* results(const std::vector<char*>& pointers) const { return pointers[has_mask() ? 4 : 3]; }

 private:
  // Makes weights of the scores of `size` columns, and zeros of the others; returns the largest score.
  float weigh(float* row, int64_t size, int64_t shown, const float* mask) const {
    const int64_t step = mask_strides.empty() ? 0 : mask_strides.back();
    const float largest = masked_scores(row, row, size, given.scale, given.mask, mask, step, given.fill);
    if (given.guarded && shows_nothing(row, size, largest)) size = 0;
    normalized_powers(row, size, largest);
    std::fill(row + size, row + shown, 0.0f);
    return largest;
  }

  int64_t mask_offset(int64_t head, int64_t row) const {
    const int rank = static_cast<int>(mask_dims.size());
    int64_t offset = row * mask_strides[rank - 2];
    for (int axis = rank - 3; axis >= 0; --axis) {
      offset += head % queries.dims[axis] * mask_strides[axis];
      head /= queries.dims[axis];
    }
    return offset;
  }

  // Computes the scores of some columns, and their product with the values; false if a row might show other columns.
  bool compute(const std::vector<char*>& pointers, int64_t head, int64_t first, int64_t shown, float* scores) const {
    const Dims& stack = queries.dims;
    const int64_t size = height(first);
    const float* q = floats(pointers[0]) + queries.offset(stack, head) + first * queries.row_stride();
    const float* k = floats(pointers[1]) + keys.offset(stack, head);
    const float* v = floats(pointers[2]) + values.offset(stack, head);
    multiply(queries, keys, size, shown, depth, q, k, scores, columns);
    for (int64_t row = 0; row < size; ++row) {
      if (!weigh_row(pointers, head, first + row, shown, scores + row * columns)) return false;
    }
    const Matrices plain_scores(plain({size, columns}, kFloat));
    if (!rounds) {
      float* const to = floats(results(pointers)) + result.offset(stack, head) + first * result.row_stride();
      multiply(plain_scores, values, size, width, shown, scores, v, to, result.row_stride());
      return true;
    }
    float* const exact = scores + block * columns;
    multiply(plain_scores, values, size, width, shown, scores, v, exact, width);
    write(pointers, head, first, exact, width);
    return true;
  }

  static void multiply(const Matrices& left, const Matrices& right, int64_t m, int64_t n, int64_t k, const float* a,
                       const float* b, float* c, int64_t leading) {
    const dnnl_status_t status = dnnl_sgemm(left.transposed, right.transposed, m, n, k, 1.0f, a, left.leading, b,
                                            right.leading, 0.0f, c, std::max(leading, n));
    if (status != dnnl_success) throw dnnl::error(status, "oneDNN could not multiply matrices");
  }
};

}  // namespace annotated_region_dnnl
