// Resizes images as TVM does where oneDNN has no such form: the nearest pixel, two or four pixels along each axis.

namespace annotated_region_dnnl {

// The pixels of an axis that one pixel of the result is made of, as offsets, and their weights.
struct ResizeTaps {
  std::array<int64_t, 4> offsets;
  std::array<float, 4> weights;
};

// An axis before and after. Places are float32 and rounded operation by operation, as on the host: which pixel is the
// nearest depends on it.
struct ResizedAxis {
  int64_t before, after, stride;
  ResizingRow given;

  int count() const {
    switch (given.method) {
      case ResizeMethod::nearest: return 1;
      case ResizeMethod::linear: return 2;
      case ResizeMethod::cubic: return 4;
    }
    throw std::logic_error("no such method");
  }

  ResizeTaps taps(int64_t pixel) const {
    const float at = place(static_cast<float>(pixel));
    if (given.method == ResizeMethod::nearest) return {{offset(nearest(at))}, {1.0f}};
    const float base = std::floor(at), part = at - base;
    if (given.method == ResizeMethod::linear) return {{offset(base), offset(base + 1.0f)}, {1.0f - part, part}};
    return {{offset(base - 1.0f), offset(base), offset(base + 1.0f), offset(base + 2.0f)}, cubic_weights(part)};
  }

 private:
  // An axis that is resized to one pixel has its corners at the first one.
  float place(float pixel) const {
    const auto from = static_cast<float>(before), to = static_cast<float>(after);
    const float scale = from / to;
    switch (given.coordinates) {
      case Coordinates::half_pixel_of_pytorch:
        if (after == 1) return 0.0f;
        [[fallthrough]];
      case Coordinates::half_pixel: return multiplied(pixel + 0.5f, scale) - 0.5f;
      case Coordinates::half_pixel_uncentered: return multiplied(pixel + 0.5f, scale);
      case Coordinates::corners: return after == 1 ? 0.0f : multiplied((from - 1.0f) / (to - 1.0f), pixel);
      case Coordinates::asymmetric: return multiplied(scale, pixel);
    }
    throw std::logic_error("no such coordinates");
  }

  // A product that is rounded before anything is added to it.
  static float multiplied(float left, float right) {
    const volatile float product = left * right;
    return product;
  }

  // TVM moves places by a small number, so that what was rounded down is no pixel before.
  float nearest(float at) const {
    constexpr float kNear = 1e-5f;
    switch (given.rounding) {
      case PixelRounding::round: return std::nearbyint(at);
      case PixelRounding::round_down: return std::ceil(at - 0.5f);
      case PixelRounding::round_up: return std::floor(at + 0.5f);
      case PixelRounding::floor: return std::floor(at + kNear);
      case PixelRounding::ceil: return std::ceil(at - kNear);
    }
    throw std::logic_error("no such rounding");
  }

  std::array<float, 4> cubic_weights(float part) const {
    const float alpha = given.alpha, square = part * part, cube = square * part;
    return {alpha * (cube - 2.0f * square + part), (alpha + 2.0f) * cube - (3.0f + alpha) * square + 1.0f,
            -(alpha + 2.0f) * cube + (3.0f + 2.0f * alpha) * square - alpha * part, -alpha * cube + alpha * square};
  }

  // Pixels outside are those at the border.
  int64_t offset(float index) const {
    const double last = static_cast<double>(before - 1);
    return static_cast<int64_t>(std::clamp(static_cast<double>(index), 0.0, last)) * stride;
  }
};

struct ImageResizing {
  int count;
  std::vector<ResizeTaps> down, along;
  int64_t images, channels;
  Dims from_strides, to_strides;

  void run(const float* image, float* to) const {
    const auto rows = static_cast<int64_t>(down.size());
    const bool is_dense = from_strides[1] == 1 && to_strides[1] == 1;
    const int64_t planes = is_dense ? 1 : channels;
#pragma omp parallel for
    for (int64_t item = 0; item < images * planes * rows; ++item) {
      const int64_t row = item % rows, plane = item / rows % planes, number = item / rows / planes;
      const float* const from = image + number * from_strides[0] + plane * from_strides[1];
      float* const line = to + number * to_strides[0] + plane * to_strides[1] + row * to_strides[2];
      is_dense ? resize_pixels(from, down[row], line) : resize_line(from, down[row], line);
    }
  }

 private:
  // One row of one channel.
  void resize_line(const float* from, const ResizeTaps& rows, float* to) const {
    for (const ResizeTaps& columns : along) {
      float sum = 0.0f;
      for (int row = 0; row < count; ++row) sum = added(sum, row, line_sum(from + rows.offsets[row], columns), rows);
      *to = sum;
      to += to_strides[3];
    }
  }

  // The first summand is no sum with 0, which would lose the sign of a zero.
  static float added(float sum, int place, float number, const ResizeTaps& taps) {
    return place == 0 ? number * taps.weights[0] : sum + number * taps.weights[place];
  }

  float line_sum(const float* line, const ResizeTaps& columns) const {
    float sum = 0.0f;
    for (int column = 0; column < count; ++column) sum = added(sum, column, line[columns.offsets[column]], columns);
    return sum;
  }

  // One row of all channels, whose numbers follow each other.
  void resize_pixels(const float* from, const ResizeTaps& rows, float* to) const {
    for (const ResizeTaps& columns : along) {
      for (int64_t channel = 0; channel < channels; ++channel) {
        float sum = 0.0f;
        for (int row = 0; row < count; ++row) {
          sum = added(sum, row, line_sum(from + rows.offsets[row] + channel, columns), rows);
        }
        to[channel] = sum;
      }
      to += to_strides[3];
    }
  }
};

// inputs: images.
inline void resizing(Builder& builder, const NodeRow& node) {
  const int image = node.inputs[0];
  const Dims &in = builder.dims(image), &out = builder.dims(node.output);
  Desc from = flat_layout(builder, image, kFloat);
  if (!is_strided(from)) from = channels_last(in, kFloat);
  const Dims strides = from.get_strides();
  const Desc to = strides[1] == 1 ? channels_last(out, kFloat) : plain(out, kFloat);
  const auto& given = parameters_of<ResizingRow>(node);
  const ResizedAxis rows{in[2], out[2], strides[2], given}, columns{in[3], out[3], strides[3], given};
  ImageResizing work{rows.count(), {}, {}, out[0], out[1], strides, to.get_strides()};
  for (int64_t row = 0; row < out[2]; ++row) work.down.push_back(rows.taps(row));
  for (int64_t column = 0; column < out[3]; ++column) work.along.push_back(columns.taps(column));
  const auto kernel = [work](const std::vector<char*>& pointers) { work.run(floats(pointers[0]), floats(pointers[1])); };
  const Place data = builder.fetch(image, from), result = builder.fresh(to);
  builder.add_kernel(kernel, {{DNNL_ARG_SRC, from, data}, {DNNL_ARG_DST, to, result}}, "resize " + layout_name(to));
  builder.define(node.output, to, result);
}

}  // namespace annotated_region_dnnl
