// Quantize and dequantize as TVM and ONNX define them: round(x / scale) + zero, ties to even, clamped.

namespace annotated_region_dnnl {
namespace {

inline __attribute__((always_inline)) float rounded_within(float x, float low, float high) {
  const float least = x < high ? x : high;  // also of what is no number
  const float bounded = least < low ? low : least;
  return (bounded + 12582912.0f) - 12582912.0f;  // 1.5 * 2^23: rounds to whole numbers
}

template <typename T>
inline __attribute__((always_inline)) void quantize_numbers(const float* from, T* to, int64_t size, float scale,
                                                            int32_t zero) {
  const float low = static_cast<float>(std::numeric_limits<T>::min() - zero);
  const float high = static_cast<float>(std::numeric_limits<T>::max() - zero);
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) {
    to[i] = static_cast<T>(static_cast<int32_t>(rounded_within(from[i] / scale, low, high)) + zero);
  }
}

template <typename T>
inline __attribute__((always_inline)) void dequantize_numbers(const T* from, float* to, int64_t size, float scale,
                                                              int32_t zero) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) to[i] = static_cast<float>(static_cast<int32_t>(from[i]) - zero) * scale;
}

ANNOTATED_REGION_CLONES void quantize_run(const float* from, uint8_t* to, int64_t size, float scale, int32_t zero) {
  quantize_numbers(from, to, size, scale, zero);
}

ANNOTATED_REGION_CLONES void quantize_run(const float* from, int8_t* to, int64_t size, float scale, int32_t zero) {
  quantize_numbers(from, to, size, scale, zero);
}

ANNOTATED_REGION_CLONES void dequantize_run(const uint8_t* from, float* to, int64_t size, float scale, int32_t zero) {
  dequantize_numbers(from, to, size, scale, zero);
}

ANNOTATED_REGION_CLONES void dequantize_run(const int8_t* from, float* to, int64_t size, float scale, int32_t zero) {
  dequantize_numbers(from, to, size, scale, zero);
}

ANNOTATED_REGION_CLONES void dequantize_run(const int32_t* from, float* to, int64_t size, float scale, int32_t zero) {
  dequantize_numbers(from, to, size, scale, zero);
}

// The scales and zero points of the channels of a pixel, which are adjacent elements.
struct PixelScales {
  int64_t channels;
  const float* scales;
  const int32_t* zeros;
};

template <typename T>
inline __attribute__((always_inline)) void quantize_channels(const float* from, T* to, int64_t pixels, PixelScales by) {
  for (int64_t pixel = 0; pixel < pixels; ++pixel, from += by.channels, to += by.channels) {
#pragma omp simd
    for (int64_t i = 0; i < by.channels; ++i) {
      const int32_t zero = by.zeros[i];
      const float low = static_cast<float>(std::numeric_limits<T>::min() - zero);
      const float high = static_cast<float>(std::numeric_limits<T>::max() - zero);
      to[i] = static_cast<T>(static_cast<int32_t>(rounded_within(from[i] / by.scales[i], low, high)) + zero);
    }
  }
}

template <typename T>
inline __attribute__((always_inline)) void dequantize_channels(const T* from, float* to, int64_t pixels,
                                                               PixelScales by) {
  for (int64_t pixel = 0; pixel < pixels; ++pixel, from += by.channels, to += by.channels) {
#pragma omp simd
    for (int64_t i = 0; i < by.channels; ++i) {
      to[i] = static_cast<float>(static_cast<int32_t>(from[i]) - by.zeros[i]) * by.scales[i];
    }
  }
}

ANNOTATED_REGION_CLONES void quantize_pixels(const float* from, uint8_t* to, int64_t pixels, PixelScales by) {
  quantize_channels(from, to, pixels, by);
}

ANNOTATED_REGION_CLONES void quantize_pixels(const float* from, int8_t* to, int64_t pixels, PixelScales by) {
  quantize_channels(from, to, pixels, by);
}

ANNOTATED_REGION_CLONES void dequantize_pixels(const uint8_t* from, float* to, int64_t pixels, PixelScales by) {
  dequantize_channels(from, to, pixels, by);
}

ANNOTATED_REGION_CLONES void dequantize_pixels(const int8_t* from, float* to, int64_t pixels, PixelScales by) {
  dequantize_channels(from, to, pixels, by);
}

ANNOTATED_REGION_CLONES void dequantize_pixels(const int32_t* from, float* to, int64_t pixels, PixelScales by) {
  dequantize_channels(from, to, pixels, by);
}

}  // namespace

// Converts a run of elements with a common scale and zero point.
using ConvertRun = void (*)(const char*, char*, int64_t, float, int32_t);

// Converts pixels whose channels have a scale and a zero point each.
using ConvertPixels = void (*)(const char*, char*, int64_t, PixelScales);

template <typename T>
void quantize_bytes(const char* from, char* to, int64_t size, float scale, int32_t zero) {
  quantize_run(floats(from), reinterpret_cast<T*>(to), size, scale, zero);
}

template <typename T>
void dequantize_bytes(const char* from, char* to, int64_t size, float scale, int32_t zero) {
  dequantize_run(reinterpret_cast<const T*>(from), floats(to), size, scale, zero);
}

template <typename T>
void quantize_pixel_bytes(const char* from, char* to, int64_t pixels, PixelScales by) {
  quantize_pixels(floats(from), reinterpret_cast<T*>(to), pixels, by);
}

template <typename T>
void dequantize_pixel_bytes(const char* from, char* to, int64_t pixels, PixelScales by) {
  dequantize_pixels(reinterpret_cast<const T*>(from), floats(to), pixels, by);
}

inline ConvertPixels quantizing_pixels(DataType type) {
  return type == DataType::s8 ? quantize_pixel_bytes<int8_t> : quantize_pixel_bytes<uint8_t>;
}

inline ConvertPixels dequantizing_pixels(DataType type) {
  if (type == DataType::s32) return dequantize_pixel_bytes<int32_t>;
  return type == DataType::u8 ? dequantize_pixel_bytes<uint8_t> : dequantize_pixel_bytes<int8_t>;
}

inline ConvertRun quantizing_run(DataType type) {
  return type == DataType::s8 ? quantize_bytes<int8_t> : quantize_bytes<uint8_t>;
}

inline ConvertRun dequantizing_run(DataType type) {
  if (type == DataType::s32) return dequantize_bytes<int32_t>;
  return type == DataType::u8 ? dequantize_bytes<uint8_t> : dequantize_bytes<int8_t>;
}

// Converts pixel by pixel where channels are last and have a scale each; false elsewhere.
inline bool convert_pixels(Builder& builder, const NodeRow& node, DataType type, ConvertPixels convert_run,
                           const char* label) {
  const int src = node.inputs[0];
  if (node.inputs.size < 2) return false;
  const Dims dims = builder.dims(src);
  const auto& [first, count] = parameters_of<ChannelScalesRow>(node);
  if (first != 1 || count != 1 || dims.size() < 3) return false;
  const int64_t channels = dims[1], pixels = volume(dims, 0, dims.size()) / channels;
  const bool has_vectors = std::all_of(node.inputs.begin() + 1, node.inputs.end(), [&](int vector) {
    const Dims& extents = builder.dims(vector);
    return volume(extents, 0, extents.size()) == channels;
  });
  const Desc from = channels_last(dims, type);
  if (!has_vectors || builder.layout(src) != from) return false;
  const Desc to = retyped(from, builder.type(node.output));
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, from, builder.fetch(src, from)}};
  const DataType types[] = {kFloat, DataType::s32};
  for (int index = 1; index < node.inputs.size; ++index) {
    const Desc desc = plain(builder.dims(node.inputs[index]), types[index - 1]);
    arguments.push_back({DNNL_ARG_SRC_1, desc, builder.fetch(node.inputs[index], desc)});
  }
  if (node.inputs.size == 2) {
    const Place zeros = builder.constant(std::vector<int32_t>(channels, 0));
    arguments.push_back({DNNL_ARG_SRC_1, plain({channels}, DataType::s32), zeros});
  }
  const Place place = builder.fresh(to);
  arguments.push_back({DNNL_ARG_DST, to, place});
  const auto from_bytes = static_cast<int64_t>(element_bytes(from)), to_bytes = static_cast<int64_t>(element_bytes(to));
  const int64_t step = std::max<int64_t>(1, kRunLength / channels);
  const auto kernel = [=](const std::vector<char*>& pointers) {
    const PixelScales by{channels, floats(pointers[1]), reinterpret_cast<const int32_t*>(pointers[2])};
#pragma omp parallel for
    for (int64_t pixel = 0; pixel < pixels; pixel += step) {
      convert_run(pointers[0] + pixel * channels * from_bytes, pointers[3] + pixel * channels * to_bytes,
                  std::min(step, pixels - pixel), by);
    }
  };
  builder.add_kernel(kernel, std::move(arguments), label + layout_name(to));
  builder.define(node.output, to, place);
  return true;
}

// inputs: data; scales and optional zero points, if they vary by channel or are computed in the region. Elements with a
// common scale are processed in contiguous runs; with a single scale the whole tensor is one run, in any layout.
inline void convert(Builder& builder, const NodeRow& node, DataType type, ConvertRun convert_run, const char* label) {
  const int src = node.inputs[0];
  const Dims dims = builder.dims(src);
  const bool is_computed = node.inputs.size > 1;
  const bool has_channels = is_computed && parameters_of<ChannelScalesRow>(node).count > 0;
  const Desc from = has_channels ? plain(dims, type) : flat_layout(builder, src, type);
  const Desc to = retyped(from, builder.type(node.output));
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, from, builder.fetch(src, from)}};
  ScaleRow all = {};
  int64_t channels = 1, size = kRunLength;
  if (has_channels) {
    const auto& [first, count] = parameters_of<ChannelScalesRow>(node);
    channels = volume(dims, first, first + count);
    size = volume(dims, first + count, dims.size());
  } else if (!is_computed) {
    all = parameters_of<ScaleRow>(node);
  }
  const DataType types[] = {kFloat, DataType::s32};
  std::array<int64_t, 2> steps{};  // of scales and zero points from channel to channel
  for (int index = 1; index < node.inputs.size; ++index) {
    const Dims& extents = builder.dims(node.inputs[index]);
    const Desc desc = plain(extents, types[index - 1]);
    steps[index - 1] = volume(extents, 0, extents.size()) == 1 ? 0 : 1;
    arguments.push_back({DNNL_ARG_SRC_1, desc, builder.fetch(node.inputs[index], desc)});
  }
  const Place place = builder.fresh(to);
  arguments.push_back({DNNL_ARG_DST, to, place});
  const int64_t elements = volume(dims, 0, dims.size());
  const size_t from_bytes = element_bytes(from), to_bytes = element_bytes(to);
  const bool has_zeros = node.inputs.size > 2;
  const auto kernel = [=](const std::vector<char*>& pointers) {
    const float* scales = is_computed ? floats(pointers[1]) : &all.scale;
    const int32_t* zeros = has_zeros ? reinterpret_cast<const int32_t*>(pointers[2]) : nullptr;
#pragma omp parallel for
    for (int64_t first = 0; first < elements; first += size) {
      const int64_t channel = first / size % channels;
      const int32_t zero = has_zeros ? zeros[channel * steps[1]] : static_cast<int32_t>(all.zero);
      convert_run(pointers[0] + first * from_bytes, pointers.back() + first * to_bytes,
                  std::min(size, elements - first), scales[channel * steps[0]], zero);
    }
  };
  builder.add_kernel(kernel, std::move(arguments), label + layout_name(to));
  builder.define(node.output, to, place);
}

inline void quantize(Builder& builder, const NodeRow& node) {
  if (convert_pixels(builder, node, kFloat, quantizing_pixels(builder.type(node.output)), "quantize ")) return;
  convert(builder, node, kFloat, quantizing_run(builder.type(node.output)), "quantize ");
}

inline void dequantize(Builder& builder, const NodeRow& node) {
  const DataType type = builder.type(node.inputs[0]);
  if (convert_pixels(builder, node, type, dequantizing_pixels(type), "dequantize ")) return;
  convert(builder, node, type, dequantizing_run(type), "dequantize ");
}

}  // namespace annotated_region_dnnl
