// Attention of a few queries, such as those of one new token, to many keys. Products with so few rows are memory-bound,
// so this kernel reads the keys of heads that share them once, and divides them among threads. Keys and values may have
// two parts, past and new ones, which are read in place.
//
// A thread processes a chunk of the keys: a few rows of one head, then the same rows of the next head. Where the heads of
// a token are adjacent in memory, processing one head after the other would read short runs with large strides.

namespace annotated_region_dnnl {
namespace {

using Four = float __attribute__((vector_size(16)));
using Order = int32_t __attribute__((vector_size(16)));

inline __attribute__((always_inline)) Wide wide_at(const float* from) {
  Wide numbers;
  std::memcpy(&numbers, from, sizeof numbers);
  return numbers;
}

// The sum of a register modulo four lanes, in operations that every machine has.
inline __attribute__((always_inline)) Four quarter_sums(Wide numbers) {
  Four parts[4];
  std::memcpy(parts, &numbers, sizeof numbers);
  return (parts[0] + parts[1]) + (parts[2] + parts[3]);
}

// The sums of four registers, each as one lane.
inline __attribute__((always_inline)) Four totals(Four first, Four second, Four third, Four fourth) {
  const Four left = __builtin_shuffle(first, second, Order{0, 4, 1, 5}) + __builtin_shuffle(first, second, Order{2, 6, 3, 7});
  const Four right = __builtin_shuffle(third, fourth, Order{0, 4, 1, 5}) + __builtin_shuffle(third, fourth, Order{2, 6, 3, 7});
  return __builtin_shuffle(left, right, Order{0, 1, 4, 5}) + __builtin_shuffle(left, right, Order{2, 3, 6, 7});
}

constexpr int64_t kRowsOfHead = 16;  // the keys or values of a head that are processed before those of the next head

// The prefetch distance in rows. Prefetches go to the second-level cache, where more of them can be outstanding.
constexpr int64_t kRowsAhead = 3 * kRowsOfHead;

inline __attribute__((always_inline)) void prefetch_row(const float* row, int64_t size) {
  constexpr int64_t kLine = 16, kSecondLevel = 2;
  for (int64_t item = 0; item < size; item += kLine) __builtin_prefetch(row + item, 0, kSecondLevel);
}

// The products of lines with keys, `stride` apart; four lines at a time share a loaded key and a horizontal sum.
ANNOTATED_REGION_CLONES void multiply_keys(const float* lines, int64_t count, int64_t depth, const float* keys,
                                           int64_t stride, int64_t size, float* scores, int64_t leading) {
  const int64_t whole = depth / kWide * kWide;
  for (; count >= 4; count -= 4, lines += 4 * depth, scores += 4 * leading) {
    const float* key = keys;
    for (int64_t index = 0; index < size; ++index, key += stride) {
      prefetch_row(key + kRowsAhead * stride, depth);
      Wide first{}, second{}, third{}, fourth{};
      for (int64_t item = 0; item < whole; item += kWide) {
        const Wide numbers = wide_at(key + item);
        first += wide_at(lines + item) * numbers;
        second += wide_at(lines + depth + item) * numbers;
        third += wide_at(lines + 2 * depth + item) * numbers;
        fourth += wide_at(lines + 3 * depth + item) * numbers;
      }
      const Four sums = totals(quarter_sums(first), quarter_sums(second), quarter_sums(third), quarter_sums(fourth));
      for (int64_t line = 0; line < 4; ++line) {
        float sum = sums[line];
        for (int64_t item = whole; item < depth; ++item) sum += lines[line * depth + item] * key[item];
        scores[line * leading + index] = sum;
      }
    }
  }
  for (; count > 0; --count, lines += depth, scores += leading) {
    for (int64_t index = 0; index < size; ++index) {
      float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
      for (int64_t item = 0; item < depth; ++item) sum += lines[item] * keys[index * stride + item];
      scores[index] = sum;
    }
  }
}

// Adds the weighted values of the columns from `first` on, which are less than a register.
inline __attribute__((always_inline)) void add_columns(const float* weights, const float* values, int64_t stride,
                                                       int64_t size, float* to, int64_t first, int64_t width) {
  for (int64_t column = first; column < width; ++column) {
    for (int64_t key = 0; key < size; ++key) to[column] += weights[key] * values[key * stride + column];
  }
}

inline __attribute__((always_inline)) void add_wide(float* to, Wide numbers) {
  numbers += wide_at(to);
  std::memcpy(to, &numbers, sizeof numbers);
}

// Adds values, `stride` apart, times the weights of lines, to their sums; four lines at a time, each in a register.
ANNOTATED_REGION_CLONES void add_values(const float* weights, int64_t leading, int64_t lines, const float* values,
                                        int64_t stride, int64_t size, float* to, int64_t width) {
  const int64_t whole = width / kWide * kWide;
  for (; lines >= 4; lines -= 4, weights += 4 * leading, to += 4 * width) {
    for (int64_t column = 0; column < whole; column += kWide) {
      Wide first{}, second{}, third{}, fourth{};
      const float* next = values + column;
      for (int64_t key = 0; key < size; ++key, next += stride) {
        if (column == 0) prefetch_row(next + kRowsAhead * stride, width);
        const Wide value = wide_at(next);
        first += weights[key] * value;
        second += weights[leading + key] * value;
        third += weights[2 * leading + key] * value;
        fourth += weights[3 * leading + key] * value;
      }
      add_wide(to + column, first), add_wide(to + width + column, second);
      add_wide(to + 2 * width + column, third), add_wide(to + 3 * width + column, fourth);
    }
    for (int64_t line = 0; line < 4; ++line) {
      add_columns(weights + line * leading, values, stride, size, to + line * width, whole, width);
    }
  }
  for (; lines > 0; --lines, weights += leading, to += width) {
    for (int64_t column = 0; column < whole; column += kWide) {
      Wide sum{};
      for (int64_t key = 0; key < size; ++key) sum += weights[key] * wide_at(values + key * stride + column);
      add_wide(to + column, sum);
    }
    add_columns(weights, values, stride, size, to, whole, width);
  }
}

}  // namespace

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

// The memory order of the result: the heads of one position are adjacent, as the following projection requires.
inline Desc heads_side_by_side(const Dims& dims, DataType type) {
  if (dims.size() != 4) return plain(dims, type);
  return strided(dims, type, {dims[1] * dims[2] * dims[3], dims[3], dims[1] * dims[3], 1});
}

constexpr int64_t kMostQueries = 8;  // of a head; with more, oneDNN is used
constexpr int64_t kMostKeysOfChunk = 256, kLeastKeysOfChunk = 32;

// The size of a chunk, which one thread processes; all threads get the same number of chunks.
inline int64_t keys_of_chunk(int64_t columns, int64_t threads) {
  const int64_t most = kMostKeysOfChunk * threads, rounds = std::max<int64_t>(1, (columns + most - 1) / most);
  return std::max(kLeastKeysOfChunk, (columns + rounds * threads - 1) / (rounds * threads));
}

struct AttentionOfRows {
  std::vector<Matrices> keys, values;  // of each part; keys: (depth, columns)
  Matrices queries, result;
  AttentionRow given;
  Dims mask_dims, mask_strides;
  int64_t threads;

  int64_t part_size(size_t part) const { return values[part].dims[2]; }
  int64_t columns() const {
    int64_t count = 0;
    for (size_t part = 0; part < values.size(); ++part) count += part_size(part);
    return count;
  }
  int64_t rows() const { return queries.dims[2]; }
  int64_t depth() const { return queries.dims[3]; }
  int64_t width() const { return result.dims[3]; }
  int64_t sharing() const { return queries.dims[1] / keys[0].dims[1]; }  // the number of heads that share keys
  int64_t lines() const { return sharing() * rows(); }                  // the number of queries for the same keys
  int64_t batches() const { return keys[0].dims[0]; }
  int64_t pairs() const { return keys[0].dims[1]; }  // the number of heads of keys
  int64_t stacks() const { return batches() * pairs(); }
  int64_t chunk_size() const { return keys_of_chunk(columns(), threads); }
  int64_t chunks() const { return (columns() + chunk_size() - 1) / chunk_size(); }

  // The partial result of a chunk for each line, in floats: largest score, sum of the weights, weighted values.
  int64_t left() const { return width() + 2; }
  int64_t left_of_all() const { return stacks() * chunks() * lines() * left(); }
  int64_t floats_of_thread() const { return pairs() * lines() * (depth() + chunk_size() + width()); }

  // Stores the partial results of a chunk at `to`, those of successive heads `step` floats apart.
  void run_chunk(const std::vector<char*>& pointers, int64_t batch, int64_t chunk, float* memory, float* to,
                 int64_t step) const {
    const int64_t size = std::min(chunk_size(), columns() - chunk * chunk_size()), first = chunk * chunk_size();
    const int64_t all = pairs() * lines(), leading = chunk_size();
    float* const scores = memory + all * depth();
    float* const sums = scores + all * leading;
    copy_queries(floats(pointers[0]), batch * pairs() * sharing(), memory);
    const auto multiply = [&](int64_t pair, const float* from, int64_t stride, int64_t count, int64_t at) {
      multiply_keys(memory + pair * lines() * depth(), lines(), depth(), from, stride, count,
                    scores + pair * lines() * leading + at, leading);
    };
    each_run(pointers, keys, 1, 3, batch, first, size, multiply);
    for (int64_t line = 0; line < all; ++line) {
      float* const left = to + line / lines() * step + line % lines() * this->left();
      left[0] = weigh(pointers, (batch * pairs() + line / lines()) * sharing(), line % lines(), first, size,
                      scores + line * leading, left + 1);
    }
    std::fill(sums, sums + all * width(), 0.0f);
    const auto add = [&](int64_t pair, const float* from, int64_t stride, int64_t count, int64_t at) {
      add_values(scores + pair * lines() * leading + at, leading, lines(), from, stride, count,
                 sums + pair * lines() * width(), width());
    };
    each_run(pointers, values, 1 + keys.size(), 2, batch, first, size, add);
    for (int64_t line = 0; line < all; ++line) {
      float* const left = to + line / lines() * step + line % lines() * this->left();
      std::copy(sums + line * width(), sums + (line + 1) * width(), left + 2);
    }
  }

  // Combines the partial results of the chunks of a line.
  void join(const float* from, int64_t stack, int64_t line, char* whole) const {
    const int64_t step = lines() * left(), row = line % rows();
    float largest = -INFINITY, sum = 0.0f;
    for (int64_t chunk = 0; chunk < chunks(); ++chunk) largest = std::max(largest, from[chunk * step]);
    float* const to = floats(whole) + result.offset(queries.dims, stack * sharing() + line / rows()) + row * result.row_stride();
    std::fill(to, to + width(), 0.0f);
    for (int64_t chunk = 0; chunk < chunks(); ++chunk, from += step) {
      const float share = exponential(from[0] - largest);
      sum += share * from[1];
      for (int64_t column = 0; column < width(); ++column) to[column] += share * from[2 + column];
    }
    for (int64_t column = 0; column < width(); ++column) to[column] /= sum;
  }

 private:
  // Calls `action` for the intersection of some columns with each part of the keys: the part, its first key, the number
  // of keys, and the first of the columns.
  template <typename Action>
  void each_part(int64_t first, int64_t size, Action action) const {
    int64_t before = 0;
    for (size_t part = 0; part < keys.size(); before += part_size(part), ++part) {
      const int64_t begin = std::max(first, before), end = std::min(first + size, before + part_size(part));
      if (begin < end) action(part, begin - before, end - begin, begin - first);
    }
  }

  // Calls `action` for `kRowsOfHead` keys or values of each head in turn: the head, the first row, the stride and number
  // of rows, and the index of the first within the chunk. `tensors` are the operands from `pointer` on, whose rows lie
  // along `axis`.
  template <typename Action>
  void each_run(const std::vector<char*>& pointers, const std::vector<Matrices>& tensors, size_t pointer, int axis,
                int64_t batch, int64_t first, int64_t size, Action action) const {
    each_part(first, size, [&](size_t part, int64_t begin, int64_t count, int64_t at) {
      const float* const data = floats(pointers[pointer + part]);
      const int64_t stride = tensors[part].strides[axis];
      for (int64_t done = 0; done < count; done += kRowsOfHead) {
        for (int64_t pair = 0; pair < pairs(); ++pair) {
          const int64_t head = (batch * pairs() + pair) * sharing();
          action(pair, data + tensors[part].offset(queries.dims, head) + (begin + done) * stride, stride,
                 std::min(kRowsOfHead, count - done), at + done);
        }
      }
    });
  }

  void copy_queries(const float* from, int64_t head, float* to) const {
    for (int64_t line = 0; line < pairs() * lines(); ++line, to += depth()) {
      const float* const row = from + queries.offset(queries.dims, head + line / rows()) + line % rows() * queries.row_stride();
      std::copy(row, row + depth(), to);
    }
  }

  // Computes the weights of the scores of a chunk relative to the largest score, which is returned, and stores their
  // sum. A fully masked chunk has weights of zero, unless it is the only one.
  float weigh(const std::vector<char*>& pointers, int64_t head, int64_t line, int64_t first, int64_t size, float* scores,
              float* sum) const {
    const float* const mask = mask_dims.empty() ? nullptr : mask_of(floats(pointers[1 + 2 * keys.size()]), head, line);
    const int64_t step = mask_dims.empty() ? 0 : mask_strides[3];
    const float* const hidden = mask == nullptr ? nullptr : mask + first * step;
    const float largest = masked_scores(scores, scores, size, given.scale, given.mask, hidden, step, given.fill);
    if (chunks() > 1 && shows_nothing(scores, size, largest)) {
      std::fill(scores, scores + size, 0.0f);
      *sum = 0.0f;
    } else {
      *sum = powers(scores, size, largest);
    }
    return largest;
  }

  const float* mask_of(const float* mask, int64_t head, int64_t line) const {
    const int64_t whole = head + line / rows(), heads = queries.dims[1];
    return mask + whole / heads * mask_strides[0] + whole % heads * mask_strides[1] + line % rows() * mask_strides[2];
  }
};

// A layout in which `axis` is contiguous and the other axes are in order; the tensor's own layout if it qualifies.
inline Desc rows_along(Builder& builder, int tensor, int axis) {
  const Desc& desc = builder.layout(tensor);
  if (is_strided(desc) && desc.get_strides()[axis] == 1) return retyped(desc, kFloat);
  const Dims& dims = builder.dims(tensor);
  if (axis == 3) return plain(dims, kFloat);
  return strided(dims, kFloat, {dims[1] * dims[2] * dims[3], dims[2] * dims[3], 1, dims[2]});
}

inline bool has_few_queries(Builder& builder, const NodeRow& node) {
  const auto& given = parameters_of<AttentionRow>(node);
  const Dims& dims = builder.dims(node.inputs[0]);
  if (dims.size() != 4 || dims[2] > kMostQueries || given.causal != Causal::none || given.guarded) return false;
  const Dims &keys = builder.dims(node.inputs[1]), &values = builder.dims(node.inputs[node.kind == Kind::attention ? 2 : 3]);
  return keys[0] == dims[0] && values[0] == dims[0] && keys[1] == values[1];  // one batch may serve all, or other heads
}

// inputs: queries, `parts` parts of the keys, as many of the values, optionally a mask.
inline void attention_of_rows(Builder& builder, const NodeRow& node, int parts) {
  std::vector<Argument> arguments;
  std::vector<Matrices> matrices;
  const auto add = [&](int index, int axis) {
    const Desc desc = rows_along(builder, node.inputs[index], axis);
    arguments.push_back({DNNL_ARG_MULTIPLE_SRC + index, desc, builder.fetch(node.inputs[index], desc)});
    matrices.emplace_back(desc);
  };
  add(0, 3);
  for (int part = 0; part < parts; ++part) add(1 + part, 2);
  for (int part = 0; part < parts; ++part) add(1 + parts + part, 3);
  Dims mask_dims, mask_strides;
  if (node.inputs.size > 1 + 2 * parts) {
    const int tensor = node.inputs[1 + 2 * parts];
    mask_dims = builder.dims(tensor);
    mask_strides = repeating_strides(mask_dims);
    const Desc mask = plain(mask_dims, kFloat);
    arguments.push_back({DNNL_ARG_SRC_3, mask, builder.fetch(tensor, mask)});
  }
  const Desc to = heads_side_by_side(builder.dims(node.output), kFloat);
  const Place place = builder.fresh(to);
  arguments.push_back({DNNL_ARG_DST, to, place});
  const AttentionOfRows work{{matrices.begin() + 1, matrices.begin() + 1 + parts},
                             {matrices.begin() + 1 + parts, matrices.end()},
                             matrices[0],
                             Matrices(to),
                             parameters_of<AttentionRow>(node),
                             mask_dims,
                             mask_strides,
                             shares()};
  const size_t whole = arguments.size() - 1;
  const auto kernel = [work, whole](const std::vector<char*>& pointers) {
    float* const left = floats(pointers.back());
    const int64_t chunks = work.chunks(), step = work.lines() * work.left();
#pragma omp parallel for
    for (int64_t item = 0; item < work.batches() * chunks; ++item) {
      const int64_t batch = item / chunks, chunk = item % chunks;
      float* const memory = left + work.left_of_all() + omp_get_thread_num() * work.floats_of_thread();
      work.run_chunk(pointers, batch, chunk, memory, left + (batch * work.pairs() * chunks + chunk) * step, chunks * step);
    }
    for (int64_t stack = 0; stack < work.stacks(); ++stack) {
      for (int64_t line = 0; line < work.lines(); ++line) {
        work.join(left + stack * chunks * step + line * work.left(), stack, line, pointers[whole]);
      }
    }
  };
  const int64_t numbers = work.left_of_all() + omp_get_max_threads() * work.floats_of_thread();
  const std::string label = "attention of few rows " + layout_name(to);
  builder.add_kernel(kernel, std::move(arguments), label, static_cast<size_t>(numbers) * sizeof(float));
  builder.define(node.output, to, place);
}

}  // namespace annotated_region_dnnl
