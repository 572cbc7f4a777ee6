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

constexpr int64_t kPlaces = 64;  // of a line that a thread computes at once, so that few long lines have many parts

// The sums along depth, height and width; the axes that a convolution lacks have one element. With channels last, the
// products are by group, pixel of the input, tap and channel: `outputs` channels a group. By channels, for few of them,
// the products are by image, group, channel, tap and pixel.
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

  int64_t image() const { return axes[0].in * axes[1].in * axes[2].in; }
  int64_t pixels() const { return images * image(); }
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

  // The same of a line of one channel of an image: up to kPlaces outputs.
  void run_channel(const float* products, float* result, int64_t channel, int64_t line, int64_t first, int64_t last) const {
    const auto& [depth, height, width] = axes;
    const int64_t y = line % height.out, z = line / height.out;
    const float* const rows = products + channel * taps() * image();
    float* const to = result + (channel * depth.out * height.out + line) * width.out;
    for (int64_t part = 0; part < width.stride; ++part) {
      // Output `place` is `nearest * stride + part - before`.
      const int64_t begin = (first + width.before - part + width.stride - 1) / width.stride;
      const int64_t end = (last + width.before - part + width.stride - 1) / width.stride;
      float sums[kPlaces] = {};
      for (int64_t tap = 0; tap < depth.taps * height.taps; ++tap) {
        const int64_t from_z = depth.source(z, tap / height.taps), from_y = height.source(y, tap % height.taps);
        if (from_z < 0 || from_y < 0) continue;
        const float* const row = rows + tap * width.taps * image() + (from_z * height.in + from_y) * width.in;
        for (const auto& [along, shift] : shifts[part]) {
          const int64_t from = std::max(begin, shift), size = std::min(end, width.in + shift) - from;
          if (size <= 0) continue;
          float* const some = sums + (from - begin);
          add_run(some, row + along * image() + from - shift, some, size);
        }
      }
      for (int64_t nearest = begin; nearest < end; ++nearest) {
        to[nearest * width.stride + part - width.before] = sums[nearest - begin];
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

// The kernel (groups, out, in, taps ...) with one of the axes `out` and `in` innermost, the taps before it, and the other
// axis before them: a factor of a product.
inline Desc as_factor(const Dims& kernel, size_t innermost, size_t other, size_t groups) {
  Dims strides(kernel.size());
  strides[innermost] = 1;
  int64_t step = kernel[innermost];
  for (size_t axis = kernel.size() - 1; axis > groups + 1; --axis) {
    strides[axis] = step;
    step *= kernel[axis];
  }
  strides[other] = step;
  if (groups == 1) strides[0] = step * kernel[other];
  return Desc(kernel, kFloat, strides);
}

// Adds the sums of products to a result; `run` computes up to kPlaces places of a line.
template <typename Run>
void add_sums(Builder& builder, const NodeRow& node, const Desc& made, const Place& products, const Desc& to,
              int64_t lines, const Run& run) {
  const int64_t width = to.get_dims().back(), parts = (width + kPlaces - 1) / kPlaces;
  const Kernel sums = [=](const std::vector<char*>& pointers) {
#pragma omp parallel for
    for (int64_t item = 0; item < lines * parts; ++item) {
      const int64_t first = item % parts * kPlaces;
      run(floats(pointers[0]), floats(pointers[1]), item / parts, first, std::min(first + kPlaces, width));
    }
  };
  const Place place = builder.fresh(to);
  builder.add_kernel(sums, {{DNNL_ARG_SRC, made, products}, {DNNL_ARG_DST, to, place}}, "sums of taps " + layout_name(to));
  builder.define(node.output, to, place);
}

// With channels last: each pixel's products with all taps, added by runs of channels.
inline void product_by_pixels(Builder& builder, const NodeRow& node, const Spreading& work) {
  const int src = node.inputs[0], weights = node.inputs[1];
  const Dims data = builder.dims(src), kernel = builder.dims(weights);
  const size_t groups = kernel.size() - data.size();
  const int64_t channels = data[1] / work.groups, width = work.taps() * work.outputs;
  const Desc from = channels_last(data, kFloat), right = as_factor(kernel, groups, groups + 1, groups);
  const Desc rows(Dims{work.groups, work.pixels(), channels}, kFloat, Dims{channels, data[1], 1});
  const Desc factors = plain({work.groups, channels, width}, kFloat), made = plain({work.groups, work.pixels(), width}, kFloat);
  const dnnl::matmul::primitive_desc pd(cpu(), rows, factors, made, Builder::attributes());
  const Place products = builder.fresh(made);
  builder.add_step(pd, {{DNNL_ARG_SRC, rows, builder.fetch(src, from)},
                        {DNNL_ARG_WEIGHTS, factors, builder.fetch(weights, right)},
                        {DNNL_ARG_DST, made, products}}, "of all taps");
  add_sums(builder, node, made, products, channels_last(builder.dims(node.output), kFloat), work.lines(),
           [work](const float* all, float* result, int64_t line, int64_t first, int64_t last) {
             work.run(all, result, line, first, last);
           });
}

// By channels: each tap's products with all pixels, added by runs of pixels. Reads data with channels last as they are.
inline void product_by_channels(Builder& builder, const NodeRow& node, const Spreading& work) {
  const int src = node.inputs[0], weights = node.inputs[1];
  const Dims data = builder.dims(src), kernel = builder.dims(weights);
  const size_t groups = kernel.size() - data.size();
  const int64_t channels = data[1] / work.groups, width = work.taps() * work.outputs, image = work.image();
  const NamedTag* const tag = tag_of(builder.layout(src));
  const bool is_last = tag != nullptr && tag->channels_last;
  const Desc from = is_last ? channels_last(data, kFloat) : plain(data, kFloat);
  const Dims steps = is_last ? Dims{image * data[1], channels, 1, data[1]}
                             : Dims{image * data[1], image * channels, image, 1};
  const Desc columns(Dims{work.images, work.groups, channels, image}, kFloat, steps);
  const Desc factors = plain({1, work.groups, width, channels}, kFloat);
  const Desc made = plain({work.images, work.groups, width, image}, kFloat);
  const dnnl::matmul::primitive_desc pd(cpu(), factors, columns, made, Builder::attributes());
  const Place products = builder.fresh(made);
  const Desc left = as_factor(kernel, groups + 1, groups, groups);
  builder.add_step(pd, {{DNNL_ARG_SRC, factors, builder.fetch(weights, left)},
                        {DNNL_ARG_WEIGHTS, columns, builder.fetch(src, from)},
                        {DNNL_ARG_DST, made, products}}, "of all taps");
  const int64_t lines = work.axes[0].out * work.axes[1].out;  // of a channel
  add_sums(builder, node, made, products, plain(builder.dims(node.output), kFloat),
           work.images * work.groups * work.outputs * lines,
           [work, lines](const float* all, float* result, int64_t line, int64_t first, int64_t last) {
             work.run_channel(all, result, line / lines, line % lines, first, last);
           });
}

}  // namespace

// inputs: data (images, channels, ...), and a kernel (out, in, ...), or (groups, out, in, ...). The product is that of
// GEMM and col2im in Caffe.
inline void transposed_product(Builder& builder, const NodeRow& node) {
  constexpr int64_t kFewOutputs = 8;  // fill no vector
  const auto& given = parameters_of<ConvolutionRow>(node);
  const Spreading work =
      spreading(builder.dims(node.inputs[0]), builder.dims(node.inputs[1]), builder.dims(node.output), given);
  work.outputs < kFewOutputs ? product_by_channels(builder, node, work) : product_by_pixels(builder, node, work);
}

}  // namespace annotated_region_dnnl
