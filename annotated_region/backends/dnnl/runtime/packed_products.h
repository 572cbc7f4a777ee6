// Products with weights of 8 or 4 bits: with the packed weights, or, for many rows on processors without AVX-512 VNNI,
// with weights expanded to floats, a panel of columns at a time.

namespace annotated_region_dnnl {

constexpr int64_t kPanelNumbers = int64_t{1} << 21;    // the size of a panel in floats: 8 MB
constexpr int64_t kPanelRows = 16, kPanelColumns = 64;  // the blocks of the layout BA16a64b

// The bias vector of such a product, if it has one.
inline Place bias_of(Builder& builder, const NodeRow& node) {
  return builder.fetch(node.inputs[2], builder.plain(node.inputs[2]));
}

inline std::string note_of(const PackedWeight& weight) {
  return "of int" + std::to_string(weight.bits) + " in groups of " + std::to_string(weight.group);
}

// Expands some tiles to floats: in the blocks that oneDNN's products read, or as a plain matrix.
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

// The columns of a panel, which are whole tiles.
inline int64_t panel_columns(const PackedWeight& weight) {
  return std::max<int64_t>(1, kPanelNumbers / weight.depth / kTileColumns) * kTileColumns;
}

// Computes one panel of the result: expands its weights to floats, and multiplies with oneDNN.
inline void multiply_panel(Builder& builder, const NodeRow& node, const PackedWeight& weight, Place to, int64_t first) {
  const int64_t rows = volume(builder.dims(node.output), 0, builder.dims(node.output).size() - 1);
  const int64_t columns = std::min(panel_columns(weight), weight.columns - first);
  // For a result with larger row strides, oneDNN has only its slowest implementation for blocked weights.
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
  const PackedProductRow& given = parameters_of<PackedProductRow>(node);
  return {given.depth, given.columns, given.group, given.bits, given.zeros, given.halves};
}

// Whether a later node multiplies the same rows with such a weight, and depends on nothing else.
inline bool is_alike(Builder& builder, const NodeRow& node, const NodeRow& other) {
  if (other.kind != Kind::packed_product || other.inputs[0] != node.inputs[0]) return false;
  const PackedWeight weight = packed_weight_of(node), another = packed_weight_of(other);
  const bool has_its_bias = other.inputs.size < 3 || !builder.values(other.inputs[2]).empty();
  return has_its_bias && another.depth == weight.depth && another.group == weight.group && another.bits == weight.bits;
}

// Appends the operands of a product to the arguments of a step.
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

// Multiplies all rows with packed weights; includes later products of the same rows, such as those of queries, keys and
// values, so that the threads synchronize once.
inline void multiply_stored(Builder& builder, const NodeRow& node, int64_t rows, int64_t digits, bool rounds) {
  const Desc data = plain(builder.dims(node.inputs[0]), kFloat);
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, data, builder.fetch(node.inputs[0], data)}};
  const bool is_few = rows <= kMostPackedRows;
  const bool fills_tiles = rounds ? kAssemblesTiles : tile_depth(packed_weight_of(node).group) > 0;
  const bool in_tiles = has_instructions(dnnl::cpu_isa::avx512_core_amx) && fills_tiles;
  PackedRows work{{}, rows, level(), {is_few ? digits_of_few(rows, digits) : digits, !is_few && in_tiles}};
  const List<NodeRow>& nodes = builder.graph().nodes;
  for (int index = static_cast<int>(&node - &nodes[0]); index < nodes.size; ++index) {
    if (&nodes[index] != &node && !is_alike(builder, node, nodes[index])) continue;
    work.parts.push_back(part_of(builder, nodes[index], arguments));
  }
  const std::string times = work.parts.size() > 1 ? " times " + std::to_string(work.parts.size()) : "";
  const std::string label = (is_few ? "few rows " : "many rows ") + note_of(work.weight());
  if (rounds) {
    const size_t memory = PairMemory(work).bytes();
    return builder.add_kernel(many_rounded_rows(work), std::move(arguments), label + " in bfloat16" + times, memory);
  }
  const size_t scratchpad = is_few ? few_rows_scratchpad(work) : BlockMemory(work).bytes();
  builder.add_kernel(is_few ? few_packed_rows(work) : many_packed_rows(work), std::move(arguments), label + times, scratchpad);
}

// Whether bfloat16 pays: in Intel's vector units digits of float32 are faster (AVX512_BF16: 1.4 times the time).
inline bool rounds_packed_rows() { return kAssemblesPairs && multiplies_bfloat16() && multiplies_bfloat16_faster(); }

// inputs: rows, the packed weights, optionally a bias.
inline void packed_product(Builder& builder, const NodeRow& node) {
  if (!builder.values(node.output).empty()) return;  // computed together with an earlier product
  const PackedWeight weight = packed_weight_of(node);
  const Dims& out = builder.dims(node.output);
  const int64_t rows = volume(out, 0, out.size() - 1);
  const int64_t digits = takes_digits(weight) ? parameters_of<PackedProductRow>(node).digits : 0;
  const bool rounds = parameters_of<PackedProductRow>(node).rounds && rows > kMostPackedRows && rounds_packed_rows();
  if (rows <= kMostPackedRows || digits > 0 || rounds) return multiply_stored(builder, node, rows, digits, rounds);
  const Desc to = plain(out, kFloat);
  const Place place = builder.fresh(to);
  for (int64_t first = 0; first < weight.columns; first += panel_columns(weight)) {
    multiply_panel(builder, node, weight, place, first);
  }
  builder.define(node.output, to, place);
}

}  // namespace annotated_region_dnnl
