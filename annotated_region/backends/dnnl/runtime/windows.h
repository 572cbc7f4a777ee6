// Sums and maxima over windows of each channel alone, where oneDNN has slow code only: depthwise convolutions of volumes
// and with dilation, maxima with dilation or of few channels.

namespace annotated_region_dnnl {

// One spatial axis: tap `t` of output `o` reads input `o * stride - before + t * step`.
struct WindowAxis {
  int64_t in = 1, out = 1, taps = 1, stride = 1, step = 1, before = 0;

  // The taps of an output that read an input: from the first to before the last of the pair.
  std::pair<int64_t, int64_t> inside(int64_t output) const {
    const int64_t start = output * stride - before;
    const auto taps_below = [&](int64_t place) {  // that read inputs in front of it
      return std::clamp<int64_t>((place - start + step - 1) / step, 0, taps);
    };
    const int64_t first = start >= 0 ? 0 : taps_below(0), last = start >= in ? 0 : taps_below(in);
    return {first, std::max(first, last)};
  }

  int64_t source(int64_t output, int64_t tap) const { return output * stride - before + tap * step; }
};

// The taps of a window that lie inside of an image with channels last, and the steps between them in numbers.
struct Taps {
  const float *from, *weights;
  std::array<int64_t, 3> count, steps, weight_steps;
};

namespace {

inline __attribute__((always_inline)) void load(Wide& to, const float* from) { std::memcpy(&to, from, sizeof to); }

// Of neighbouring pixels, a vector of channels each: the sums stay in registers.
template <int pixels, bool multiplies>
inline __attribute__((always_inline)) void walk(const Taps& taps, int64_t channel, int64_t pixel_step, const float* start,
                                                float* to, int64_t to_step) {
  Wide found[pixels], data, weight = {};
#pragma GCC unroll 8
  for (int pixel = 0; pixel < pixels; ++pixel) {
    if (start != nullptr) load(found[pixel], start + channel);
    if (start == nullptr) found[pixel] = Wide{} + (multiplies ? 0.0f : -INFINITY);
  }
  for (int64_t z = 0; z < taps.count[0]; ++z) {
    for (int64_t y = 0; y < taps.count[1]; ++y) {
      const float* from = taps.from + z * taps.steps[0] + y * taps.steps[1] + channel;
      const float* weights = taps.weights + z * taps.weight_steps[0] + y * taps.weight_steps[1] + channel;
      for (int64_t x = 0; x < taps.count[2]; ++x, from += taps.steps[2], weights += taps.weight_steps[2]) {
        if (multiplies) load(weight, weights);
#pragma GCC unroll 8
        for (int pixel = 0; pixel < pixels; ++pixel) {
          load(data, from + pixel * pixel_step);
          found[pixel] = multiplies ? found[pixel] + data * weight : (data > found[pixel] ? data : found[pixel]);
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int pixel = 0; pixel < pixels; ++pixel) std::memcpy(to + pixel * to_step + channel, &found[pixel], sizeof(Wide));
}

// `count` neighbouring pixels of at least kWide channels with the same taps inside. The last vector of channels overlaps
// the one before it.
template <bool multiplies>
inline __attribute__((always_inline)) void walk_pixels(const Taps& taps, int64_t channels, int64_t pixel_step,
                                                       const float* start, float* to, int64_t count) {
  constexpr int kPixels = 6;
  for (int64_t next = 0; next < channels; next += kWide) {
    const int64_t channel = std::min(next, channels - kWide);
    Taps moved = taps;
    int64_t pixel = 0;
    for (; pixel + kPixels <= count; pixel += kPixels, moved.from += kPixels * pixel_step) {
      walk<kPixels, multiplies>(moved, channel, pixel_step, start, to + pixel * channels, channels);
    }
    for (; pixel < count; ++pixel, moved.from += pixel_step) {
      walk<1, multiplies>(moved, channel, pixel_step, start, to + pixel * channels, channels);
    }
  }
}

ANNOTATED_REGION_CLONES void sum_pixels(const Taps& taps, int64_t channels, int64_t pixel_step, const float* bias,
                                        float* to, int64_t count) {
  walk_pixels<true>(taps, channels, pixel_step, bias, to, count);
}

ANNOTATED_REGION_CLONES void largest_pixels(const Taps& taps, int64_t channels, int64_t pixel_step, float* to,
                                            int64_t count) {
  walk_pixels<false>(taps, channels, pixel_step, nullptr, to, count);
}

ANNOTATED_REGION_CLONES void enlarge(const float* from, int64_t stride, float* to, int64_t size) {
  if (stride == 1) {
#pragma omp simd
    for (int64_t item = 0; item < size; ++item) to[item] = from[item] > to[item] ? from[item] : to[item];
  } else {
#pragma omp simd
    for (int64_t item = 0; item < size; ++item) {
      to[item] = from[item * stride] > to[item] ? from[item * stride] : to[item];
    }
  }
}

}  // namespace

// Depth, height and width of images; the axes that these lack have one element. With weights, sums of products with
// channels last, otherwise maxima.
struct ChannelWindows {
  int64_t images, channels;
  std::array<WindowAxis, 3> axes;

  int64_t lines() const { return images * axes[0].out * axes[1].out; }

  // A line of the result along the width, with channels last. The weights are by tap and channel.
  void run_pixels(const float* from, const float* weights, const float* bias, float* to, int64_t line) const {
    const auto& [depth, height, width] = axes;
    const int64_t y = line % height.out, z = line / height.out % depth.out, image = line / (height.out * depth.out);
    const auto [first_z, last_z] = depth.inside(z);
    const auto [first_y, last_y] = height.inside(y);
    const int64_t row = ((image * depth.in + depth.source(z, first_z)) * height.in + height.source(y, first_y)) * width.in;
    const std::array<int64_t, 3> weight_steps{height.taps * width.taps * channels, width.taps * channels, channels};
    const std::array<int64_t, 3> steps{depth.step * height.in * width.in * channels,
                                       height.step * width.in * channels, width.step * channels};
    float* const result = to + line * width.out * channels;
    for (int64_t x = 0, end = 0; x < width.out; x = end) {
      const auto inside = width.inside(x);
      for (end = x + 1; end < width.out && width.inside(end) == inside;) ++end;
      const auto [first_x, last_x] = inside;
      const int64_t tap = first_z * weight_steps[0] + first_y * weight_steps[1] + first_x * weight_steps[2];
      const Taps taps{from + (row + width.source(x, first_x)) * channels, weights == nullptr ? from : weights + tap,
                      {last_z - first_z, last_y - first_y, last_x - first_x}, steps, weight_steps};
      if (weights == nullptr) {
        largest_pixels(taps, channels, width.stride * channels, result + x * channels, end - x);
      } else {
        sum_pixels(taps, channels, width.stride * channels, bias, result + x * channels, end - x);
      }
    }
  }

  // A line of the maxima of one channel, with channels first.
  void run_line(const float* from, float* to, int64_t plane, int64_t line) const {
    const auto& [depth, height, width] = axes;
    const int64_t y = line % height.out, z = line / height.out;
    float* const result = to + (plane * depth.out * height.out + line) * width.out;
    std::fill_n(result, width.out, -INFINITY);
    const auto [first_z, last_z] = depth.inside(z);
    const auto [first_y, last_y] = height.inside(y);
    for (int64_t tap_z = first_z; tap_z < last_z; ++tap_z) {
      for (int64_t tap_y = first_y; tap_y < last_y; ++tap_y) {
        const int64_t row = (plane * depth.in + depth.source(z, tap_z)) * height.in + height.source(y, tap_y);
        add_row(from + row * width.in, result);
      }
    }
  }

 private:
  void add_row(const float* row, float* result) const {
    const WindowAxis& width = axes[2];
    for (int64_t tap = 0; tap < width.taps; ++tap) {
      const int64_t shift = width.source(0, tap);  // the input of the first output
      const int64_t first = shift >= 0 ? 0 : (-shift + width.stride - 1) / width.stride;
      const int64_t room = width.in - 1 - shift, last = room < 0 ? 0 : std::min(width.out, room / width.stride + 1);
      if (first < last) enlarge(row + shift + first * width.stride, width.stride, result + first, last - first);
    }
  }
};

// Whether a convolution is of each channel alone, of enough channels for a vector, in float32.
inline bool is_depthwise(const Builder& builder, const NodeRow& node) {
  const Dims &data = builder.dims(node.inputs[0]), &kernel = builder.dims(node.inputs[1]);
  const bool is_float = builder.factor_type(node.inputs[0]) == kFloat && builder.type(node.output) == kFloat;
  return kernel.size() > data.size() && kernel[0] == data[1] && kernel[1] == 1 && kernel[2] == 1 && is_float &&
         data[1] >= kWide && node.quantized == nullptr;
}

// inputs: data (images, channels, ...), a kernel (channels, 1, 1, ...), and a bias.
inline void depthwise(Builder& builder, const NodeRow& node) {
  const int src = node.inputs[0], weights = node.inputs[1];
  const Dims data = builder.dims(src), kernel = builder.dims(weights), out = builder.dims(node.output);
  const ChannelWindows work{data[0], data[1],
                            spatial_axes<WindowAxis>(data, kernel, out, parameters_of<ConvolutionRow>(node))};
  Dims strides(kernel.size(), 1);
  for (size_t axis = kernel.size(); axis-- > 3;) strides[axis] = data[1] * volume(kernel, axis + 1, kernel.size());
  const Desc from = channels_last(data, kFloat), to = channels_last(out, kFloat), by_taps(kernel, kFloat, strides);
  std::vector<Argument> arguments{{DNNL_ARG_SRC, from, builder.fetch(src, from)},
                                  {DNNL_ARG_WEIGHTS, by_taps, builder.fetch(weights, by_taps)}};
  const bool has_bias = node.inputs.size > 2;
  const Desc bias = bias_layout(builder, node);
  if (has_bias) arguments.push_back({DNNL_ARG_BIAS, bias, builder.fetch(node.inputs[2], bias)});
  const Place place = builder.fresh(to);
  arguments.push_back({DNNL_ARG_DST, to, place});
  const auto sums = [work, has_bias](const std::vector<char*>& pointers) {
    const float* const shifts = has_bias ? floats(pointers[2]) : nullptr;
#pragma omp parallel for
    for (int64_t line = 0; line < work.lines(); ++line) {
      work.run_pixels(floats(pointers[0]), floats(pointers[1]), shifts, floats(pointers.back()), line);
    }
  };
  builder.add_kernel(sums, std::move(arguments), "depthwise convolution " + layout_name(to));
  builder.define(node.output, to, place);
}

// The maxima of windows; `given` has the numbers of a pooling, `window` its taps.
inline void largest_of_windows(Builder& builder, const NodeRow& node, const Dims& window) {
  const int src = node.inputs[0];
  const Dims data = builder.dims(src), out = builder.dims(node.output);
  const ChannelWindows work{data[0], data[1],
                            spatial_axes<WindowAxis>(data, window, out, parameters_of<PoolingRow>(node))};
  const NamedTag* const tag = tag_of(builder.layout(src));
  const bool by_pixels = tag != nullptr && tag->channels_last && data[1] >= kWide;
  const Desc from = by_pixels ? channels_last(data, kFloat) : plain(data, kFloat);
  const Desc to = by_pixels ? channels_last(out, kFloat) : plain(out, kFloat);
  const auto maxima = [work, by_pixels](const std::vector<char*>& pointers) {
    const float* const image = floats(pointers[0]);
    float* const result = floats(pointers[1]);
    const int64_t parts = by_pixels ? 1 : work.channels;
#pragma omp parallel for
    for (int64_t item = 0; item < work.lines() * parts; ++item) {
      const int64_t lines = work.lines() / work.images;
      by_pixels ? work.run_pixels(image, nullptr, nullptr, result, item)
                : work.run_line(image, result, item / lines, item % lines);
    }
  };
  const Place place = builder.fresh(to);
  builder.add_kernel(maxima, {{DNNL_ARG_SRC, from, builder.fetch(src, from)}, {DNNL_ARG_DST, to, place}},
                     "largest of windows " + layout_name(to));
  builder.define(node.output, to, place);
}

}  // namespace annotated_region_dnnl
