// Convolutions of bytes and bfloat16 that oneDNN 3.2 has wrong, found by lot, and the ways around them.

namespace annotated_region_dnnl {
namespace {

// Whether windows are wrong in tiles of AMX: of several columns with strides between them and no padding in front, of
// channels that are no multiple of those in a row of a tile. Patches are such windows.
inline bool are_patches_with_rest(const Dims& kernel, const Dims& strides, const Dims& before, DataType type) {
  constexpr int64_t kRowBytes = 64;
  const int64_t row = kRowBytes / static_cast<int64_t>(dnnl::memory::data_type_size(type));
  const bool has_rest = kernel[kernel.size() - strides.size() - 1] % row != 0;
  return kernel.back() > 1 && strides.back() > 1 && before.back() == 0 && has_rest;
}

// Goes on to oneDNN's next implementation until one does not compute in tiles.
template <typename PrimitiveDesc>
void leave_tiles(PrimitiveDesc& pd) {
  while (pd && std::strstr(pd.impl_info_str(), "amx") != nullptr && pd.next_impl()) {
  }
}

// Whether the image of a convolution has a zero point and padding. What the zero point adds at places with padding is
// wrong where oneDNN does not foresee which taps stand there (wide padding, windows nearly as large as the image, volumes),
// or is written beyond its memory. Large images of few channels are foreseen.
inline bool is_zero_point_padded(const Builder& builder, const NodeRow& node) {
  constexpr int64_t kFewChannels = 4, kNarrow = 4, kLarge = 32;
  const QuantizedRow* const quantized = node.quantized;
  if (quantized == nullptr || (quantized->zero == 0 && quantized->source_zero < 0)) return false;
  const auto& given = parameters_of<ConvolutionRow>(node);
  const Dims& data = builder.dims(node.inputs[0]);
  int64_t widest = 0, smallest = kLarge;
  for (size_t axis = 2; axis < data.size(); ++axis) {
    widest = std::max({widest, given.before.begin()[axis - 2], given.after.begin()[axis - 2]});
    smallest = std::min(smallest, data[axis]);
  }
  const bool is_foreseen = data.size() == 4 && data[1] <= kFewChannels && widest < kNarrow && smallest >= kLarge;
  return widest > 0 && !is_foreseen;
}

}  // namespace
}  // namespace annotated_region_dnnl
