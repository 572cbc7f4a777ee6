// Between numbers and int8, as TVM and ONNX define it: round(x / scale) + zero, a tie to the even neighbour, clamped.

namespace annotated_region_dnnl {
namespace {

template <typename T>
inline __attribute__((always_inline)) void quantize_numbers(const float* from, T* to, int64_t size, float scale,
                                                            int32_t zero) {
  const float low = static_cast<float>(std::numeric_limits<T>::min() - zero);
  const float high = static_cast<float>(std::numeric_limits<T>::max() - zero);
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) {
    const float x = from[i] / scale;
    const float least = x < high ? x : high;  // also of what is no number
    const float bounded = least < low ? low : least;
    const float whole = (bounded + 12582912.0f) - 12582912.0f;  // 1.5 * 2^23: rounds to whole numbers
    to[i] = static_cast<T>(static_cast<int32_t>(whole) + zero);
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

}  // namespace

// Converts a run of elements that have one scale and zero point.
using ConvertRun = void (*)(const char*, char*, int64_t, float, int32_t);

template <typename T>
void quantize_bytes(const char* from, char* to, int64_t size, float scale, int32_t zero) {
  quantize_run(floats(from), reinterpret_cast<T*>(to), size, scale, zero);
}

template <typename T>
void dequantize_bytes(const char* from, char* to, int64_t size, float scale, int32_t zero) {
  dequantize_run(reinterpret_cast<const T*>(from), floats(to), size, scale, zero);
}

inline ConvertRun converter(Kind kind, DataType type) {
  if (kind == Kind::quantize) return type == DataType::u8 ? quantize_bytes<uint8_t> : quantize_bytes<int8_t>;
  if (type == DataType::s32) return dequantize_bytes<int32_t>;
  return type == DataType::u8 ? dequantize_bytes<uint8_t> : dequantize_bytes<int8_t>;
}

// The same scale and zero point for all elements, so that their order does not matter.
inline void convert_all(Builder& builder, const NodeRow& node, ConvertRun convert) {
  const int src = node.inputs[0];
  const Desc from = flat_layout(builder, src, node.kind == Kind::quantize ? kFloat : builder.type(src));
  const Desc to = retyped(from, builder.type(node.output));
  const int64_t count = volume(builder.dims(src), 0, builder.dims(src).size());
  const float scale = parameters_of<ScaleRow>(node).scale;
  const auto zero = static_cast<int32_t>(parameters_of<ScaleRow>(node).zero);
  const size_t step = element_bytes(from), to_step = element_bytes(to);
  const auto kernel = [=](const std::vector<char*>& pointers) {
#pragma omp parallel for
    for (int64_t first = 0; first < count; first += kRunLength) {
      const int64_t size = std::min(kRunLength, count - first);
      convert(pointers[0] + first * step, pointers[1] + first * to_step, size, scale, zero);
    }
  };
  const std::string label = node.kind == Kind::quantize ? "quantize " : "dequantize ";
  builder.add_unary_kernel(kernel, from, to, label + layout_name(to));
}

// inputs: data, scales, and zero points or none.
inline void convert_channels(Builder& builder, const NodeRow& node, ConvertRun convert) {
  const int src = node.inputs[0];
  const Dims dims = builder.dims(src);
  const auto& given = parameters_of<ChannelScalesRow>(node);
  const size_t first = given.first, last = given.first + given.count;
  const int64_t channels = volume(dims, first, last), size = volume(dims, last, dims.size());
  const int64_t rows = volume(dims, 0, last);
  const Desc to = builder.plain(node.output);
  const Desc from = node.kind == Kind::quantize ? plain(dims, kFloat) : builder.plain(src);
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, from, builder.fetch(src, from)}};
  const DataType types[] = {kFloat, DataType::s32};
  std::vector<int64_t> steps;
  for (int index = 1; index < node.inputs.size; ++index) {
    const Dims& extents = builder.dims(node.inputs[index]);
    const Desc desc = plain(extents, types[index - 1]);
    steps.push_back(volume(extents, 0, extents.size()) == 1 ? 0 : 1);
    arguments.push_back({DNNL_ARG_SRC_1, desc, builder.fetch(node.inputs[index], desc)});
  }
  const Place place = builder.fresh(to);
  arguments.push_back({DNNL_ARG_DST, to, place});
  const size_t step = element_bytes(from) * size, to_step = element_bytes(to) * size;
  const auto kernel = [=](const std::vector<char*>& pointers) {
    const float* scales = floats(pointers[1]);
    const int32_t* zeros = steps.size() > 1 ? reinterpret_cast<const int32_t*>(pointers[2]) : nullptr;
#pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t channel = row % channels;
      const int32_t zero = zeros == nullptr ? 0 : zeros[channel * steps[1]];
      convert(pointers[0] + row * step, pointers.back() + row * to_step, size, scales[channel * steps[0]], zero);
    }
  };
  builder.add_kernel(kernel, std::move(arguments), node.kind == Kind::quantize ? "quantize" : "dequantize");
  builder.define(node.output, to, place);
}

inline void quantize(Builder& builder, const NodeRow& node) {
  const ConvertRun convert = converter(node.kind, builder.type(node.output));
  node.inputs.size == 1 ? convert_all(builder, node, convert) : convert_channels(builder, node, convert);
}

inline void dequantize(Builder& builder, const NodeRow& node) {
  const ConvertRun convert = converter(node.kind, builder.type(node.inputs[0]));
  node.inputs.size == 1 ? convert_all(builder, node, convert) : convert_channels(builder, node, convert);
}

}  // namespace annotated_region_dnnl
