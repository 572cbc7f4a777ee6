// Quantization of numbers that have been multiplied and added to, channel by channel, in one pass.

namespace annotated_region_dnnl {

// Computes with elements of adjacent channels. Each op rounds by itself, as it does in a pass of its own.
struct Requantization {
  RequantizationRow row;
  ConvertRun read, write;  // `read` is null if the operand is of floats

  void operator()(const char* from, const float* factors, const float* terms, char* to, int64_t size) const {
    std::array<float, kRunLength> numbers;
    const float* current = floats(from);
    if (read != nullptr) {
      read(from, reinterpret_cast<char*>(numbers.data()), size, row.source_scale, static_cast<int32_t>(row.source_zero));
      current = numbers.data();
    }
    if (factors != nullptr) {
      multiply_run(current, factors, numbers.data(), size);
      current = numbers.data();
    }
    if (terms != nullptr) {
      add_run(current, terms, numbers.data(), size);
      current = numbers.data();
    }
    write(reinterpret_cast<const char*>(current), to, size, row.scale, static_cast<int32_t>(row.zero));
  }
};

// inputs: data with channels along axis 1; factors and terms of the channels, as far as there are any.
inline void requantize(Builder& builder, const NodeRow& node) {
  const DataType stored = builder.type(node.inputs[0]);
  const bool is_byte = stored == DataType::u8 || stored == DataType::s8;
  const DataType type = is_byte ? stored : kFloat;
  const Dims dims = builder.dims(node.output);
  const Desc from = channels_last(dims, type), to = retyped(from, builder.type(node.output));
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, from, builder.fetch(node.inputs[0], from)}};
  for (int index = 1; index < node.inputs.size; ++index) {
    const Desc desc = builder.plain(node.inputs[index]);
    arguments.push_back({DNNL_ARG_SRC_1 + index - 1, desc, builder.fetch(node.inputs[index], desc)});
  }
  const Place place = builder.fresh(to);
  arguments.push_back({DNNL_ARG_DST, to, place});
  const Requantization run{parameters_of<RequantizationRow>(node), is_byte ? dequantizing_run(type) : nullptr, quantizing_run(to.get_data_type())};
  const int64_t channels = dims[1], pixels = volume(dims, 0, dims.size()) / channels;
  const int64_t from_bytes = element_bytes(from);
  const auto kernel = [=](const std::vector<char*>& pointers) {
    const float* const factors = run.row.has_factors ? floats(pointers[1]) : nullptr;
    const float* const terms = run.row.has_terms ? floats(pointers[pointers.size() - 2]) : nullptr;
#pragma omp parallel for
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      for (int64_t first = 0; first < channels; first += kRunLength) {
        const int64_t place = pixel * channels + first, size = std::min(kRunLength, channels - first);
        run(pointers[0] + place * from_bytes, factors == nullptr ? nullptr : factors + first,
            terms == nullptr ? nullptr : terms + first, pointers.back() + place, size);
      }
    }
  };
  builder.add_kernel(kernel, std::move(arguments), "requantize " + layout_name(to));
  builder.define(node.output, to, place);
}

}  // namespace annotated_region_dnnl
