// Resizes images as TVM does: the nearest pixel, two or four pixels along each axis.

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

namespace {

// Numbers of a line, by their places.
ANNOTATED_REGION_CLONES void pick(const float* line, const int64_t* places, float* to, int64_t size) {
  for (int64_t item = 0; item < size; ++item) to[item] = line[places[item]];
}

// Each number of a line two or four times.
template <int times>
inline __attribute__((always_inline)) void repeat(const float* line, float* to, int64_t size) {
#pragma omp simd
  for (int64_t item = 0; item < size / times; ++item) {
    for (int time = 0; time < times; ++time) to[item * times + time] = line[item];
  }
}
ANNOTATED_REGION_CLONES void repeat_twice(const float* line, float* to, int64_t size) { repeat<2>(line, to, size); }
ANNOTATED_REGION_CLONES void repeat_fourfold(const float* line, float* to, int64_t size) { repeat<4>(line, to, size); }

// Sums of numbers of a line, whose places and weights are in one row for each summand. Here and below, the first
// summand is no sum with 0, which would lose the sign of a zero.
ANNOTATED_REGION_CLONES void blend_numbers(const float* line, const int64_t* places, const float* weights, int count,
                                           float* to, int64_t size) {
  for (int64_t item = 0; item < size; ++item) to[item] = line[places[item]] * weights[item];
  for (int64_t row = 1; row < count; ++row) {
    const int64_t* const at = places + row * size;
    const float* const factors = weights + row * size;
    for (int64_t item = 0; item < size; ++item) to[item] += line[at[item]] * factors[item];
  }
}

// The sum of two or four lines, each times its weight.
ANNOTATED_REGION_CLONES void blend_lines(const std::array<const float*, 4>& lines, const std::array<float, 4>& weights,
                                         int count, float* to, int64_t size) {
  const float *const a = lines[0], *const b = lines[1], *const c = lines[2], *const d = lines[3];
  const auto [wa, wb, wc, wd] = weights;
  if (count == 2) {
#pragma omp simd
    for (int64_t item = 0; item < size; ++item) to[item] = a[item] * wa + b[item] * wb;
  } else {
#pragma omp simd
    for (int64_t item = 0; item < size; ++item) {
      to[item] = a[item] * wa + b[item] * wb + c[item] * wc + d[item] * wd;
    }
  }
}

}  // namespace

// Lines are rows of one channel or, if channels are last, of all of them.
class ImageResizing {
 public:
  ImageResizing(const Dims& in, const Dims& out, const Dims& strides, const ResizingRow& given)
      : strides_(strides), channels_(out[1]), is_dense_(strides[1] == 1) {
    const ResizedAxis rows{in[2], out[2], strides[2], given}, columns{in[3], out[3], strides[3], given};
    count_ = rows.count();
    for (int64_t row = 0; row < out[2]; ++row) down_.push_back(rows.taps(row));
    for (int64_t column = 0; column < out[3]; ++column) along_.push_back(columns.taps(column));
    for (int tap = 0; tap < count_; ++tap) {
      for (const ResizeTaps& taps : along_) {
        places_.push_back(taps.offsets[tap]);
        weights_.push_back(taps.weights[tap]);
      }
    }
    if (count_ == 1 && strides[3] == 1 && out[3] % in[3] == 0) find_repetition(out[3] / in[3]);
    line_ = out[3] * (is_dense_ ? channels_ : 1);
    planes_ = out[0] * (is_dense_ ? 1 : channels_);
    const int64_t shares = 4 * omp_get_max_threads();
    blocks_ = std::min(out[2], (shares + planes_ - 1) / planes_);
  }

  size_t bytes_of_thread() const { return count_ == 1 ? 0 : count_ * line_ * sizeof(float); }

  void run(const float* image, float* to, float* memory) const {
    const auto rows = static_cast<int64_t>(down_.size());
#pragma omp parallel for
    for (int64_t item = 0; item < planes_ * blocks_; ++item) {
      const int64_t plane = item / blocks_, block = item % blocks_, parts = is_dense_ ? 1 : channels_;
      const float* const from = image + plane / parts * strides_[0] + plane % parts * strides_[1];
      float* const result = to + plane * rows * line_;
      const int64_t first = rows * block / blocks_, last = rows * (block + 1) / blocks_;
      if (count_ == 1) {
        pick_rows(from, result, first, last);
      } else {
        blend_rows(from, result, first, last, memory + omp_get_thread_num() * count_ * line_);
      }
    }
  }

 private:
  void find_repetition(int64_t factor) {
    bool repeats = true;
    for (size_t column = 0; column < places_.size(); ++column) {
      repeats = repeats && places_[column] == static_cast<int64_t>(column) / factor;
    }
    if (repeats) repetition_ = factor;
  }

  void pick_rows(const float* from, float* to, int64_t first, int64_t last) const {
    for (int64_t row = first; row < last; ++row) {
      float* const line = to + row * line_;
      const bool repeats = row > first && down_[row].offsets[0] == down_[row - 1].offsets[0];
      if (repeats) {
        std::copy_n(line - line_, line_, line);
      } else {
        pick_line(from + down_[row].offsets[0], line);
      }
    }
  }

  void pick_line(const float* from, float* to) const {
    if (is_dense_) {
      for (const ResizeTaps& taps : along_) to = std::copy_n(from + taps.offsets[0], channels_, to);
      return;
    }
    if (repetition_ == 2) return repeat_twice(from, to, line_);
    if (repetition_ == 4) return repeat_fourfold(from, to, line_);
    pick(from, places_.data(), to, line_);
  }

  // Lines of the result are sums of lines that are resized along them before: `count_` of these are kept.
  void blend_rows(const float* from, float* to, int64_t first, int64_t last, float* memory) const {
    std::array<int64_t, 4> kept{kNowhere, kNowhere, kNowhere, kNowhere};
    std::array<const float*, 4> lines{};
    for (int64_t row = first; row < last; ++row) {
      const ResizeTaps& taps = down_[row];
      for (int tap = 0; tap < count_; ++tap) {
        const int place = place_of(taps.offsets[tap], taps, kept);
        lines[tap] = memory + place * line_;
        if (kept[place] != taps.offsets[tap]) blend_line(from + taps.offsets[tap], memory + place * line_);
        kept[place] = taps.offsets[tap];
      }
      blend_lines(lines, taps.weights, count_, to + row * line_, line_);
    }
  }

  // Where a line is kept, or may be: in place of one that this row of the result does not need.
  int place_of(int64_t offset, const ResizeTaps& taps, const std::array<int64_t, 4>& kept) const {
    const auto needed_end = taps.offsets.begin() + count_;
    int free = 0;
    for (int place = 0; place < count_; ++place) {
      if (kept[place] == offset) return place;
      if (std::find(taps.offsets.begin(), needed_end, kept[place]) == needed_end) free = place;
    }
    return free;
  }

  void blend_line(const float* from, float* to) const {
    if (!is_dense_) return blend_numbers(from, places_.data(), weights_.data(), count_, to, line_);
    for (const ResizeTaps& taps : along_) {
      std::array<const float*, 4> pixels{};
      for (int tap = 0; tap < count_; ++tap) pixels[tap] = from + taps.offsets[tap];
      blend_lines(pixels, taps.weights, count_, to, channels_);
      to += channels_;
    }
  }

  Dims strides_;
  int64_t channels_;
  bool is_dense_;
  int count_ = 0;
  std::vector<ResizeTaps> down_, along_;
  std::vector<int64_t> places_;  // of `along_`, tap by tap
  std::vector<float> weights_;
  int64_t repetition_ = 0;  // each number of a line so many times, if that is all
  int64_t line_ = 0, planes_ = 0, blocks_ = 0;
};

// inputs: images.
inline void resizing(Builder& builder, const NodeRow& node) {
  const int image = node.inputs[0];
  const Dims &in = builder.dims(image), &out = builder.dims(node.output);
  Desc from = flat_layout(builder, image, kFloat);
  if (!is_strided(from)) from = channels_last(in, kFloat);
  const Dims strides = from.get_strides();
  const Desc to = strides[1] == 1 ? channels_last(out, kFloat) : plain(out, kFloat);
  const ImageResizing work(in, out, strides, parameters_of<ResizingRow>(node));
  const size_t memory = omp_get_max_threads() * work.bytes_of_thread();
  const auto kernel = [work](const std::vector<char*>& pointers) {
    work.run(floats(pointers[0]), floats(pointers[1]), floats(pointers.back()));
  };
  const Place data = builder.fetch(image, from), result = builder.fresh(to);
  builder.add_kernel(kernel, {{DNNL_ARG_SRC, from, data}, {DNNL_ARG_DST, to, result}}, "resize " + layout_name(to),
                     memory);
  builder.define(node.output, to, result);
}

// The same in a form that oneDNN has, too, which keeps channels in blocks, and bfloat16.
inline void resampling(Builder& builder, const NodeRow& node) {
  const Desc from = builder.dense(node.inputs[0]);
  if (is_strided(from) && from.get_data_type() == kFloat) return resizing(builder, node);
  const bool is_nearest = parameters_of<ResizingRow>(node).method == ResizeMethod::nearest;
  const auto algorithm = is_nearest ? dnnl::algorithm::resampling_nearest : dnnl::algorithm::resampling_linear;
  const dnnl::resampling_forward::primitive_desc pd(cpu(), dnnl::prop_kind::forward_inference, algorithm, from,
                                                    builder.any(node.output), Builder::attributes());
  builder.add_unary_step(node, pd, from);
}

}  // namespace annotated_region_dnnl
