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

// Whether a convolution had better read a copy of the line with the padding. With dilation and few channels this is faster,
// too: oneDNN treats each length of what lies inside of the line by code of its own.
inline bool is_line_padded_first(const Builder& builder, const NodeRow& node) {
  constexpr int64_t kFewChannels = 64;
  const auto& given = parameters_of<ConvolutionRow>(node);
  return is_along_line(builder, node) && given.dilation.begin()[0] > 0 && node.quantized == nullptr &&
         given.before.begin()[0] + given.after.begin()[0] > 0 && builder.dims(node.inputs[0])[1] <= kFewChannels &&
         has_instructions(dnnl::cpu_isa::avx512_core);
}

}  // namespace annotated_region_dnnl
