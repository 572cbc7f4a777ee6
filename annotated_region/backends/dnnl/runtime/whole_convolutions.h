// Wrapping convolutions of int32. Those of bytes use oneDNN where the processor supports it.

namespace annotated_region_dnnl {
namespace {

// One spatial axis: output `o` reads the inputs `o * stride - before + tap * step` of each tap of the kernel.
struct Axis {
  int64_t in = 1, out = 1, taps = 1, stride = 1, step = 1, before = 0;

  int64_t source(int64_t output, int64_t tap) const { return output * stride - before + tap * step; }
  bool holds(int64_t source) const { return 0 <= source && source < in; }
  // The outputs that read an input, not the padding, with a tap: from the first one to behind the last.
  std::pair<int64_t, int64_t> outputs(int64_t tap) const {
    const int64_t lead = before - tap * step, room = in - 1 + lead;
    const int64_t end = room < 0 ? 0 : std::min(out, room / stride + 1);
    return {std::min(lead <= 0 ? 0 : (lead + stride - 1) / stride, end), end};
  }
};

// A convolution along depth, height and width; the axes that it lacks have one element.
struct WholeConvolutionShape {
  int64_t channels, outputs, groups;
  std::array<Axis, 3> axes;
};

inline WholeConvolutionShape whole_convolution_shape(const Dims& data, const Dims& kernel, const Dims& out,
                                                     const WholeConvolutionRow& given) {
  return {data[1], out[1], kernel.size() > data.size() ? kernel[0] : 1, spatial_axes<Axis>(data, kernel, out, given)};
}

// Unsigned, so that overflow wraps around.
ANNOTATED_REGION_CLONES void add_scaled(const uint32_t* from, int64_t stride, uint32_t factor, uint32_t* to,
                                        int64_t count) {
  if (stride == 1) {
#pragma omp simd
    for (int64_t item = 0; item < count; ++item) to[item] += factor * from[item];
  } else {
    for (int64_t item = 0; item < count; ++item) to[item] += factor * from[item * stride];
  }
}

// Computes a row of the result: its outputs along the width.
inline void convolve_row(const WholeConvolutionShape& shape, const uint32_t* data, const uint32_t* kernel, uint32_t* to,
                         int64_t row) {
  const auto& [depth, height, width] = shape.axes;
  const int64_t inner = shape.channels / shape.groups, h = row % height.out, d = row / height.out % depth.out;
  const int64_t output = row / (height.out * depth.out) % shape.outputs;
  const int64_t image = row / (height.out * depth.out * shape.outputs);
  const int64_t first = image * shape.channels + output / (shape.outputs / shape.groups) * inner;
  std::fill_n(to, width.out, uint32_t{0});
  for (int64_t channel = 0; channel < inner; ++channel) {
    for (int64_t tap = 0; tap < depth.taps * height.taps; ++tap) {
      const int64_t z = depth.source(d, tap / height.taps), y = height.source(h, tap % height.taps);
      if (!depth.holds(z) || !height.holds(y)) continue;
      const uint32_t* const line = data + (((first + channel) * depth.in + z) * height.in + y) * width.in;
      const uint32_t* const factors =
          kernel + ((output * inner + channel) * depth.taps * height.taps + tap) * width.taps;
      for (int64_t x = 0; x < width.taps; ++x) {
        const auto [begin, end] = width.outputs(x);
        if (begin < end) add_scaled(line + width.source(begin, x), width.stride, factors[x], to + begin, end - begin);
      }
    }
  }
}

}  // namespace

// inputs: data (images, channels, ...) and a kernel (outputs, channels, ...), or (groups, outputs / groups, ...).
inline void whole_convolution(Builder& builder, const NodeRow& node) {
  const Dims out = builder.dims(node.output);
  const WholeConvolutionShape shape =
      whole_convolution_shape(builder.dims(node.inputs[0]), builder.dims(node.inputs[1]), out,
                              parameters_of<WholeConvolutionRow>(node));
  const Kernel kernel = [shape, out](const std::vector<char*>& pointers) {
    const auto* const data = reinterpret_cast<const uint32_t*>(pointers[0]);
    const auto* const factors = reinterpret_cast<const uint32_t*>(pointers[1]);
    auto* const to = reinterpret_cast<uint32_t*>(pointers[2]);
    for_rows(out, [&](int64_t row) { convolve_row(shape, data, factors, to + row * out.back(), row); });
  };
  add_plain_kernel(builder, node, kernel, "whole convolution");
}

}  // namespace annotated_region_dnnl
