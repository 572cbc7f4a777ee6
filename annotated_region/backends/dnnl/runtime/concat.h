// Concatenation without copies where the producers of the operands can write into the result directly.

namespace annotated_region_dnnl {

// The operands that have elements; those of a cache that is empty yet have none.
inline std::vector<int> parts_of(Builder& builder, const NodeRow& node) {
  std::vector<int> parts;
  for (int tensor : node.inputs) {
    if (!is_empty(builder.dims(tensor))) parts.push_back(tensor);
  }
  return parts;
}

// The layout of the largest operand, if it is a named layout that suits the others; otherwise the plain one.
inline NamedTag common_layout(Builder& builder, const std::vector<int>& parts, int axis) {
  int largest = parts[0];
  for (int tensor : parts) {
    if (builder.layout(tensor).get_size() > builder.layout(largest).get_size()) largest = tensor;
  }
  const NamedTag* tag = tag_of(builder.layout(largest));
  const int rank = static_cast<int>(builder.dims(largest).size());
  const NamedTag fallback = tags_of_rank(rank).front();
  if (tag == nullptr) return fallback;
  for (size_t index = 0; index + 1 < parts.size() && axis == 1; ++index) {
    if (builder.dims(parts[index])[1] % tag->block != 0) return fallback;
  }
  return *tag;
}

// Whether the operands are contiguous parts of the result: all axes outside of `axis` in memory order have extent
// one. Blocked channels are the second axis in memory order, after the batch.
inline bool is_sequence(const Desc& whole, int axis) {
  const Dims dims = whole.get_dims(), strides = whole.get_strides();
  if (!is_strided(whole)) return axis == 0 || (axis == 1 && dims[0] == 1);
  for (size_t other = 0; other < dims.size(); ++other) {
    if (dims[other] != 1 && strides[other] > strides[axis]) return false;
  }
  return true;
}

inline void concat_in_place(Builder& builder, const NodeRow& node, const std::vector<int>& parts, const NamedTag& tag) {
  const Desc whole = builder.tagged(node.output, tag.tag);
  const Place target = builder.fresh(whole);
  size_t offset = 0;
  for (int tensor : parts) {
    const Desc part(builder.dims(tensor), whole.get_data_type(), tag.tag);
    const Place place{target.buffer, offset};
    const bool is_there = builder.layout(tensor) == part && builder.adopt(builder.value(tensor), place);
    if (!is_there) builder.reorder(builder.numbers(tensor), part, place);
    offset += part.get_size();
  }
  builder.define(node.output, whole, target);
}

// Integers are copied operand by operand, because oneDNN's concat does not support 64-bit elements.
inline void concat_copies(Builder& builder, const NodeRow& node, const std::vector<int>& parts, int axis) {
  const Desc whole = builder.stated(node.output);
  const Dims strides = whole.get_strides();
  Place place = builder.fresh(whole);
  builder.define(node.output, whole, place);
  for (int tensor : parts) {
    builder.reorder(builder.value(tensor), strided(builder.dims(tensor), whole.get_data_type(), strides), place);
    place.offset += builder.dims(tensor)[axis] * strides[axis] * element_bytes(whole);
  }
}

inline void concat(Builder& builder, const NodeRow& node) {
  const int axis = static_cast<int>(parameters_of<ConcatRow>(node).axis);
  const std::vector<int> operands = parts_of(builder, node);
  if (is_whole(builder.stated(node.output).get_data_type())) return concat_copies(builder, node, operands, axis);
  const NamedTag tag = common_layout(builder, operands, axis);
  const Desc whole = builder.tagged(node.output, tag.tag);
  if (is_sequence(whole, axis) && !builder.is_folding()) return concat_in_place(builder, node, operands, tag);
  std::vector<Desc> parts;
  for (int tensor : operands) parts.emplace_back(builder.dims(tensor), whole.get_data_type(), tag.tag);
  const dnnl::concat::primitive_desc pd(cpu(), whole, axis, parts, Builder::attributes());
  std::vector<Argument> arguments;
  for (size_t index = 0; index < parts.size(); ++index) {
    const Place place = builder.fetch(operands[index], parts[index]);
    arguments.push_back({DNNL_ARG_MULTIPLE_SRC + static_cast<int>(index), parts[index], place});
  }
  const Place place = builder.fresh(whole);
  arguments.push_back({DNNL_ARG_DST, whole, place});
  builder.add_step(pd, std::move(arguments), layout_name(whole));
  builder.define(node.output, whole, place);
}

}  // namespace annotated_region_dnnl
