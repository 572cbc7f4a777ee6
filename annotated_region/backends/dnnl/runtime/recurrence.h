// Recurrent layers over sequences of any length. A block of sequences reads the weight of the state together, whose
// tiles of 16 columns with all rows follow each other, and keeps its sums in registers.

namespace annotated_region_dnnl {
namespace {

constexpr int64_t kTile = 16;  // columns

using Tile = float __attribute__((vector_size(kTile * sizeof(float)), aligned(sizeof(float))));

// The sums of some tiles for some states, which are `step` numbers apart.
template <int kRows, int kTiles>
inline __attribute__((always_inline)) void add_tiles(const float* states, int64_t step, int64_t hidden,
                                                     const float* weight, float* sums, int64_t sums_step) {
  Tile total[kRows][kTiles] = {};
  for (int64_t k = 0; k < hidden; ++k) {
#pragma GCC unroll 2
    for (int tile = 0; tile < kTiles; ++tile) {
      const Tile column = *reinterpret_cast<const Tile*>(weight + (tile * hidden + k) * kTile);
#pragma GCC unroll 4
      for (int row = 0; row < kRows; ++row) total[row][tile] += states[row * step + k] * column;
    }
  }
#pragma GCC unroll 4
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 2
    for (int tile = 0; tile < kTiles; ++tile) {
      *reinterpret_cast<Tile*>(sums + row * sums_step + tile * kTile) = total[row][tile];
    }
  }
}

template <int kTiles>
inline __attribute__((always_inline)) void add_rows(int64_t rows, const float* states, int64_t step, int64_t hidden,
                                                    const float* weight, float* sums, int64_t sums_step) {
  for (; rows >= 4; rows -= 4, states += 4 * step, sums += 4 * sums_step) {
    add_tiles<4, kTiles>(states, step, hidden, weight, sums, sums_step);
  }
  if (rows == 3) return add_tiles<3, kTiles>(states, step, hidden, weight, sums, sums_step);
  if (rows == 2) return add_tiles<2, kTiles>(states, step, hidden, weight, sums, sums_step);
  if (rows == 1) return add_tiles<1, kTiles>(states, step, hidden, weight, sums, sums_step);
}

// The product of states with tiles of a weight, two at once for all states, which so stay in a cache.
ANNOTATED_REGION_CLONES void multiply_states(int64_t rows, const float* states, int64_t step, int64_t hidden,
                                             const float* weight, int64_t tiles, float* sums, int64_t sums_step) {
  int64_t tile = 0;
  for (; tile + 2 <= tiles; tile += 2) {
    add_rows<2>(rows, states, step, hidden, weight + tile * hidden * kTile, sums + tile * kTile, sums_step);
  }
  if (tile == tiles) return;
  add_rows<1>(rows, states, step, hidden, weight + tile * hidden * kTile, sums + tile * kTile, sums_step);
}

inline __attribute__((always_inline)) float logistic(float x) {
  const float power = decay(-__builtin_fabsf(x));
  return (x < 0.0f ? power : 1.0f) / (1.0f + power);
}

// Up to 0.625 an odd polynomial of Cephes, beyond by exp(-2 |x|).
inline __attribute__((always_inline)) float hyperbolic_tangent(float x) {
  const float size = __builtin_fabsf(x), square = x * x;
  const float near = polynomial(square, -5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f, 1.33314422036e-1f,
                                -3.33332819422e-1f);
  const float power = decay(-2.0f * size);
  const float far = __builtin_copysignf((1.0f - power) / (1.0f + power), x);
  return size < 0.625f ? near * square * x + x : far;
}

struct LoopCurve {
  LoopActivation kind;
  float alpha, beta, clip;
};

// Applies a function to numbers in place, clipped to a size that may be infinite.
ANNOTATED_REGION_CLONES void activate(const LoopCurve& curve, float* data, int64_t size) {
  const float alpha = curve.alpha, beta = curve.beta, clip = curve.clip;
  if (clip != INFINITY) {
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) {
      const float most = data[i] > clip ? clip : data[i];
      data[i] = most < -clip ? -clip : most;
    }
  }
  switch (curve.kind) {
    case LoopActivation::sigmoid:
#pragma omp simd
      for (int64_t i = 0; i < size; ++i) data[i] = logistic(data[i]);
      return;
    case LoopActivation::tanh:
#pragma omp simd
      for (int64_t i = 0; i < size; ++i) data[i] = hyperbolic_tangent(data[i]);
      return;
    case LoopActivation::relu:
#pragma omp simd
      for (int64_t i = 0; i < size; ++i) data[i] = data[i] < 0.0f ? 0.0f : data[i];
      return;
    case LoopActivation::affine:
#pragma omp simd
      for (int64_t i = 0; i < size; ++i) data[i] = data[i] * alpha + beta;
      return;
    case LoopActivation::hardsigmoid:
#pragma omp simd
      for (int64_t i = 0; i < size; ++i) {
        const float whole = data[i] * alpha + beta, most = whole > 1.0f ? 1.0f : whole;
        data[i] = most < 0.0f ? 0.0f : most;
      }
      return;
    case LoopActivation::leakyrelu:
#pragma omp simd
      for (int64_t i = 0; i < size; ++i) data[i] = data[i] < 0.0f ? data[i] * alpha : data[i];
      return;
    case LoopActivation::thresholdedrelu:
#pragma omp simd
      for (int64_t i = 0; i < size; ++i) data[i] = data[i] > alpha ? data[i] : 0.0f;
      return;
    case LoopActivation::scaledtanh:
#pragma omp simd
      for (int64_t i = 0; i < size; ++i) data[i] = alpha * hyperbolic_tangent(data[i] * beta);
      return;
    case LoopActivation::elu:
#pragma omp simd
      for (int64_t i = 0; i < size; ++i) {
        const float below = data[i] < 0.0f ? data[i] : 0.0f, above = data[i] < 0.0f ? 0.0f : data[i];
        data[i] = above + alpha * (exponential(below) - 1.0f);
      }
      return;
    case LoopActivation::softplus:
#pragma omp simd
      for (int64_t i = 0; i < size; ++i) {
        const float above = data[i] < 0.0f ? 0.0f : data[i];
        data[i] = above + logarithm(1.0f + decay(-__builtin_fabsf(data[i])));
      }
      return;
    case LoopActivation::softsign:
#pragma omp simd
      for (int64_t i = 0; i < size; ++i) data[i] = data[i] / (1.0f + __builtin_fabsf(data[i]));
      return;
  }
}

// to += left * right
ANNOTATED_REGION_CLONES void add_products(const float* left, const float* right, float* to, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) to[i] += left[i] * right[i];
}

// What a gate does not let through: 1 - gate.
ANNOTATED_REGION_CLONES void complement_run(const float* gate, float* to, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) to[i] = 1.0f - gate[i];
}

// The cell of an LSTM: forget * cell + take * update.
ANNOTATED_REGION_CLONES void renew_cell(const float* take, const float* forget, const float* update, float* cell,
                                        int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) cell[i] = forget[i] * cell[i] + take[i] * update[i];
}

// The state of a GRU: (1 - keep) * update + keep * state.
ANNOTATED_REGION_CLONES void renew_state(const float* keep, const float* update, const float* state, float* next,
                                         int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) next[i] = (1.0f - keep[i]) * update[i] + keep[i] * state[i];
}

}  // namespace

struct Recurrence {
  RecurrenceRow given;
  int64_t length, batch, hidden, tiles;  // of a gate

  // What the kernel gets; absent operands are null.
  struct Operands {
    const float *gates, *weight, *bias, *peepholes;
    const int32_t* lengths;
    std::array<const float*, 2> initial;
    float* result;
  };

  int64_t gates() const { return given.cell == CellKind::lstm ? 4 : given.cell == CellKind::gru ? 3 : 1; }
  int64_t states() const { return given.cell == CellKind::lstm ? 2 : 1; }

  // In floats, for each sequence: the state in front of and behind a step, the cell, a state that is reset, the gates.
  int64_t scratch() const { return (4 + gates()) * batch * padded(); }

  // Of a small weight each thread has all, and goes through its sequences alone. Of a large one it has some columns, of
  // all sequences at each step.
  void run(const Operands& operands, float* memory) const {
    std::array<float*, 5> parts;
    for (size_t part = 0; part < parts.size(); ++part) parts[part] = memory + part * batch * padded();
    std::fill_n(memory, 4 * batch * padded(), 0.0f);
    const Memory shared{parts[0], parts[1], parts[2], parts[3], parts[4]};
    copy_rows(operands.initial[0], hidden, shared.state, padded());
    if (states() == 2) copy_rows(operands.initial[1], hidden, shared.cell, padded());
    const bool by_columns = omp_get_max_threads() > 1 && gates() * tiles * tile_bytes() >= kLargeWeight;
    const float* const last = by_columns ? run_by_columns(operands, shared) : run_by_rows(operands, shared);
    copy_rows(last, padded(), operands.result, hidden);
    if (states() == 2) copy_rows(shared.cell, padded(), operands.result + batch * hidden, hidden);
  }

 private:
  static constexpr int64_t kLargeWeight = 1 << 19;  // in bytes

  // [batch, padded], and of the gates [batch, gates, padded].
  struct Memory {
    float *state, *next, *cell, *reset, *sums;
  };

  // Some tiles of each gate, of some sequences, at a step.
  struct Part {
    int64_t step, row, rows, tile, tiles;
  };

  int64_t padded() const { return tiles * kTile; }
  int64_t tile_bytes() const { return hidden * kTile * static_cast<int64_t>(sizeof(float)); }
  bool resets_in_front() const { return given.cell == CellKind::gru && !given.resets_behind; }
  int64_t step_of(int64_t number) const { return given.is_reversed ? length - 1 - number : number; }
  LoopCurve gate() const { return {given.gate, given.gate_alpha, given.gate_beta, given.clip}; }
  LoopCurve update() const { return {given.update, given.update_alpha, given.update_beta, given.clip}; }
  LoopCurve squash() const { return {given.squash, given.squash_alpha, given.squash_beta, INFINITY}; }

  void copy_rows(const float* from, int64_t from_step, float* to, int64_t to_step) const {
    for (int64_t row = 0; row < batch; ++row) std::copy_n(from + row * from_step, hidden, to + row * to_step);
  }

  // All steps of a few sequences by each thread. Returns the last state.
  const float* run_by_rows(const Operands& operands, const Memory& shared) const {
    const int64_t threads = omp_get_max_threads(), rows = (batch + threads - 1) / threads;
    const int64_t blocks = (batch + rows - 1) / rows;
#pragma omp parallel for if (blocks > 1)
    for (int64_t block = 0; block < blocks; ++block) {
      Memory memory = shared;
      const int64_t first = block * rows;
      for (int64_t number = 0; number < length; ++number, std::swap(memory.state, memory.next)) {
        const Part part{step_of(number), first, std::min(rows, batch - first), 0, tiles};
        if (resets_in_front()) reset(operands, memory, part);
        renew(operands, memory, part);
      }
    }
    return length % 2 == 0 ? shared.state : shared.next;
  }

  // At each step some columns of all sequences by each thread.
  const float* run_by_columns(const Operands& operands, Memory memory) const {
    const int64_t threads = omp_get_max_threads(), equal = (tiles + threads - 1) / threads;
    const int64_t chunk = equal + equal % 2, chunks = (tiles + chunk - 1) / chunk;
    const auto for_parts = [&](int64_t step, auto action) {
#pragma omp parallel for if (chunks > 1)
      for (int64_t index = 0; index < chunks; ++index) {
        const int64_t tile = index * chunk;
        action(Part{step, 0, batch, tile, std::min(chunk, tiles - tile)});
      }
    };
    for (int64_t number = 0; number < length; ++number, std::swap(memory.state, memory.next)) {
      const int64_t step = step_of(number);
      if (resets_in_front()) for_parts(step, [&](const Part& part) { reset(operands, memory, part); });
      for_parts(step, [&](const Part& part) { renew(operands, memory, part); });
    }
    return memory.state;
  }

  // What the product with the weight of a gate writes, of the part's columns.
  float* sum_of(const Memory& memory, const Part& part, int64_t row, int64_t number) const {
    return memory.sums + ((part.row + row) * gates() + number) * padded() + first_column(part);
  }

  // The part's columns of the product of the states with the weight of a gate.
  void multiply(const Operands& operands, const Memory& memory, const float* states, const Part& part,
                int64_t number) const {
    const float* const weight = operands.weight + (number * tiles + part.tile) * hidden * kTile;
    multiply_states(part.rows, states + part.row * padded(), padded(), hidden, weight, part.tiles,
                    sum_of(memory, part, 0, number), gates() * padded());
  }

  int64_t first_column(const Part& part) const { return part.tile * kTile; }
  int64_t columns(const Part& part) const { return std::min(part.tiles * kTile, hidden - first_column(part)); }

  const float* given_part(const Operands& operands, const Part& part, int64_t row, int64_t number) const {
    const int64_t sequence = part.step * batch + part.row + row;
    return operands.gates + (sequence * gates() + number) * hidden + first_column(part);
  }

  // What a GRU that resets in front of the product of the last gate multiplies there.
  void reset(const Operands& operands, const Memory& memory, const Part& part) const {
    multiply(operands, memory, memory.state, part, 1);
    const int64_t size = columns(part);
    for (int64_t row = 0; row < part.rows; ++row) {
      const int64_t place = (part.row + row) * padded() + first_column(part);
      float* const gate_row = sum_of(memory, part, row, 1);
      add_run(gate_row, given_part(operands, part, row, 1), gate_row, size);
      activate(gate(), gate_row, size);
      multiply_run(gate_row, memory.state + place, memory.reset + place, size);
    }
  }

  // The part's columns of the next state, and of the result.
  void renew(const Operands& operands, const Memory& memory, const Part& part) const {
    for (int64_t number = 0; number < gates(); ++number) {
      if (resets_in_front() && number == 1) continue;
      const bool is_reset = resets_in_front() && number == 2;
      multiply(operands, memory, is_reset ? memory.reset : memory.state, part, number);
    }
    const int64_t size = columns(part);
    for (int64_t row = 0; row < part.rows; ++row) {
      const int64_t sequence = part.row + row, place = sequence * padded() + first_column(part);
      float* const to =
          operands.result + ((states() + part.step) * batch + sequence) * hidden + first_column(part);
      if (operands.lengths != nullptr && part.step >= operands.lengths[sequence]) {
        std::copy_n(memory.state + place, size, memory.next + place);
        std::fill_n(to, size, 0.0f);
        continue;
      }
      renew_row(operands, memory, part, row);
      std::copy_n(memory.next + place, size, to);
    }
  }

  void renew_row(const Operands& operands, const Memory& memory, const Part& part, int64_t row) const {
    const int64_t place = (part.row + row) * padded() + first_column(part), size = columns(part);
    float* const next = memory.next + place;
    const auto product_of = [&](int64_t number) {
      float* const product = sum_of(memory, part, row, number);
      if (operands.bias != nullptr) {
        add_run(product, operands.bias + number * hidden + first_column(part), product, size);
      }
      return product;
    };
    const auto gate_of = [&](int64_t number) {
      float* const product = product_of(number);
      add_run(product, given_part(operands, part, row, number), product, size);
      return product;
    };
    if (given.cell == CellKind::lstm) {
      const float* const peepholes =
          operands.peepholes == nullptr ? nullptr : operands.peepholes + first_column(part);
      return renew_lstm(peepholes, memory.cell + place, next, size, gate_of);
    }
    if (given.cell == CellKind::rnn) {
      float* const whole = gate_of(0);
      activate(gate(), whole, size);
      std::copy_n(whole, size, next);
      return;
    }
    float* const keep = gate_of(0);
    activate(gate(), keep, size);
    float* const fresh = given.resets_behind ? product_of(2) : gate_of(2);
    if (given.resets_behind) {
      float* const passed = gate_of(1);
      activate(gate(), passed, size);
      multiply_run(fresh, passed, fresh, size);
      add_run(fresh, given_part(operands, part, row, 2), fresh, size);
    }
    activate(update(), fresh, size);
    renew_state(keep, fresh, memory.state + place, next, size);
  }

  // Gates in the order i, o, f, c.
  template <typename GateOf>
  void renew_lstm(const float* peepholes, float* cell, float* next, int64_t size, GateOf gate_of) const {
    float *const take = gate_of(0), *const out = gate_of(1), *const forget = gate_of(2), *const fresh = gate_of(3);
    const auto see = [&](int64_t number, float* to) {
      if (peepholes != nullptr) add_products(peepholes + number * hidden, cell, to, size);
    };
    see(0, take);
    activate(gate(), take, size);
    if (given.is_coupled) {
      complement_run(take, forget, size);
    } else {
      see(2, forget);
      activate(gate(), forget, size);
    }
    activate(update(), fresh, size);
    renew_cell(take, forget, fresh, cell, size);
    see(1, out);
    activate(gate(), out, size);
    std::copy_n(cell, size, next);
    activate(squash(), next, size);
    multiply_run(out, next, next, size);
  }
};

// inputs: the input's part of the gates [length, batch, gates * hidden], the weight in tiles, what there is of a bias,
// peepholes and lengths, the initial states. The result has the parts of the last state in front of those of all steps.
inline void recurrence(Builder& builder, const NodeRow& node) {
  const Dims &gates = builder.dims(node.inputs[0]), &weight = builder.dims(node.inputs[1]);
  Recurrence work{parameters_of<RecurrenceRow>(node), gates[0], gates[1], weight[1], 0};
  work.tiles = weight[0] / work.gates();
  std::vector<Argument> arguments;
  for (int tensor : node.inputs) {
    const Desc stated = builder.stated(tensor);
    // A sequence of no steps has no gates, and nothing reads them.
    const int fetched = is_empty(builder.dims(tensor)) ? node.inputs[1] : tensor;
    const Desc read = fetched == tensor ? stated : builder.stated(fetched);
    arguments.push_back({DNNL_ARG_MULTIPLE_SRC, read, builder.fetch(fetched, read)});
  }
  const Desc to = builder.plain(node.output);
  const Place place = builder.fresh(to);
  arguments.push_back({DNNL_ARG_DST, to, place});
  const auto kernel = [work](const std::vector<char*>& pointers) {
    Recurrence::Operands operands{};
    size_t next = 0;
    operands.gates = floats(pointers[next++]);
    operands.weight = floats(pointers[next++]);
    if (work.given.has_bias) operands.bias = floats(pointers[next++]);
    if (work.given.has_peepholes) operands.peepholes = floats(pointers[next++]);
    if (work.given.has_lengths) operands.lengths = reinterpret_cast<const int32_t*>(pointers[next++]);
    for (int64_t part = 0; part < work.states(); ++part) operands.initial[part] = floats(pointers[next++]);
    operands.result = floats(pointers[next]);
    work.run(operands, floats(pointers.back()));
  };
  builder.add_kernel(kernel, std::move(arguments), "recurrence " + layout_name(to),
                     static_cast<size_t>(work.scratch()) * sizeof(float));
  builder.define(node.output, to, place);
}

}  // namespace annotated_region_dnnl
