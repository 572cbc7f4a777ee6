// Convolutions of long lines, such as those of speech, for whose descriptors oneDNN takes time in proportion to the
// length: up to a second, while the convolution takes milliseconds, and each new length needs a plan of its own.

namespace annotated_region_dnnl {

// Whether a node is a convolution, or a transposed one, of a long line of one group.
inline bool is_along_line(const Builder& builder, const NodeRow& node) {
  constexpr int64_t kLong = 512;
  const Dims& out = builder.dims(node.output);
  return out.size() == 3 && builder.dims(node.inputs[1]).size() == 3 && out[2] >= kLong && !builder.rounds();
}

// Whether a transposed convolution is to be a product with all taps, which takes as long to run.
inline bool spreads_along_line(const Builder& builder, const NodeRow& node) {
  return is_along_line(builder, node) && parameters_of<ConvolutionRow>(node).strides.begin()[0] > 1;
}

// Whether a convolution reads a copy of the line with the padding. With dilation and few channels this is faster, too:
// oneDNN treats each length of what lies inside of the line by code of its own.
inline bool is_padded_first(const Builder& builder, const NodeRow& node) {
  constexpr int64_t kFewChannels = 64;
  const auto& given = parameters_of<ConvolutionRow>(node);
  return is_along_line(builder, node) && given.dilation.begin()[0] > 0 && node.quantized == nullptr &&
         given.before.begin()[0] + given.after.begin()[0] > 0 && builder.dims(node.inputs[0])[1] <= kFewChannels &&
         has_instructions(dnnl::cpu_isa::avx512_core);
}

// A line with zeros around it, with channels last.
inline Value padded_line(Builder& builder, int tensor, int64_t before, int64_t after) {
  constexpr int64_t kPlaces = 512;  // that a thread copies at once
  const Dims dims = builder.dims(tensor);
  const int64_t channels = dims[1], length = dims[2], whole = before + length + after;
  const Desc from = channels_last(dims, kFloat), to = channels_last({dims[0], channels, whole}, kFloat);
  const int64_t parts = (whole + kPlaces - 1) / kPlaces;
  const Kernel kernel = [=, images = dims[0]](const std::vector<char*>& pointers) {
#pragma omp parallel for
    for (int64_t item = 0; item < images * parts; ++item) {
      const int64_t image = item / parts, first = item % parts * kPlaces, last = std::min(first + kPlaces, whole);
      const auto bounded = [&](int64_t place) { return std::clamp(place, first, last); };
      const int64_t begin = bounded(before), end = bounded(before + length);
      float* const line = floats(pointers[1]) + image * whole * channels;
      std::fill(line + first * channels, line + begin * channels, 0.0f);
      std::copy_n(floats(pointers[0]) + (image * length + begin - before) * channels, (end - begin) * channels,
                  line + begin * channels);
      std::fill(line + end * channels, line + last * channels, 0.0f);
    }
  };
  const Place place = builder.fresh(to);
  builder.add_kernel(kernel, {{DNNL_ARG_SRC, from, builder.fetch(tensor, from)}, {DNNL_ARG_DST, to, place}},
                     "padding " + layout_name(to));
  return {to, place};
}

}  // namespace annotated_region_dnnl
