// Copies of images with their padding, for convolutions that oneDNN is slow or wrong with where it pads itself.

namespace annotated_region_dnnl {
namespace {

// What stands in the padding: a zero, which is the zero point where numbers are quantized. All bytes of a number are alike.
struct Filling {
  char constant;
  bool is_given;  // by the kernel's third operand instead

  char byte(const std::vector<char*>& pointers) const {
    return is_given ? static_cast<char>(*reinterpret_cast<const int32_t*>(pointers[2])) : constant;
  }
};

// The rows of an image with channels last, along the innermost axis, and those of its copy with padding.
struct PaddedRows {
  Dims from, to, before;  // of the axes of rows, images first
  int64_t places, whole, front;  // in a row, in one of the copy, and in front of those of the image
  int64_t place_bytes;

  int64_t count() const { return volume(to, 0, to.size()); }

  // The row of the image that a row of the copy has within its padding, or -1 if that has padding alone.
  int64_t source(int64_t row) const {
    int64_t found = 0, step = 1;
    for (size_t axis = to.size(); axis-- > 0; row /= to[axis]) {
      const int64_t index = row % to[axis] - before[axis];
      if (index < 0 || index >= from[axis]) return -1;
      found += index * step;
      step *= from[axis];
    }
    return found;
  }

  // Writes the places of a row of the copy from `first` to `last`.
  void write(const char* image, char* copy, int64_t row, int64_t first, int64_t last, char fill) const {
    const int64_t within = source(row);
    const int64_t begin = within < 0 ? last : std::clamp(front, first, last);
    const int64_t end = within < 0 ? last : std::clamp(front + places, first, last);
    char* const line = copy + row * whole * place_bytes;
    std::fill(line + first * place_bytes, line + begin * place_bytes, fill);
    if (begin < end) {
      std::copy_n(image + (within * places + begin - front) * place_bytes, (end - begin) * place_bytes,
                  line + begin * place_bytes);
    }
    std::fill(line + end * place_bytes, line + last * place_bytes, fill);
  }
};

}  // namespace

// An image with padding around it, with channels last. `quantized` says which number a zero is; null: 0.
inline Value padded_image(Builder& builder, int tensor, const Dims& before, const Dims& after,
                          const QuantizedRow* quantized) {
  constexpr int64_t kPlaces = 512;  // that a thread copies at once
  const Dims& dims = builder.dims(tensor);
  const DataType type = builder.type(tensor);
  Dims padded = dims;
  for (size_t axis = 0; axis < before.size(); ++axis) padded[2 + axis] += before[axis] + after[axis];
  PaddedRows rows{{dims[0]}, {dims[0]}, {0}, dims.back(), padded.back(), before.back(),
                  dims[1] * static_cast<int64_t>(dnnl::memory::data_type_size(type))};
  for (size_t axis = 0; axis + 1 < before.size(); ++axis) {
    rows.from.push_back(dims[2 + axis]);
    rows.to.push_back(padded[2 + axis]);
    rows.before.push_back(before[axis]);
  }
  const bool is_given = quantized != nullptr && quantized->source_zero >= 0;
  const Filling filling{static_cast<char>(quantized == nullptr ? 0 : quantized->zero), is_given};
  const Kernel kernel = [=, parts = (rows.whole + kPlaces - 1) / kPlaces](const std::vector<char*>& pointers) {
    const char fill = filling.byte(pointers);
#pragma omp parallel for
    for (int64_t item = 0; item < rows.count() * parts; ++item) {
      const int64_t first = item % parts * kPlaces;
      rows.write(pointers[0], pointers[1], item / parts, first, std::min(first + kPlaces, rows.whole), fill);
    }
  };
  const Desc from = channels_last(dims, type), to = channels_last(padded, type);
  const Place place = builder.fresh(to);
  std::vector<Argument> arguments{{DNNL_ARG_SRC, from, builder.fetch(tensor, from)}, {DNNL_ARG_DST, to, place}};
  if (is_given) {
    const Desc number = builder.plain(quantized->source_zero);
    arguments.push_back({DNNL_ARG_SRC_1, number, builder.fetch(quantized->source_zero, number)});
  }
  builder.add_kernel(kernel, std::move(arguments), "padding " + layout_name(to));
  return {to, place};
}

}  // namespace annotated_region_dnnl
