// Means of boxes of images, as TVM computes them: each box is divided into parts, and each part is the mean of samples
// that are linear between pixels. Coordinates are float32, and no instruction multiplies and adds at once, so that
// boxes have as many samples as on the host.

namespace annotated_region_dnnl {

// Two neighbouring pixels of an axis, as offsets, and how far a sample is from the first.
struct PixelPair {
  int64_t first, second;
  float part;
};

struct BoxAxis {
  int64_t extent, stride, parts;

  // The samples of a part that are inside of the image. A sample may be a pixel outside of the outer ones, which it
  // reads then. Sets `count` to how many samples the part has, inside or not.
  void samples_of(int64_t part, float begin, float end, const BoxMeansRow& given, std::vector<PixelPair>& inside,
                  int64_t& count) const {
    inside.clear();
    const float size = given.is_exact ? end - begin : end - begin > 1.0f ? end - begin : 1.0f;
    const float step = size / static_cast<float>(parts);
    count = given.samples != 0 ? given.samples : pixels(step);
    const volatile float before = static_cast<float>(part) * step;
    const float start = begin + before;
    const auto place = [&](int64_t sample) {
      const volatile float passed = (static_cast<float>(sample) + 0.5f) * step;
      return start + passed / static_cast<float>(count);
    };
    const auto add = [&](float at) {
      if (at < -1.0f || at > static_cast<float>(extent)) return;
      const float last = static_cast<float>(extent - 1), above = at > 0.0f ? at : 0.0f;
      const float inner = above < last ? above : last, base = std::floor(inner);
      const int64_t second = std::min(static_cast<int64_t>(std::ceil(inner)), extent - 1);
      inside.push_back({static_cast<int64_t>(base) * stride, second * stride, inner - base});
    };
    if (given.samples != 0) {
      for (int64_t sample = 0; sample < count; ++sample) add(place(sample));
      return;
    }
    // The places of such samples ascend, and most of a box that is much larger than the image are outside of it.
    int64_t sample = first_of(count, [&](int64_t index) { return !(place(index) < -1.0f); });
    const int64_t stop = first_of(count, [&](int64_t index) { return place(index) > static_cast<float>(extent); });
    for (; sample < stop; ++sample) add(place(sample));
  }

 private:
  // As many as a part has pixels, rounded up; none where that is no 32-bit integer.
  static int64_t pixels(float size) {
    const float whole = std::ceil(size);
    return whole > 0.0f && whole < 2147483648.0f ? static_cast<int64_t>(whole) : 0;
  }

  // The first index of which the predicate holds, which then holds of all that follow.
  template <typename Predicate>
  static int64_t first_of(int64_t count, Predicate holds) {
    int64_t low = 0;
    for (int64_t high = count; low < high;) {
      const int64_t middle = low + (high - low) / 2;
      if (holds(middle)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }
};

struct BoxPooling {
  BoxMeansRow given;
  BoxAxis rows, columns;
  int64_t images, channels, boxes;
  int64_t image_stride, channel_stride;
  Dims to_strides;

  static constexpr int64_t kBoxNumbers = 5;

  void run(const float* image, const float* box_rows, float* to) const {
#pragma omp parallel for
    for (int64_t item = 0; item < boxes * rows.parts; ++item) {
      const int64_t box = item / rows.parts, part = item % rows.parts;
      run_row(image, box_rows + box * kBoxNumbers, part, to + box * to_strides[0] + part * to_strides[2]);
    }
  }

 private:
  // One row of parts of a box, of all channels; NaN for an image that is not there.
  void run_row(const float* image, const float* box, int64_t row, float* to) const {
    const bool is_there = box[0] > -1.0f && box[0] < static_cast<float>(images);
    if (is_there) image += static_cast<int64_t>(box[0]) * image_stride;
    std::array<float, 4> corners;
    for (int place = 0; place < 4; ++place) {
      const volatile float scaled = box[place + 1] * given.scale;
      corners[place] = scaled;
    }
    std::vector<PixelPair> down, along;
    int64_t high = 0, wide = 0;
    rows.samples_of(row, corners[1], corners[3], given, down, high);
    for (int64_t column = 0; column < columns.parts; ++column, to += to_strides[3]) {
      columns.samples_of(column, corners[0], corners[2], given, along, wide);
      const float rest = is_there ? 0.0f : NAN;
      for (int64_t channel = 0; channel < channels; ++channel) to[channel * to_strides[1]] = rest;
      if (is_there) add_part(image, down, along, static_cast<float>(high * wide), to);
    }
  }

  void add_part(const float* image, const std::vector<PixelPair>& down, const std::vector<PixelPair>& along, float count,
                float* to) const {
    for (const PixelPair& vertical : down) {
      for (const PixelPair& horizontal : along) {
        const std::array<const float*, 4> pixels{
            image + vertical.first + horizontal.first, image + vertical.first + horizontal.second,
            image + vertical.second + horizontal.first, image + vertical.second + horizontal.second};
        if (channel_stride == 1 && to_strides[1] == 1) {
          add_sample<true>(pixels, vertical.part, horizontal.part, count, to);
        } else {
          add_sample<false>(pixels, vertical.part, horizontal.part, count, to);
        }
      }
    }
  }

  template <bool kDense>
  void add_sample(const std::array<const float*, 4>& pixels, float down, float along, float count, float* to) const {
    const int64_t from_step = kDense ? 1 : channel_stride, to_step = kDense ? 1 : to_strides[1];
    for (int64_t channel = 0; channel < channels; ++channel) {
      const int64_t place = channel * from_step;
      const float sample = pixels[0][place] * (1.0f - along) * (1.0f - down) + pixels[1][place] * along * (1.0f - down) +
                           pixels[2][place] * (1.0f - along) * down + pixels[3][place] * along * down;
      to[channel * to_step] += sample / count;
    }
  }
};

// inputs: images, and rows of an image's number and two corners.
inline void box_pooling(Builder& builder, const NodeRow& node) {
  const int image = node.inputs[0], rows = node.inputs[1];
  const Dims &in = builder.dims(image), &out = builder.dims(node.output);
  Desc from = flat_layout(builder, image, kFloat);
  if (!is_strided(from)) from = channels_last(in, kFloat);
  const Dims strides = from.get_strides();
  const Desc boxes = plain(builder.dims(rows), kFloat);
  const Desc to = strides[1] == 1 ? channels_last(out, kFloat) : plain(out, kFloat);
  BoxPooling work;
  work.given = parameters_of<BoxMeansRow>(node);
  work.rows = {in[2], strides[2], out[2]};
  work.columns = {in[3], strides[3], out[3]};
  work.images = in[0];
  work.channels = out[1];
  work.boxes = out[0];
  work.image_stride = strides[0];
  work.channel_stride = strides[1];
  work.to_strides = to.get_strides();
  const auto kernel = [work](const std::vector<char*>& pointers) {
    work.run(floats(pointers[0]), floats(pointers[1]), floats(pointers[2]));
  };
  const Place data = builder.fetch(image, from), places = builder.fetch(rows, boxes), result = builder.fresh(to);
  builder.add_kernel(kernel,
                     {{DNNL_ARG_SRC, from, data}, {DNNL_ARG_SRC_1, boxes, places}, {DNNL_ARG_DST, to, result}},
                     "roi_align " + layout_name(to));
  builder.define(node.output, to, result);
}

}  // namespace annotated_region_dnnl
