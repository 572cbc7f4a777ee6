// Transposed convolutions for which oneDNN has slow code only: a product with all taps, and the sums of its parts.

namespace annotated_region_dnnl {
namespace {

// One spatial axis: input `i` adds to output `i * stride - before + tap * step` with each tap of the kernel.
struct SpreadAxis {
  int64_t in = 1, out = 1, taps = 1, stride = 1, step = 1, before = 0;

  // The input that adds to an output with a tap, or -1.
  int64_t source(int64_t output, int64_t tap) const {
    const int64_t place = output + before - tap * step;
    return place < 0 || place % stride != 0 || place / stride >= in ? -1 : place / stride;
  }
};

// A tap that adds to output `place`, and how many inputs before input `(place + before) / stride` what it adds is.
struct TapShift {
  int64_t tap, shift;
};

// The sums along depth, height and width, with channels last; the axes that a convolution lacks have one element. The
// products are by group, pixel of the input, tap and channel: `outputs` channels a group.
struct Spreading {
  int64_t images, groups, outputs;
  std::array<SpreadAxis, 3> axes;
  std::vector<std::vector<TapShift>> shifts;  // along the width, by the remainder of `place + before` by the stride

  Spreading(int64_t images, int64_t groups, int64_t outputs, const std::array<SpreadAxis, 3>& axes)
      : images(images), groups(groups), outputs(outputs), axes(axes), shifts(axes[2].stride) {
    const SpreadAxis& width = axes[2];
    for (int64_t tap = 0; tap < width.taps; ++tap) {
      shifts[tap * width.step % width.stride].push_back({tap, tap * width.step / width.stride});
    }
  }

  int64_t pixels() const { return images * axes[0].in * axes[1].in * axes[2].in; }
  int64_t taps() const { return axes[0].taps * axes[1].taps * axes[2].taps; }
  int64_t lines() const { return images * axes[0].out * axes[1].out; }

  // Computes the outputs from `first` to `last` of a line of the result along the width.
  void run(const float* products, float* result, int64_t line, int64_t first, int64_t last) const {
    const auto& [depth, height, width] = axes;
    const int64_t y = line % height.out, z = line / height.out % depth.out, image = line / (height.out * depth.out);
    float* const to = result + line * width.out * groups * outputs;
    std::fill(to + first * groups * outputs, to + last * groups * outputs, 0.0f);
    for (int64_t group = 0; group < groups; ++group) {
      for (int64_t tap = 0; tap < depth.taps * height.taps; ++tap) {
        const int64_t from_z = depth.source(z, tap / height.taps), from_y = height.source(y, tap % height.taps);
        if (from_z < 0 || from_y < 0) continue;
        const int64_t pixel = ((image * depth.in + from_z) * height.in + from_y) * width.in;
        const float* const row = products + ((group * pixels() + pixel) * taps() + tap * width.taps) * outputs;
        for (int64_t place = first; place < last; ++place) add_taps(row, to + (place * groups + group) * outputs, place);
      }
    }
  }

 private:
  // Adds what a row of the input adds to an output with the taps along the width.
  void add_taps(const float* row, float* sums, int64_t place) const {
    const SpreadAxis& width = axes[2];
    const int64_t nearest = (place + width.before) / width.stride;
    for (const auto& [tap, shift] : shifts[(place + width.before) % width.stride]) {
      const int64_t pixel = nearest - shift;
      if (pixel < 0 || pixel >= width.in) continue;
      add_run(sums, row + (pixel * taps() + tap) * outputs, sums, outputs);
    }
  }
};

inline Spreading spreading(const Dims& data, const Dims& kernel, const Dims& out, const ConvolutionRow& given) {
  const bool has_groups = kernel.size() > data.size();
  return {data[0], has_groups ? kernel[0] : 1, kernel[has_groups ? 1 : 0],
          spatial_axes<SpreadAxis>(data, kernel, out, given)};
}

// The kernel (groups, out, in, taps ...) in the order groups, in, taps, out: the right side of a product.
inline Desc as_right_side(const Dims& kernel, size_t groups) {
  Dims strides(kernel.size());
  const size_t out = groups, in = groups + 1;
  strides[out] = 1;
  int64_t step = kernel[out];
  for (size_t axis = kernel.size() - 1; axis > in; --axis) {
    strides[axis] = step;
    step *= kernel[axis];
  }
  strides[in] = step;
  if (groups == 1) strides[0] = step * kernel[in];
  return Desc(kernel, kFloat, strides);
}

}  // namespace

// inputs: data (images, channels, ...), and a kernel (out, in, ...), or (groups, out, in, ...). The product is that of
// GEMM and col2im in Caffe.
inline void transposed_product(Builder& builder, const NodeRow& node) {
  const int src = node.inputs[0], weights = node.inputs[1];
  const Dims data = builder.dims(src), kernel = builder.dims(weights), out = builder.dims(node.output);
  const Spreading work = spreading(data, kernel, out, parameters_of<ConvolutionRow>(node));
  const int64_t channels = data[1] / work.groups, width = work.taps() * work.outputs;
  const Desc from = channels_last(data, kFloat), right = as_right_side(kernel, kernel.size() - data.size());
  const Desc rows(Dims{work.groups, work.pixels(), channels}, kFloat, Dims{channels, data[1], 1});
  const Desc factors = plain({work.groups, channels, width}, kFloat), made = plain({work.groups, work.pixels(), width}, kFloat);
  const dnnl::matmul::primitive_desc pd(cpu(), rows, factors, made, Builder::attributes());
  const Place products = builder.fresh(made);
  builder.add_step(pd, {{DNNL_ARG_SRC, rows, builder.fetch(src, from)},
                        {DNNL_ARG_WEIGHTS, factors, builder.fetch(weights, right)},
                        {DNNL_ARG_DST, made, products}}, "of all taps");
  constexpr int64_t kPlaces = 64;  // of a line that a thread computes at once, so that few long lines have many parts
  const int64_t parts = (out.back() + kPlaces - 1) / kPlaces;
  const Kernel kernel_of_sums = [work, parts](const std::vector<char*>& pointers) {
#pragma omp parallel for
    for (int64_t item = 0; item < work.lines() * parts; ++item) {
      const int64_t first = item % parts * kPlaces, last = std::min(first + kPlaces, work.axes[2].out);
      work.run(floats(pointers[0]), floats(pointers[1]), item / parts, first, last);
    }
  };
  const Desc to = channels_last(out, kFloat);
  const Place place = builder.fresh(to);
  builder.add_kernel(kernel_of_sums, {{DNNL_ARG_SRC, made, products}, {DNNL_ARG_DST, to, place}},
                     "sums of taps " + layout_name(to));
  builder.define(node.output, to, place);
}

}  // namespace annotated_region_dnnl
