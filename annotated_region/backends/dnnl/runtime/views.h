// Views: reshape, permutation, slice. They are copied only if the layout cannot express the view.

namespace annotated_region_dnnl {

inline void reshape(Builder& builder, const NodeRow& node) {
  const int src = node.inputs[0];
  const Dims& dims = builder.dims(node.output);
  const Desc view = reshaped(builder.layout(src), dims);
  if (view) return builder.define_view(view);
  const Desc from = is_strided(builder.layout(src)) ? builder.layout(src) : builder.plain(src);
  const auto [before, after] = reordered_for(from, dims);
  builder.define(node.output, after, builder.fetch(src, before));
}

inline void permute(Builder& builder, const NodeRow& node) {
  const List<int64_t>& axes = parameters_of<PermutationRow>(node).axes;
  const Desc view = permuted(builder.layout(node.inputs[0]), axes);
  if (view) return builder.define_view(view);
  const Desc from = builder.plain(node.inputs[0]);
  builder.define(node.output, permuted(from, axes), builder.fetch(node.inputs[0], from));
}

// Copies a slice that has no oneDNN descriptor: a step that does not divide an extent makes rows overlap.
inline void copy_part(Builder& builder, const NodeRow& node, const Value& whole, const Dims& strides, size_t begin) {
  const Desc to = plain(builder.dims(node.output), whole.desc.get_data_type());
  const Dims dims = to.get_dims();
  const int64_t bytes = static_cast<int64_t>(element_bytes(to));
  const auto kernel = [=](const std::vector<char*>& pointers) {
    for_rows(dims, [&](int64_t row) {
      const char* from = pointers[0] + begin + row_offset(dims, strides, row) * bytes;
      char* const line = pointers[1] + row * dims.back() * bytes;
      for (int64_t item = 0; item < dims.back(); ++item) {
        std::memcpy(line + item * bytes, from + item * strides.back() * bytes, bytes);
      }
    });
  };
  const Place place = builder.fresh(to);
  builder.add_kernel(kernel, {{DNNL_ARG_SRC, whole.desc, whole.place}, {DNNL_ARG_DST, to, place}}, "slice " + layout_name(to));
  builder.define(node.output, to, place);
}

// Begins and extents may be computed from the extents of the inputs; nothing beyond the data is read.
inline void require_inside(const Builder& builder, const NodeRow& node) {
  const auto& [begins, steps] = parameters_of<BeginsRow>(node);
  const Dims &whole = builder.dims(node.inputs[0]), &part = builder.dims(node.output);
  for (int axis = 0; axis < begins.size; ++axis) {
    const int64_t first = builder.number(begins[axis]), last = first + (part[axis] - 1) * steps[axis];
    if (first >= 0 && last < whole[axis]) continue;
    TVM_FFI_THROW(ValueError) << builder.graph().symbol << ": the inputs are out of range: a slice would take elements "
                              << first << " to " << last << " of axis " << axis << " of a tensor of shape " << text_of(whole);
  }
}

inline void slice(Builder& builder, const NodeRow& node) {
  const int src = node.inputs[0];
  require_inside(builder, node);
  const auto& [begins, steps] = parameters_of<BeginsRow>(node);
  const Desc from = is_strided(builder.layout(src)) ? builder.layout(src) : builder.plain(src);
  const Place whole = builder.fetch(src, from);
  Place place = whole;
  Dims strides = from.get_strides();
  for (int axis = 0; axis < begins.size; ++axis) {
    place.offset += builder.number(begins[axis]) * strides[axis] * element_bytes(from);
    strides[axis] *= steps[axis];
  }
  const Dims& dims = builder.dims(node.output);
  const Desc part(dims, from.get_data_type(), canonical_strides(dims, strides), /*allow_empty=*/true);
  if (part) return builder.define(node.output, part, place);
  copy_part(builder, node, {from, whole}, strides, place.offset - whole.offset);
}

// Casts between float32 and a 16-bit type.
inline void cast_half(Builder& builder, const NodeRow& node, const Desc& from, const Desc& to) {
  const int64_t count = volume(builder.dims(node.output), 0, builder.dims(node.output).size());
  const Place source = builder.fetch(node.inputs[0], from), place = builder.fresh(to);
  builder.add_kernel(converting_kernel(from.get_data_type(), to.get_data_type(), count),
                     {{DNNL_ARG_FROM, from, source}, {DNNL_ARG_TO, to, place}},
                     "cast " + layout_name(from) + " -> " + layout_name(to));
  builder.define(node.output, to, place);
}

inline bool holds_bytes(const Builder& builder, int tensor) {
  const Type type = builder.graph().tensors[tensor].type;
  return type == Type::int8 || type == Type::uint8;
}

// A cast, as a reorder of a single row: for some shapes oneDNN mistakes a reorder to bytes for one of recurrent
// networks, and then fails to create it.
inline void cast(Builder& builder, const NodeRow& node) {
  const int src = node.inputs[0];
  const Desc from = builder.plain(src);
  const Desc to = builder.plain(node.output);
  const Desc numbers = plain(builder.dims(src), kFloat);
  if (is_half(to.get_data_type())) return cast_half(builder, node, numbers, to);
  if (is_half(builder.border(src).get_data_type())) return cast_half(builder, node, from, to);
  const bool has_whole = is_whole(from.get_data_type()) || is_whole(to.get_data_type());
  if (has_whole || holds_bytes(builder, src) || holds_bytes(builder, node.output)) return whole_cast(builder, node);
  int64_t count = 1;
  for (int64_t extent : builder.dims(src)) count *= extent;
  const Value row{Desc({count}, from.get_data_type(), Dims{1}), builder.fetch(src, from)};
  const Place place = builder.reorder(row, Desc({count}, to.get_data_type(), Dims{1}), builder.fresh(to));
  builder.define(node.output, to, place);
}

}  // namespace annotated_region_dnnl
