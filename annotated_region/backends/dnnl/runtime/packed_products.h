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

// The caller's thread and the workers take tiles. One row is multiplied in whole numbers where it can be.
inline Kernel few_packed_rows(const PackedWeight& weight, int64_t rows, bool has_bias) {
  const int64_t padded = weight.padded_depth(), copied = padded == weight.depth ? 0 : rows * padded;
  return [=, level = level(), in_digits = rows == 1 && takes_digits(weight)](const std::vector<char*>& pointers) {
    const float* from = floats(pointers[0]);
    if (copied > 0) {
      pad_rows(from, rows, weight.depth, floats(pointers.back()), padded);
      from = floats(pointers.back());
    }
    float* const to = floats(pointers[has_bias ? 3 : 2]);
    const DigitRow digits = digit_row(weight, pointers.back() + copied * sizeof(float));
    const bool has_digits = in_digits && make_digits(weight, from, digits);
#pragma omp parallel for
    for (int64_t tile = 0; tile < weight.tiles(); ++tile) {
      const int64_t first = tile * kTileColumns, width = std::min(kTileColumns, weight.columns - first);
      const char* const stored = pointers[1] + tile * weight.tile_bytes();
      const float* const bias = has_bias ? floats(pointers[2]) + first : nullptr;
      if (has_digits) {
        multiply_digits(weight, stored, digits, bias, to + first, width);
      } else {
        multiply_tile(weight, level, stored, from, padded, rows, bias, to + first, width);
      }
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

// All rows with the weights as they are stored.
inline void multiply_few(Builder& builder, const NodeRow& node, const PackedWeight& weight, const Desc& to, Place place) {
  const int64_t rows = volume(builder.dims(node.output), 0, builder.dims(node.output).size() - 1);
  const Desc data = plain(builder.dims(node.inputs[0]), kFloat), packed = builder.stated(node.inputs[1]);
  const bool has_bias = node.inputs.size > 2;
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, data, builder.fetch(node.inputs[0], data)},
                                     {DNNL_ARG_WEIGHTS, packed, builder.fetch(node.inputs[1], packed)}};
  if (has_bias) arguments.push_back({DNNL_ARG_BIAS, builder.plain(node.inputs[2]), bias_of(builder, node)});
  arguments.push_back({DNNL_ARG_DST, to, place});
  const int64_t deeper = weight.padded_depth() == weight.depth ? 0 : rows * weight.padded_depth();
  const int64_t digits = rows == 1 && takes_digits(weight) ? digit_bytes(weight) : 0;
  builder.add_kernel(few_packed_rows(weight, rows, has_bias), std::move(arguments), "few rows " + note_of(weight),
                     static_cast<size_t>(deeper) * sizeof(float) + static_cast<size_t>(digits));
}

// inputs: rows, the stored weights, and a bias or none.
inline void packed_product(Builder& builder, const NodeRow& node) {
  const auto& [bits, group, depth, columns, zeros] = parameters_of<PackedProductRow>(node);
  const PackedWeight weight{depth, columns, group, bits, zeros};
  const Dims& out = builder.dims(node.output);
  const Desc to = plain(out, kFloat);
  const Place place = builder.fresh(to);
  if (volume(out, 0, out.size() - 1) <= kMostPackedRows) {
    multiply_few(builder, node, weight, to, place);
  } else {
    for (int64_t first = 0; first < columns; first += panel_columns(weight)) {
      multiply_panel(builder, node, weight, place, first);
    }
  }
  builder.define(node.output, to, place);
}

}  // namespace annotated_region_dnnl
