// Products with weights of 8 or 4 bits: few rows with the weights as they are stored, many with floats made of a
// panel of columns at a time.

namespace annotated_region_dnnl {

constexpr int64_t kMostPackedRows = 16;                // more rows pay for making floats of the weights
constexpr int64_t kPanelNumbers = int64_t{1} << 21;    // floats of a panel: 8 MB
constexpr int64_t kPanelRows = 16, kPanelColumns = 64;  // blocks of the layout BA16a64b

// The bias of such a product, a vector, if it has one.
inline Place bias_of(Builder& builder, const NodeRow& node) {
  return builder.fetch(node.inputs[2], builder.plain(node.inputs[2]));
}

// Copies rows with zeros behind them, so that they are as deep as the last group of the weights reaches.
inline void pad_rows(const float* from, int64_t rows, int64_t depth, float* to, int64_t padded) {
  for (int64_t row = 0; row < rows; ++row, from += depth, to += padded) {
    std::copy(from, from + depth, to);
    std::fill(to + depth, to + padded, 0.0f);
  }
}

inline std::string note_of(const PackedWeight& weight) {
  return "of int" + std::to_string(weight.bits) + " in groups of " + std::to_string(weight.group);
}

// One of the products that a step computes: its weight, and which of the step's pointers are what. A bias below zero is
// none.
struct PackedPart {
  PackedWeight weight;
  int stored, bias, result;
};

// Products of the same few rows with one or more weights that agree in depth, group and bits.
struct PackedRows {
  std::vector<PackedPart> parts;
  int64_t rows;
  Level level;
  bool in_digits;  // one row in whole numbers, where it can be

  const PackedWeight& weight() const { return parts.front().weight; }
  int64_t padded_floats() const { return weight().padded_depth() == weight().depth ? 0 : rows * weight().padded_depth(); }
  size_t padded_bytes() const { return round_up(static_cast<size_t>(padded_floats()) * sizeof(float), kAlignment); }
  size_t share_bytes() const { return in_digits ? round_up(static_cast<size_t>(digit_bytes(weight())), kAlignment) : 0; }

  int64_t tiles() const {
    int64_t count = 0;
    for (const PackedPart& part : parts) count += part.weight.tiles();
    return count;
  }

  // Some of the tiles, those of one part behind those of the other; `digits` is null if the row has none.
  void run(const std::vector<char*>& pointers, const float* from, const DigitRow* digits, int64_t first,
           int64_t last) const {
    for (const PackedPart& part : parts) {
      const int64_t count = part.weight.tiles();
      for (int64_t tile = std::max<int64_t>(first, 0); tile < std::min(last, count); ++tile) {
        multiply(pointers, part, from, digits, tile);
      }
      first -= count, last -= count;
    }
  }

 private:
  void multiply(const std::vector<char*>& pointers, const PackedPart& part, const float* from, const DigitRow* digits,
                int64_t tile) const {
    const PackedWeight& weight = part.weight;
    const int64_t first = tile * kTileColumns, width = std::min(kTileColumns, weight.columns - first);
    const char* const stored = pointers[part.stored] + tile * weight.tile_bytes();
    const float* const bias = part.bias < 0 ? nullptr : floats(pointers[part.bias]) + first;
    float* const to = floats(pointers[part.result]) + first;
    if (digits != nullptr) return multiply_digits(weight, stored, *digits, bias, to, width);
    multiply_tile(weight, level, stored, from, weight.padded_depth(), rows, bias, to, width);
  }
};

// The caller's thread and the workers take neighbouring tiles, which they read as one stream. Each makes the digits of
// the row in memory of its own: that takes less time than to get them from the cache of another processor.
inline Kernel few_packed_rows(const PackedRows& work) {
  return [work, tiles = work.tiles()](const std::vector<char*>& pointers) {
    const PackedWeight& weight = work.weight();
    const float* from = floats(pointers[0]);
    if (work.padded_floats() > 0) {
      pad_rows(from, work.rows, weight.depth, floats(pointers.back()), weight.padded_depth());
      from = floats(pointers.back());
    }
#pragma omp parallel num_threads(help_is_worth() > 0 ? helpers() + 1 : 1)
    {
      const int64_t share = omp_get_thread_num(), shares = omp_get_num_threads();
      const DigitRow digits = digit_row(weight, pointers.back() + work.padded_bytes() + share * work.share_bytes());
      const bool has_digits = work.in_digits && make_digits(weight, from, digits);
      work.run(pointers, from, has_digits ? &digits : nullptr, tiles * share / shares, tiles * (share + 1) / shares);
    }
  };
}

// Makes the floats of some tiles: in blocks as oneDNN's products read them, or as a plain matrix.
inline Kernel unpacking_kernel(const PackedWeight& weight, int64_t first, int64_t columns, bool in_blocks) {
  const int64_t padded = (weight.depth + kPanelRows - 1) / kPanelRows * kPanelRows;
  const int64_t step = in_blocks ? kPanelColumns : columns, between = in_blocks ? padded * kPanelColumns : kTileColumns;
  return [=, unpack = tile_unpacker(weight, level())](const std::vector<char*>& pointers) {
#pragma omp parallel for
    for (int64_t tile = 0; tile < (columns + kTileColumns - 1) / kTileColumns; ++tile) {
      float* const to = floats(pointers[1]) + tile * between;
      const int64_t width = in_blocks ? kTileColumns : std::min(kTileColumns, columns - tile * kTileColumns);
      unpack(weight, pointers[0] + (first / kTileColumns + tile) * weight.tile_bytes(), to, step, width);
      if (in_blocks) std::fill(to + weight.depth * step, to + padded * step, 0.0f);
    }
  };
}

// The columns of a panel: whole tiles.
inline int64_t panel_columns(const PackedWeight& weight) {
  return std::max<int64_t>(1, kPanelNumbers / weight.depth / kTileColumns) * kTileColumns;
}

// One panel of the result: the floats of its weights, then oneDNN's product with them.
inline void multiply_panel(Builder& builder, const NodeRow& node, const PackedWeight& weight, Place to, int64_t first) {
  const int64_t rows = volume(builder.dims(node.output), 0, builder.dims(node.output).size() - 1);
  const int64_t columns = std::min(panel_columns(weight), weight.columns - first);
  // Into a part of rows, oneDNN multiplies by blocks with its slowest implementation.
  const bool in_blocks = columns == weight.columns && has_instructions(dnnl::cpu_isa::avx512_core);
  const Dims dims = {weight.depth, columns};
  const Desc right = in_blocks ? Desc(dims, kFloat, Tag::BA16a64b) : plain(dims, kFloat);
  const Desc packed = builder.stated(node.inputs[1]), left = plain({rows, weight.depth}, kFloat);
  const Place whole = builder.fetch(node.inputs[1], packed), made = builder.fresh(right);
  builder.add_kernel(unpacking_kernel(weight, first, columns, in_blocks),
                     {{DNNL_ARG_FROM, packed, whole}, {DNNL_ARG_TO, right, made}}, "unpack " + note_of(weight));
  const auto moved = [&](Place place) { return Place{place.buffer, place.offset + first * sizeof(float)}; };
  const Desc out = strided({rows, columns}, kFloat, {weight.columns, 1});
  const Desc bias = node.inputs.size > 2 ? plain({1, columns}, kFloat) : Desc();
  const dnnl::matmul::primitive_desc pd(cpu(), left, right, bias, out, Builder::attributes());
  const Desc data = plain(builder.dims(node.inputs[0]), kFloat);
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, left, builder.fetch(node.inputs[0], data)},
                                     {DNNL_ARG_WEIGHTS, right, made},
                                     {DNNL_ARG_DST, out, moved(to)}};
  if (node.inputs.size > 2) arguments.push_back({DNNL_ARG_BIAS, bias, moved(bias_of(builder, node))});
  builder.add_step(pd, std::move(arguments), layout_name(right));
}

inline PackedWeight packed_weight_of(const NodeRow& node) {
  const auto& [bits, group, depth, columns, zeros] = parameters_of<PackedProductRow>(node);
  return {depth, columns, group, bits, zeros};
}

// Whether a later node multiplies the same rows with such a weight, and nothing else has to be computed before.
inline bool is_alike(Builder& builder, const NodeRow& node, const NodeRow& other) {
  if (other.kind != Kind::packed_product || other.inputs[0] != node.inputs[0]) return false;
  const PackedWeight weight = packed_weight_of(node), another = packed_weight_of(other);
  const bool has_its_bias = other.inputs.size < 3 || !builder.values(other.inputs[2]).empty();
  return has_its_bias && another.depth == weight.depth && another.group == weight.group && another.bits == weight.bits;
}

// Adds the operands of a product to those of a step.
inline PackedPart part_of(Builder& builder, const NodeRow& node, std::vector<Argument>& arguments) {
  const auto add = [&](int id, const Desc& desc, Place place) {
    arguments.push_back({id, desc, place});
    return static_cast<int>(arguments.size()) - 1;
  };
  const Desc packed = builder.stated(node.inputs[1]), to = plain(builder.dims(node.output), kFloat);
  PackedPart part{packed_weight_of(node), 0, -1, 0};
  part.stored = add(DNNL_ARG_WEIGHTS, packed, builder.fetch(node.inputs[1], packed));
  if (node.inputs.size > 2) part.bias = add(DNNL_ARG_BIAS, builder.plain(node.inputs[2]), bias_of(builder, node));
  const Place place = builder.fresh(to);
  part.result = add(DNNL_ARG_DST, to, place);
  builder.define(node.output, to, place);
  return part;
}

// All rows with the weights as they are stored; at once with the later products of the same rows, such as those that
// make queries, keys and values, for the threads to meet once.
inline void multiply_few(Builder& builder, const NodeRow& node, int64_t rows) {
  const Desc data = plain(builder.dims(node.inputs[0]), kFloat);
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, data, builder.fetch(node.inputs[0], data)}};
  PackedRows work{{}, rows, level(), rows == 1 && takes_digits(packed_weight_of(node))};
  const List<NodeRow>& nodes = builder.graph().nodes;
  for (int index = static_cast<int>(&node - &nodes[0]); index < nodes.size; ++index) {
    if (&nodes[index] != &node && !is_alike(builder, node, nodes[index])) continue;
    work.parts.push_back(part_of(builder, nodes[index], arguments));
  }
  const std::string times = work.parts.size() > 1 ? " times " + std::to_string(work.parts.size()) : "";
  const size_t scratchpad = work.padded_bytes() + omp_get_max_threads() * work.share_bytes();
  builder.add_kernel(few_packed_rows(work), std::move(arguments), "few rows " + note_of(work.weight()) + times, scratchpad);
}

// inputs: rows, the stored weights, and a bias or none.
inline void packed_product(Builder& builder, const NodeRow& node) {
  if (!builder.values(node.output).empty()) return;  // with an earlier product
  const PackedWeight weight = packed_weight_of(node);
  const Dims& out = builder.dims(node.output);
  const int64_t rows = volume(out, 0, out.size() - 1);
  if (rows <= kMostPackedRows) return multiply_few(builder, node, rows);
  const Desc to = plain(out, kFloat);
  const Place place = builder.fresh(to);
  for (int64_t first = 0; first < weight.columns; first += panel_columns(weight)) {
    multiply_panel(builder, node, weight, place, first);
  }
  builder.define(node.output, to, place);
}

}  // namespace annotated_region_dnnl
