// Samples images and volumes at computed places, as TVM and PyTorch do.

namespace annotated_region_dnnl {

// The pixels of an axis that one sample reads, as offsets, or `kNowhere` for those outside, and their weights.
struct AxisTaps {
  int count;
  std::array<int64_t, 4> offsets;
  std::array<float, 4> weights;
};

// An axis of the image. Coordinates are float32, as in TVM; pixels are found in double precision, which holds every
// index of an image, so that no coordinate leads out of it.
struct SampledAxis {
  int64_t extent, stride;
  SampleMethod method;
  Outside outside;
  bool is_aligned;

  AxisTaps taps(float coordinate) const {
    const float place = unnormalized(coordinate);
    if (method == SampleMethod::nearest) return {1, {offset(std::nearbyint(inner(place)))}, {1.0f}};
    if (method == SampleMethod::cubic) return cubic_taps(place);
    const float at = inner(place), base = std::floor(at);
    return {2, {offset(base), offset(base + 1.0f)}, {1.0f - (at - base), at - base}};
  }

 private:
  // The place in pixels: 0 is the center of the first one.
  float unnormalized(float coordinate) const {
    const float size = static_cast<float>(extent), last = static_cast<float>(extent - 1);
    return is_aligned ? (coordinate + 1.0f) * last / 2.0f : -0.5f + (coordinate + 1.0f) * size / 2.0f;
  }

  float inner(float place) const {
    if (outside == Outside::zeros) return place;
    return clipped(outside == Outside::border ? place : reflected(place));
  }

  // NaN becomes 0.
  float clipped(float place) const {
    return place > 0.0f ? std::min(place, static_cast<float>(extent - 1)) : 0.0f;
  }

  // Mirrored at the centers or the edges of the outer pixels; NaN for infinity.
  float reflected(float place) const {
    const float first = is_aligned ? 0.0f : -0.5f;
    const auto span = static_cast<float>(is_aligned ? extent - 1 : extent);
    if (span == 0.0f) return 0.0f;
    if (place >= first && place <= first + span) return place;
    const float distance = std::abs(first - place), rest = std::fmod(distance, span);
    const double turns = std::nearbyint((static_cast<double>(distance) - rest) / span);
    return std::fmod(turns, 2.0) == 0.0 ? rest + first : span - rest + first;
  }

  AxisTaps cubic_taps(float place) const {
    const float base = std::floor(place), part = place - base;
    const auto near = [](float distance) { return (1.25f * distance - 2.25f) * distance * distance + 1.0f; };
    const auto far = [](float distance) {
      return ((-0.75f * distance + 3.75f) * distance - 6.0f) * distance + 3.0f;
    };
    AxisTaps taps{4, {}, {far(part + 1.0f), near(part), near(1.0f - part), far(2.0f - part)}};
    for (int tap = 0; tap < 4; ++tap) taps.offsets[tap] = offset(inner(base + static_cast<float>(tap - 1)));
    return taps;
  }

  int64_t offset(double index) const {
    const bool is_inside = index >= 0.0 && index <= static_cast<double>(extent - 1);
    return is_inside ? static_cast<int64_t>(index) * stride : kNowhere;
  }
};

// The pixels inside of the image that one sample adds up. Those outside are zeros: with weights that are no numbers
// they make `rest` NaN, and otherwise 0. Without any it is -0, which leaves the sign of a sum that is zero.
struct Sample {
  int count;
  float rest;
  std::array<int64_t, 16> offsets;
  std::array<float, 16> weights;

  void begin() {
    count = 1;
    rest = -0.0f;
    offsets[0] = 0;
    weights[0] = 1.0f;
  }

  // Each pixel so far becomes one for each tap of another axis.
  void extend(const AxisTaps& taps) {
    for (int place = count * taps.count; place-- > 0;) {
      const int64_t before = offsets[place / taps.count], along = taps.offsets[place % taps.count];
      offsets[place] = before == kNowhere || along == kNowhere ? kNowhere : before + along;
      weights[place] = weights[place / taps.count] * taps.weights[place % taps.count];
    }
    count *= taps.count;
  }

  void end() {
    const int all = std::exchange(count, 0);
    for (int place = 0; place < all; ++place) {
      if (offsets[place] == kNowhere) {
        rest += 0.0f * weights[place];
      } else {
        offsets[count] = offsets[place];
        weights[count++] = weights[place];
      }
    }
  }
};

namespace {

// One sample of each channel, whose numbers follow each other.
ANNOTATED_REGION_CLONES void sample_channels(const float* from, const Sample& sample, float* to, int64_t channels) {
  for (int64_t channel = 0; channel < channels; ++channel) to[channel] = sample.rest;
  for (int tap = 0; tap < sample.count; ++tap) {
    const float* const pixel = from + sample.offsets[tap];
    const float weight = sample.weights[tap];
    for (int64_t channel = 0; channel < channels; ++channel) to[channel] += weight * pixel[channel];
  }
}

}  // namespace

// One channel of several samples.
inline void sample_plane(const float* from, const Sample* samples, int64_t count, float* to, int64_t step) {
  for (int64_t item = 0; item < count; ++item) {
    const Sample& sample = samples[item];
    float sum = sample.rest;
    for (int tap = 0; tap < sample.count; ++tap) sum += sample.weights[tap] * from[sample.offsets[tap]];
    to[item * step] = sum;
  }
}

constexpr int64_t kSamples = 32;  // that a thread takes at once

// The two pixels of an axis around each of some places, as offsets, all bits or none of whether they are inside of the
// image, and weights.
struct PixelPairs {
  std::array<std::array<int32_t, kSamples>, 2> offsets, inside;
  std::array<std::array<float, kSamples>, 2> weights;
};

namespace {

// What `SampledAxis` does of linear samples, for images of moderate extents, of which float32 holds each place: `outside`
// is `zeros` or `border`. Coordinates are `step` apart.
ANNOTATED_REGION_CLONES void find_pairs(const float* coordinates, int64_t step, int64_t count, const SampledAxis& axis,
                                        PixelPairs& pairs) {
  const auto size = static_cast<float>(axis.extent), last = static_cast<float>(axis.extent - 1);
  const float span = axis.is_aligned ? last : size, shift = axis.is_aligned ? 0.0f : -0.5f;
  const float least = axis.outside == Outside::border ? 0.0f : -INFINITY;
  const float most = axis.outside == Outside::border ? last : INFINITY;
  const bool clips = axis.outside == Outside::border;
  const auto stride = static_cast<int32_t>(axis.stride);
#pragma omp simd
  for (int64_t item = 0; item < count; ++item) {
    const float place = shift + (coordinates[item * step] + 1.0f) * span / 2.0f;
    const float above = place > least ? place : least;  // NaN becomes 0 at a border
    const float within = above < most ? above : most;
    const float at = clips ? within : place, base = std::floor(at), next = base + 1.0f;
    const bool has_base = (base >= 0.0f) & (base <= last), has_next = (next >= 0.0f) & (next <= last);
    pairs.offsets[0][item] = static_cast<int32_t>(has_base ? base : 0.0f) * stride;
    pairs.offsets[1][item] = static_cast<int32_t>(has_next ? next : 0.0f) * stride;
    pairs.inside[0][item] = has_base ? -1 : 0;
    pairs.inside[1][item] = has_next ? -1 : 0;
    pairs.weights[0][item] = 1.0f - (at - base);
    pairs.weights[1][item] = at - base;
  }
}

// Samples of one channel, of the four pixels around each: pixels outside are zeros, which weights that are no numbers
// make NaN.
ANNOTATED_REGION_CLONES void sample_corners(const float* from, const PixelPairs& rows, const PixelPairs& columns,
                                            int64_t count, float* to) {
#pragma omp simd
  for (int64_t item = 0; item < count; ++item) {
    const auto corner = [&](int row, int column) __attribute__((always_inline)) {
      const float pixel = from[rows.offsets[row][item] + columns.offsets[column][item]];
      const int32_t inside = rows.inside[row][item] & columns.inside[column][item];
      return rows.weights[row][item] * columns.weights[column][item] * bits_as<float>(bits_as<int32_t>(pixel) & inside);
    };
    to[item] = corner(0, 0) + corner(0, 1) + corner(1, 0) + corner(1, 1);
  }
}

}  // namespace

// The strides of an operand or of the result: of the batch, of axis 1, and of all other axes as one.
struct PointStrides {
  int64_t batch, second, point;
};

struct GridSampling {
  std::vector<SampledAxis> axes;
  int64_t batches, channels, points;
  int64_t image_batch, image_channel;
  PointStrides grid, result;

  void run(const float* image, const float* places, float* to) const {
    const int64_t blocks = (points + kSamples - 1) / kSamples;
#pragma omp parallel for
    for (int64_t item = 0; item < batches * blocks; ++item) {
      const int64_t batch = item / blocks, first = item % blocks * kSamples;
      run_block(image + batch * image_batch, places + batch * grid.batch + first * grid.point,
                to + batch * result.batch + first * result.point, std::min(kSamples, points - first));
    }
  }

  // Whether samples are found and computed several at a time: linear ones of images with channels first.
  bool is_by_corners() const {
    constexpr int64_t kMostPlaces = 1 << 24;
    const auto is_simple = [](const SampledAxis& axis) {
      const bool is_known = axis.method == SampleMethod::linear && axis.outside != Outside::reflection;
      return is_known && axis.extent * axis.stride <= kMostPlaces;
    };
    return axes.size() == 2 && result.point == 1 && std::all_of(axes.begin(), axes.end(), is_simple);
  }

  void run_corners(const float* image, const float* places, float* to, int64_t count) const {
    PixelPairs rows, columns;
    find_pairs(places + grid.second, grid.point, count, axes[0], rows);
    find_pairs(places, grid.point, count, axes[1], columns);
    for (int64_t channel = 0; channel < channels; ++channel) {
      sample_corners(image + channel * image_channel, rows, columns, count, to + channel * result.second);
    }
  }

  void run_block(const float* image, const float* places, float* to, int64_t count) const {
    if (is_by_corners()) return run_corners(image, places, to, count);
    std::array<Sample, kSamples> samples;
    for (int64_t item = 0; item < count; ++item) find(places + item * grid.point, samples[item]);
    if (image_channel == 1 && result.second == 1) {
      for (int64_t item = 0; item < count; ++item) {
        sample_channels(image, samples[item], to + item * result.point, channels);
      }
      return;
    }
    for (int64_t channel = 0; channel < channels; ++channel) {
      sample_plane(image + channel * image_channel, samples.data(), count, to + channel * result.second, result.point);
    }
  }

  // The last coordinate belongs to the first axis.
  void find(const float* coordinates, Sample& sample) const {
    sample.begin();
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      sample.extend(axes[axis].taps(coordinates[(axes.size() - 1 - axis) * grid.second]));
    }
    sample.end();
  }
};

// The strides of a layout whose axes after the second form one run; empty if they do not.
inline std::optional<PointStrides> point_strides(const Desc& desc) {
  const Dims dims = desc.get_dims();
  const Desc view = is_strided(desc) ? restrided(desc, {dims[0], dims[1], volume(dims, 2, dims.size())})
                                     : Desc(dnnl_memory_desc_t{nullptr});
  if (!view) return std::nullopt;
  const Dims strides = view.get_strides();
  return PointStrides{strides[0], strides[1], strides[2]};
}

// inputs: an image, and a grid with the coordinates of each sample along axis 1.
inline void sampling(Builder& builder, const NodeRow& node) {
  const auto& given = parameters_of<SamplingRow>(node);
  const int image = node.inputs[0], grid = node.inputs[1];
  const Dims &in = builder.dims(image), &out = builder.dims(node.output);
  Desc from = flat_layout(builder, image, kFloat), places = flat_layout(builder, grid, kFloat);
  if (!is_strided(from)) from = channels_last(in, kFloat);
  if (!point_strides(places)) places = plain(builder.dims(grid), kFloat);
  const Dims strides = from.get_strides();
  const Desc to = strides[1] == 1 ? channels_last(out, kFloat) : plain(out, kFloat);
  GridSampling work;
  for (size_t axis = 2; axis < in.size(); ++axis) {
    work.axes.push_back({in[axis], strides[axis], given.method, given.outside, given.is_aligned});
  }
  work.batches = out[0];
  work.channels = out[1];
  work.points = volume(out, 2, out.size());
  work.image_batch = strides[0];
  work.image_channel = strides[1];
  work.grid = *point_strides(places);
  work.result = *point_strides(to);
  const auto kernel = [work](const std::vector<char*>& pointers) {
    work.run(floats(pointers[0]), floats(pointers[1]), floats(pointers[2]));
  };
  const Place data = builder.fetch(image, from), points = builder.fetch(grid, places), result = builder.fresh(to);
  builder.add_kernel(kernel,
                     {{DNNL_ARG_SRC, from, data}, {DNNL_ARG_SRC_1, places, points}, {DNNL_ARG_DST, to, result}},
                     "grid_sample " + layout_name(to));
  builder.define(node.output, to, result);
}

}  // namespace annotated_region_dnnl
