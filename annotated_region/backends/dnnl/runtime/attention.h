// Builds the steps of attention: in the matrix unit where its operands are rounded to bfloat16, else in float32.

namespace annotated_region_dnnl {

// Calls `run` with each head and the first row of each block, in parallel.
template <typename Run>
void for_blocks(const Attention& work, Run run) {
  Failure failure;
#pragma omp parallel for
  for (int64_t item = 0; item < work.count * work.blocks(); ++item) {
    failure.guard([&] { run(item / work.blocks(), item % work.blocks() * work.block); });
  }
  failure.raise();
}

inline void add_attention_in_blocks(Builder& builder, const Attention& work, std::vector<Argument> arguments,
                                    const std::string& layout) {
  const size_t share = round_up(static_cast<size_t>(work.scratch()) * sizeof(float), kAlignment);
  const auto kernel = [work, share](const std::vector<char*>& pointers) {
    for_blocks(work, [&](int64_t head, int64_t first) {
      work.run(pointers, head, first, floats(pointers.back() + omp_get_thread_num() * share));
    });
  };
  builder.add_kernel(kernel, std::move(arguments), "attention " + layout, share * omp_get_max_threads());
}

inline void add_attention_in_tiles(Builder& builder, const AttentionInTiles& tiles, const Attention& work,
                                   std::vector<Argument> arguments, const std::string& layout) {
  const auto kernel = [tiles, work](const std::vector<char*>& pointers) {
    tiles.pack(pointers);
    for_blocks(work, [&](int64_t head, int64_t first) { tiles.run(pointers, head, first); });
  };
  builder.add_kernel(kernel, std::move(arguments), "attention of bf16 in tiles, " + layout, tiles.bytes());
}

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
  const Place place = builder.fresh(to);
  arguments.push_back({DNNL_ARG_DST, to, place});
  Attention work{Matrices(arguments[0].desc), Matrices(arguments[1].desc), Matrices(arguments[2].desc), Matrices(to),
                 parameters_of<AttentionRow>(node), mask_dims, repeating_strides(mask_dims), rows, columns, dims[rank - 1],
                 builder.dims(node.output)[rank - 1], std::min(rows, std::max(kLeastRows, fitting)),
                 volume(dims, 0, rank - 2), to.get_data_type() == kRounded};
  if (builder.rounds_attention() && rows > kFewRows && fits_tiles(work)) {
    work.block = kPairBlockRows;
    add_attention_in_tiles(builder, AttentionInTiles(work), work, std::move(arguments), layout_name(to));
  } else {
    add_attention_in_blocks(builder, work, std::move(arguments), layout_name(to));
  }
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
