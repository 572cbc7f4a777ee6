// Attention of a few queries, such as those of one new token, to many keys. Products with so few rows are memory-bound,
// so this kernel reads the keys of heads that share them once, and divides them among threads. Keys and values may have
// two parts, past and new ones, which are read in place.
//
// A thread processes its share of the keys in chunks, whose scores stay in its cache: a few rows of one head, then the
// same rows of the next head. Where the heads of a token are adjacent in memory, processing one head after the other
// would read short runs with large strides. Weighted values are summed relative to the largest score so far, as in
// Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018), so that no memory grows with the keys.

namespace annotated_region_dnnl {

// The extents and strides of an operand with the axes batch, head, and two more; `view` says what they are in a call if a
// plan leaves an extent open.
struct Heads {
  std::array<int64_t, 4> dims{1, 1, 1, 1};
  std::array<int64_t, 4> strides{0, 0, 0, 0};
  OpenView view;

  int64_t offset(int64_t batch, int64_t head) const { return batch * strides[0] + head * strides[1]; }

  // The same in a call.
  void settle(const int64_t* expressions) {
    int64_t stride = 1;
    for (int axis = view.extents.size - 1; axis >= 0; --axis) {
      const int64_t extent = number_of(view.extents[axis], expressions);
      for (int place = 0; place < view.axes.size; ++place) {
        if (view.axes[place] != axis) continue;
        dims[place] = extent;
        strides[place] = extent == 1 ? 0 : stride;
      }
      stride *= std::max<int64_t>(extent, 1);
    }
  }
};

inline Heads heads_of(const Dims& dims, const Dims& strides) {
  Heads heads;
  std::copy(dims.begin(), dims.end(), heads.dims.begin());
  std::copy(strides.begin(), strides.end(), heads.strides.begin());
  return heads;
}

inline Heads heads_of(const Desc& desc) { return heads_of(desc.get_dims(), desc.get_strides()); }

// The memory order of the result: the heads of one position are adjacent, as the following projection requires.
inline Desc heads_side_by_side(const Dims& dims, DataType type) {
  if (dims.size() != 4) return plain(dims, type);
  return strided(dims, type, {dims[1] * dims[2] * dims[3], dims[3], dims[1] * dims[3], 1});
}

constexpr int64_t kKeysOfChunk = 256, kLeastKeysOfShare = 32;
constexpr size_t kMostParts = 2;

struct AttentionOfRows {
  std::array<Heads, kMostParts> keys, values;  // of each part; keys: (depth, columns)
  size_t parts = 0;
  Heads queries, result, mask;
  bool has_mask = false;
  AttentionRow given{};
  int64_t threads = 1;

  bool is_open() const { return keys[0].view.axes.size > 0; }

  // Takes the extents of a call.
  void settle(const int64_t* expressions) {
    for (Heads* heads : {&keys[0], &values[0], &mask}) heads->settle(expressions);
  }

  int64_t part_size(size_t part) const { return values[part].dims[2]; }
  int64_t columns() const {
    int64_t count = 0;
    for (size_t part = 0; part < parts; ++part) count += part_size(part);
    return count;
  }
  int64_t rows() const { return queries.dims[2]; }
  int64_t depth() const { return queries.dims[3]; }
  int64_t width() const { return result.dims[3]; }
  int64_t batches() const { return queries.dims[0]; }
  int64_t pairs() const { return keys[parts - 1].dims[1]; }             // the number of heads of keys
  int64_t sharing() const { return queries.dims[1] / pairs(); }  // the number of heads that share keys
  int64_t lines() const { return sharing() * rows(); }           // the number of queries for the same keys
  int64_t all_lines() const { return pairs() * lines(); }

  int64_t shares() const { return std::min(threads, (columns() + kLeastKeysOfShare - 1) / kLeastKeysOfShare); }
  int64_t share_size() const { return (columns() + shares() - 1) / shares(); }

  // The result of a share, in floats: for each line its weighted values; the largest scores; the sums of weights.
  int64_t left() const { return all_lines() * (width() + 2); }
  int64_t floats_of_thread() const { return all_lines() * (depth() + kKeysOfChunk); }
  int64_t scratch() const { return batches() * threads * left() + threads * floats_of_thread(); }

  // Stores the result of a share of the keys at `to`.
  void run_share(const std::vector<char*>& pointers, int64_t batch, int64_t share, float* memory, float* to) const {
    const int64_t end = std::min(columns(), (share + 1) * share_size());
    float* const largest = to + all_lines() * width();
    std::fill(to, largest, 0.0f);
    std::fill(largest, largest + all_lines(), -INFINITY);
    std::fill(largest + all_lines(), to + left(), 0.0f);
    copy_queries(floats(pointers[0]), batch, memory);
    for (int64_t first = share * share_size(); first < end; first += kKeysOfChunk) {
      add_chunk(pointers, batch, first, std::min(kKeysOfChunk, end - first), memory, to);
    }
  }

  // Combines the results of all shares, those of a batch at `from`.
  void join(const float* from, int64_t batch, char* whole) const {
    for (int64_t line = 0; line < all_lines(); ++line) {
      const int64_t head = line / rows(), row = line % rows();
      join_line(from, line, floats(whole) + result.offset(batch, head) + row * result.strides[2]);
    }
  }

 private:
  // What a sum relative to one largest score is multiplied by to be relative to another one; both may be -infinity.
  static float factor(float from, float to) { return from == to ? 1.0f : decay(from - to); }

  void join_line(const float* from, int64_t line, float* to) const {
    const auto largest_of = [&](int64_t share) { return from[share * left() + all_lines() * width() + line]; };
    const auto sum_of = [&](int64_t share) { return from[share * left() + all_lines() * (width() + 1) + line]; };
    float largest = -INFINITY, sum = 0.0f;
    for (int64_t share = 0; share < shares(); ++share) largest = std::max(largest, largest_of(share));
    std::fill(to, to + width(), 0.0f);
    for (int64_t share = 0; share < shares(); ++share) {
      const float weight = factor(largest_of(share), largest);
      const float* const values = from + share * left() + line * width();
      sum += weight * sum_of(share);
      for (int64_t column = 0; column < width(); ++column) to[column] += weight * values[column];
    }
    for (int64_t column = 0; column < width(); ++column) to[column] /= sum;
  }

  // Adds some keys, of which the scores fit into the cache, to the result of a share.
  void add_chunk(const std::vector<char*>& pointers, int64_t batch, int64_t first, int64_t size, float* memory,
                 float* to) const {
    float* const scores = memory + all_lines() * depth();
    const auto multiply = [&](int64_t pair, const float* from, int64_t stride, int64_t count, int64_t at) {
      multiply_rows_of_keys(memory + pair * lines() * depth(), lines(), depth(), from, stride, count,
                            scores + pair * lines() * kKeysOfChunk + at, kKeysOfChunk);
    };
    each_run(pointers, keys, 1, 3, batch, first, size, multiply);
    float* const largest = to + all_lines() * width();
    for (int64_t line = 0; line < all_lines(); ++line) {
      const float before = largest[line];
      float& sum = largest[all_lines() + line];
      const float more = weigh(pointers, batch, line, first, size, scores + line * kKeysOfChunk, largest[line]);
      const float kept = factor(before, largest[line]);
      sum = kept * sum + more;
      for (int64_t column = 0; kept != 1.0f && column < width(); ++column) to[line * width() + column] *= kept;
    }
    const auto add = [&](int64_t pair, const float* from, int64_t stride, int64_t count, int64_t at) {
      add_rows_of_values(scores + pair * lines() * kKeysOfChunk + at, kKeysOfChunk, lines(), from, stride, count,
                         to + pair * lines() * width(), width());
    };
    each_run(pointers, values, 1 + parts, 2, batch, first, size, add);
  }

  // Calls `action` for the intersection of some columns with each part of the keys: the part, its first key, the number
  // of keys, and the first of the columns.
  template <typename Action>
  void each_part(int64_t first, int64_t size, Action action) const {
    int64_t before = 0;
    for (size_t part = 0; part < parts; before += part_size(part), ++part) {
      const int64_t begin = std::max(first, before), end = std::min(first + size, before + part_size(part));
      if (begin < end) action(part, begin - before, end - begin, begin - first);
    }
  }

  // Calls `action` for `kRowsOfHead` keys or values of each head in turn: the head, the first row, the stride and number
  // of rows, and the index of the first within the chunk. `tensors` are the operands from `pointer` on, whose rows lie
  // along `axis`.
  template <typename Action>
  void each_run(const std::vector<char*>& pointers, const std::array<Heads, kMostParts>& tensors, size_t pointer,
                int axis, int64_t batch, int64_t first, int64_t size, Action action) const {
    each_part(first, size, [&](size_t part, int64_t begin, int64_t count, int64_t at) {
      const float* const data = floats(pointers[pointer + part]);
      const int64_t stride = tensors[part].strides[axis];
      for (int64_t done = 0; done < count; done += kRowsOfHead) {
        for (int64_t pair = 0; pair < pairs(); ++pair) {
          action(pair, data + tensors[part].offset(batch, pair) + (begin + done) * stride, stride,
                 std::min(kRowsOfHead, count - done), at + done);
        }
      }
    });
  }

  void copy_queries(const float* from, int64_t batch, float* to) const {
    for (int64_t line = 0; line < all_lines(); ++line, to += depth()) {
      const float* const row = from + queries.offset(batch, line / rows()) + line % rows() * queries.strides[2];
      std::copy(row, row + depth(), to);
    }
  }

  // Computes the weights of the scores of a chunk relative to the largest score so far, which is updated; returns their
  // sum. A fully masked chunk has weights of zero.
  float weigh(const std::vector<char*>& pointers, int64_t batch, int64_t line, int64_t first, int64_t size,
              float* scores, float& largest) const {
    const float* hidden = nullptr;
    if (has_mask) {
      const float* const data = floats(pointers[1 + 2 * parts]) + mask.offset(batch, line / rows());
      hidden = data + line % rows() * mask.strides[2] + first * mask.strides[3];
    }
    const float found = masked_scores(scores, scores, size, given.scale, given.mask, hidden, mask.strides[3], given.fill);
    largest = std::max(largest, found);
    if (!shows_nothing(scores, size, found)) return powers(scores, size, largest);
    std::fill(scores, scores + size, 0.0f);
    return 0.0f;
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

// An operand that attention of a few queries reads, as an argument of its step.
struct Operand {
  Heads heads;
  Argument argument;
};

inline Operand operand(Builder& builder, int tensor, const Desc& desc) {
  return {heads_of(desc), {DNNL_ARG_MULTIPLE_SRC, desc, builder.fetch(tensor, desc)}};
}

inline Operand open_operand(Builder& builder, const OpenViewRow& row) {
  Heads heads;
  heads.view = {builder.graph().tensors[row.input].extents, row.axes};
  const Value& input = builder.value(row.input);
  return {heads, {DNNL_ARG_MULTIPLE_SRC, input.desc, input.place}};
}

// An operand whose rows lie along `axis`.
inline Operand operand_along(Builder& builder, int tensor, int axis) {
  const OpenViewRow* const view = builder.open_view(tensor);
  return view != nullptr ? open_operand(builder, *view) : operand(builder, tensor, rows_along(builder, tensor, axis));
}

inline Operand mask_operand(Builder& builder, int tensor) {
  const OpenViewRow* const view = builder.open_view(tensor);
  if (view != nullptr) return open_operand(builder, *view);
  const Dims& dims = builder.dims(tensor);
  Operand mask = operand(builder, tensor, plain(dims, kFloat));
  mask.heads = heads_of(dims, repeating_strides(dims));
  return mask;
}

// The arguments: queries, parts of the keys, parts of the values, a mask if there is one, the result, the extents of the
// call if some are open, scratch memory.
inline Kernel kernel_of(const AttentionOfRows& planned, size_t result) {
  return [planned, result](const std::vector<char*>& pointers) {
    AttentionOfRows work = planned;
    if (work.is_open()) work.settle(reinterpret_cast<const int64_t*>(pointers[result + 1]));
    float* const left = floats(pointers.back());
    float* const memory = left + work.batches() * work.threads * work.left();
    const int64_t shares = work.shares(), step = shares * work.left();
#pragma omp parallel for
    for (int64_t item = 0; item < work.batches() * shares; ++item) {
      const int64_t batch = item / shares, share = item % shares;
      work.run_share(pointers, batch, share, memory + omp_get_thread_num() * work.floats_of_thread(),
                     left + batch * step + share * work.left());
    }
    for (int64_t batch = 0; batch < work.batches(); ++batch) work.join(left + batch * step, batch, pointers[result]);
  };
}

// inputs: queries, `parts` parts of the keys, as many of the values, optionally a mask.
inline void attention_of_rows(Builder& builder, const NodeRow& node, int parts) {
  std::vector<Argument> arguments;
  const auto add = [&](const Operand& operand) {
    arguments.push_back(operand.argument);
    return operand.heads;
  };
  const Desc to = heads_side_by_side(builder.dims(node.output), kFloat);
  AttentionOfRows work;
  work.parts = static_cast<size_t>(parts);
  work.result = heads_of(to);
  work.given = parameters_of<AttentionRow>(node);
  work.threads = shares();
  work.has_mask = node.inputs.size > 1 + 2 * parts;
  work.queries = add(operand_along(builder, node.inputs[0], 3));
  for (int part = 0; part < parts; ++part) work.keys[part] = add(operand_along(builder, node.inputs[1 + part], 2));
  for (int part = 0; part < parts; ++part) {
    work.values[part] = add(operand_along(builder, node.inputs[1 + parts + part], 3));
  }
  if (work.has_mask) work.mask = add(mask_operand(builder, node.inputs[1 + 2 * parts]));
  const Place place = builder.fresh(to);
  const size_t result = arguments.size();
  arguments.push_back({DNNL_ARG_DST, to, place});
  if (work.is_open()) arguments.push_back(builder.extents_of_call());
  builder.add_kernel(kernel_of(work, result), std::move(arguments), "attention of few rows " + layout_name(to),
                     static_cast<size_t>(work.scratch()) * sizeof(float));
  builder.define(node.output, to, place);
}

}  // namespace annotated_region_dnnl
