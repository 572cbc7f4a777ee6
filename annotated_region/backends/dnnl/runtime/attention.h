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
  int64_t rows, columns, depth, width, block, blocks, count;
  bool rounds;  // whether the result is rounded to bfloat16

  // Computes one block of rows of one head. Columns at the end that are hidden from all its rows are left out where
  // that gives the same result: their values times zero are zero, and their scores cannot be the largest.
  void run(const std::vector<char*>& pointers, int64_t head, int64_t first, float* scores) const {
    const int64_t shown = columns_shown(pointers, head, first);
    if (!compute(pointers, head, first, shown, scores)) compute(pointers, head, first, columns, scores);
  }

  // The scratch memory of a thread, in floats.
  int64_t scratch() const { return block * (columns + (rounds ? width : 0)); }

 private:
  bool has_mask() const { return given.mask != Mask::none; }
  int64_t height(int64_t first) const { return std::min(block, rows - first); }

  const float* mask_line(const std::vector<char*>& pointers, int64_t head, int64_t row) const {
    return has_mask() ? floats(pointers[3]) + mask_offset(head, row) : nullptr;
  }

  // The columns to read for a block: all, unless the values of the others are numbers, and their scores are known to be
  // small.
  int64_t columns_shown(const std::vector<char*>& pointers, int64_t head, int64_t first) const {
    const Dims& stack = queries.dims;
    const int64_t size = height(first);
    int64_t shown = seen(first + size - 1);
    if (given.mask == Mask::added && given.causal == Causal::none && mask_strides.back() == 1) {
      shown = 1;
      for (int64_t row = size - 1; row >= 0 && shown < columns; --row) {
        shown = end_of_shown(mask_line(pointers, head, first + row), shown, columns);
      }
      const float* const q = floats(pointers[0]) + queries.offset(stack, head);
      const float* const k = floats(pointers[1]) + keys.offset(stack, head);
      const float query = queries.magnitude(q, first, first + size, 0, depth);
      const float key = keys.magnitude(k, 0, depth, shown, columns);
      if (!(query * key * static_cast<float>(depth) * std::fabs(given.scale) <= kMostProduct)) return columns;
    }
    const float* const v = floats(pointers[2]) + values.offset(stack, head);
    return std::isfinite(values.magnitude(v, shown, columns, 0, width)) ? shown : columns;
  }

  // Computes the scores of some columns, and their product with the values; false if a row might show other columns.
  bool compute(const std::vector<char*>& pointers, int64_t head, int64_t first, int64_t shown, float* scores) const {
    const Dims& stack = queries.dims;
    const int64_t size = height(first);
    const float* q = floats(pointers[0]) + queries.offset(stack, head) + first * queries.row_stride();
    const float* k = floats(pointers[1]) + keys.offset(stack, head);
    const float* v = floats(pointers[2]) + values.offset(stack, head);
    char* const whole = pointers[has_mask() ? 4 : 3];
    const int64_t offset = result.offset(stack, head) + first * result.row_stride();
    multiply(queries, keys, size, shown, depth, q, k, scores, columns);
    for (int64_t row = 0; row < size; ++row) {
      const int64_t own = std::min(shown, seen(first + row));
      const float largest = weigh(scores + row * columns, own, shown, mask_line(pointers, head, first + row));
      if (shown < columns && given.causal == Causal::none && !(largest >= kLeastShown)) return false;
    }
    const Matrices plain_scores(plain({size, columns}, kFloat));
    if (!rounds) {
      multiply(plain_scores, values, size, width, shown, scores, v, floats(whole) + offset, result.row_stride());
      return true;
    }
    float* const exact = scores + block * columns;
    multiply(plain_scores, values, size, width, shown, scores, v, exact, width);
    for (int64_t row = 0; row < size; ++row) {
      round_row(exact + row * width, halves(whole) + offset + row * result.row_stride(), width);
    }
    return true;
  }

  // The number of visible columns of a row, at least one: TVM shifts the diagonal by the difference of the lengths.
  int64_t seen(int64_t row) const {
    if (given.causal == Causal::none) return columns;
    return std::min(columns, row + 1 + (given.causal == Causal::to_lower_right ? std::abs(columns - rows) : 0));
  }

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

  static void multiply(const Matrices& left, const Matrices& right, int64_t m, int64_t n, int64_t k, const float* a,
                       const float* b, float* c, int64_t leading) {
    const dnnl_status_t status = dnnl_sgemm(left.transposed, right.transposed, m, n, k, 1.0f, a, left.leading, b,
                                            right.leading, 0.0f, c, std::max(leading, n));
    if (status != dnnl_success) throw dnnl::error(status, "oneDNN could not multiply matrices");
  }
};

// Attention to the leading operands among the arguments; the mask is the argument at `masking`, if it is a tensor.
inline void attend(Builder& builder, const NodeRow& node, std::vector<Argument> arguments, int masking, DataType type) {
  const Desc to = heads_side_by_side(builder.dims(node.output), type);
  const Dims& dims = builder.dims(node.inputs[0]);
  const size_t rank = dims.size();
  const int64_t columns = arguments[1].desc.get_dims()[rank - 1];
  Dims mask_dims;
  if (masking >= 0) {
    mask_dims = builder.dims(masking);
    const Desc mask = plain(mask_dims, kFloat);
    arguments.push_back({DNNL_ARG_SRC_3, mask, builder.fetch(masking, mask)});
  }
  const int64_t rows = dims[rank - 2];
  const int64_t fitting = kScoreBytes / static_cast<int64_t>(sizeof(float)) / columns;
  const int64_t block = std::min(rows, std::max(kLeastRows, fitting));
  const Attention work{Matrices(arguments[0].desc), Matrices(arguments[1].desc), Matrices(arguments[2].desc),
                       Matrices(to), parameters_of<AttentionRow>(node), mask_dims, repeating_strides(mask_dims), rows,
                       columns, dims[rank - 1], builder.dims(node.output)[rank - 1], block, (rows + block - 1) / block,
                       volume(dims, 0, rank - 2), to.get_data_type() == kRounded};
  const Place place = builder.fresh(to);
  arguments.push_back({DNNL_ARG_DST, to, place});
  const size_t share = round_up(static_cast<size_t>(work.scratch()) * sizeof(float), kAlignment);
  const auto kernel = [work, share](const std::vector<char*>& pointers) {
    Failure failure;
#pragma omp parallel for
    for (int64_t item = 0; item < work.count * work.blocks; ++item) {
      float* scores = floats(pointers.back() + omp_get_thread_num() * share);
      failure.guard([&] { work.run(pointers, item / work.blocks, item % work.blocks * work.block, scores); });
    }
    failure.raise();
  };
  builder.add_kernel(kernel, std::move(arguments), "attention " + layout_name(to), share * omp_get_max_threads());
  builder.define(node.output, to, place);
}

// inputs: queries, keys as (depth, columns), values, optionally a mask.
inline void attention(Builder& builder, const NodeRow& node) {
  const DataType type = builder.type(node.output);
  if (type == kFloat && has_few_queries(builder.all_dims(), node)) return attention_of_rows(builder, node, 1);
  std::vector<Argument> arguments;
  for (int index = 0; index < 3; ++index) {
    const Desc desc = matrix_layout(builder, node.inputs[index], kFloat);
    arguments.push_back({DNNL_ARG_MULTIPLE_SRC + index, desc, builder.fetch(node.inputs[index], desc)});
  }
  attend(builder, node, std::move(arguments), node.inputs.size > 3 ? node.inputs[3] : -1, type);
}

// Two parts of keys or values as one argument, concatenated by rows; `axis` is the contiguous axis of a row.
inline Argument side_by_side(Builder& builder, int first, int second, int axis) {
  const int along = axis == 3 ? 2 : 3;
  Dims dims = builder.dims(first);
  dims[along] += builder.dims(second)[along];
  const int64_t row = dims[axis], stack = row * dims[along];
  const Dims strides = axis == 3 ? Dims{dims[1] * stack, stack, row, 1} : Dims{dims[1] * stack, stack, 1, row};
  const Desc desc = strided(dims, kFloat, strides);
  const Place place = builder.fresh(desc);
  Place part = place;
  for (int tensor : {first, second}) {
    builder.reorder(builder.numbers(tensor), Desc(builder.dims(tensor), kFloat, strides), part);
    part.offset += static_cast<size_t>(builder.dims(tensor)[along] * row) * sizeof(float);
  }
  return {DNNL_ARG_SRC, desc, place};
}

// inputs: queries, two parts of the keys, two of the values, optionally a mask.
inline void parted_attention(Builder& builder, const NodeRow& node) {
  if (has_few_queries(builder.all_dims(), node)) return attention_of_rows(builder, node, 2);
  const Desc queries = matrix_layout(builder, node.inputs[0], kFloat);
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, queries, builder.fetch(node.inputs[0], queries)},
                                     side_by_side(builder, node.inputs[1], node.inputs[2], 2),
                                     side_by_side(builder, node.inputs[3], node.inputs[4], 3)};
  attend(builder, node, std::move(arguments), node.inputs.size > 5 ? node.inputs[5] : -1, kFloat);
}

}  // namespace annotated_region_dnnl
