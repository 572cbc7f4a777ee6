// Group and instance normalisation: one pass for the moments, one for the result, with the channels first or last.

namespace annotated_region_dnnl {

constexpr int64_t kExactRows = 64;  // as many terms are added in float32 before they join a sum in double precision

// Deviations are taken from the first number of each channel, so that squares do not cancel where the mean is large.
struct GroupNorm {
  int64_t images, channels, pixels, groups;
  bool channels_last;
  float epsilon;
  Activation activation;
  bool is_affine;
  int64_t parts;  // of an image, one a thread

  int64_t moments() const { return images * parts * 2 * channels; }
  size_t scratch() const { return moments() * (sizeof(double) + sizeof(float)) + images * 2 * channels * sizeof(float); }

  void run(const std::vector<char*>& pointers) const {
    const float* data = floats(pointers[0]);
    double* const sums = reinterpret_cast<double*>(pointers.back());
    float* const partial = reinterpret_cast<float*>(sums + moments());
    float* const lines = partial + moments();  // of each image: means, then factors
    const float* scale = is_affine ? floats(pointers[1]) : nullptr;
    const float* shift = is_affine ? floats(pointers[2]) : nullptr;
    float* to = floats(pointers[pointers.size() - 2]);
#pragma omp parallel for
    for (int64_t item = 0; item < images * parts; ++item) {
      measure(data, item, sums + item * 2 * channels, partial + item * 2 * channels);
    }
#pragma omp parallel for
    for (int64_t item = 0; item < images * groups; ++item) settle(data, item, sums, lines, scale);
#pragma omp parallel for
    for (int64_t item = 0; item < images * parts; ++item) finish(data, to, item, lines, shift);
  }

 private:
  int64_t size() const { return channels * pixels; }

  // Where a part begins: among the pixels if channels are last, else among the channels.
  int64_t bound(int64_t part) const { return (channels_last ? pixels : channels) * part / parts; }

  float base(const float* data, int64_t image, int64_t channel) const {
    return data[image * size() + channel * (channels_last ? 1 : pixels)];
  }

  // The sums of deviations and of their squares, of each channel.
  void measure(const float* data, int64_t item, double* sums, float* partial) const {
    const float* image = data + item / parts * size();
    const int64_t first = bound(item % parts), last = bound(item % parts + 1);
    std::fill_n(sums, 2 * channels, 0.0);
    if (!channels_last) {
      for (int64_t channel = first; channel < last; ++channel) {
        moments_of_run(image + channel * pixels, pixels, sums[channel], sums[channels + channel]);
      }
      return;
    }
    for (int64_t row = first; row < last; row += kExactRows) {
      std::fill_n(partial, 2 * channels, 0.0f);
      moments_of_rows(image + row * channels, std::min(kExactRows, last - row), channels, image, partial,
                      partial + channels);
      for (int64_t index = 0; index < 2 * channels; ++index) sums[index] += partial[index];
    }
  }

  // The mean of a group, and the factor of each of its channels, from the moments of these (Chan, Golub and LeVeque).
  void settle(const float* data, int64_t item, const double* sums, float* lines, const float* scale) const {
    const int64_t image = item / groups, width = channels / groups, first = item % groups * width;
    const auto moment = [&](int64_t index) {
      double total = 0.0;
      for (int64_t part = 0; part < parts; ++part) total += sums[(image * parts + part) * 2 * channels + index];
      return total;
    };
    const double count = static_cast<double>(pixels);
    double mean = 0.0, squares = 0.0;
    for (int64_t index = 0; index < width; ++index) {
      const int64_t channel = first + index;
      const double sum = moment(channel);
      const double own = base(data, image, channel) + sum / count;
      const double deviation = own - mean;
      squares += moment(channels + channel) - sum * sum / count;
      squares += deviation * deviation * count * static_cast<double>(index) / static_cast<double>(index + 1);
      mean += deviation / static_cast<double>(index + 1);
    }
    const double factor = 1.0 / std::sqrt(squares / (count * static_cast<double>(width)) + epsilon);
    float* const means = lines + image * 2 * channels;
    for (int64_t channel = first; channel < first + width; ++channel) {
      means[channel] = static_cast<float>(mean);
      means[channels + channel] = static_cast<float>(scale == nullptr ? factor : factor * scale[channel]);
    }
  }

  void finish(const float* data, float* to, int64_t item, const float* lines, const float* shift) const {
    const int64_t image = item / parts, first = bound(item % parts), last = bound(item % parts + 1);
    const float* means = lines + image * 2 * channels;
    const float* factors = means + channels;
    if (channels_last) {
      const int64_t start = image * size() + first * channels;
      return normalize_rows(data + start, to + start, last - first, channels, means, factors, shift, activation);
    }
    for (int64_t channel = first; channel < last; ++channel) {
      const int64_t start = image * size() + channel * pixels;
      const float added = shift == nullptr ? 0.0f : shift[channel];
      normalize_run(data + start, to + start, pixels, means[channel], factors[channel], added, activation);
    }
  }
};

inline Activation activation_of(const NodeRow& node) {
  if (node.post_ops.size == 0) return Activation::none;
  const bool is_relu = algorithm_of(node.post_ops[0].algorithm) == dnnl::algorithm::eltwise_relu;
  return is_relu ? Activation::relu : Activation::silu;
}

// inputs: data, and scale and shift or neither; ints: groups; floats: epsilon.
inline void group_norm(Builder& builder, const NodeRow& node) {
  const int src = node.inputs[0];
  const Dims& dims = builder.dims(src);
  const NamedTag* tag = tag_of(builder.layout(src));
  const bool channels_last = tag != nullptr && tag->channels_last;
  const Desc desc = channels_last ? Desc(dims, kFloat, tag->tag) : plain(dims, kFloat);
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, desc, builder.fetch(src, desc)}};
  for (const Argument& vector : builder.vectors()) arguments.push_back(vector);
  const GroupNorm work{dims[0], dims[1], volume(dims, 2, dims.size()), node.ints[0], channels_last, node.floats[0],
                       activation_of(node), node.inputs.size > 1, omp_get_max_threads()};
  const Place place = builder.over_or_fresh(arguments[0].place, desc);
  arguments.push_back({DNNL_ARG_DST, desc, place});
  const auto kernel = [work](const std::vector<char*>& pointers) { work.run(pointers); };
  const std::string note = work.activation == Activation::none ? "" : " +eltwise";
  builder.add_kernel(kernel, std::move(arguments), "group_norm " + layout_name(desc) + note, work.scratch());
  builder.define(node.output, desc, place);
}

}  // namespace annotated_region_dnnl
