// Group and instance normalisation in two passes, moments and result, for channels first or last.

namespace annotated_region_dnnl {
namespace {

// Accumulates, for each column, the differences of some rows from `base`, and their squares.
ANNOTATED_REGION_CLONES void moments_of_rows(const float* rows, int64_t count, int64_t width, const float* base,
                                             float* sums, float* squares) {
  int64_t row = 0;
  for (; row + 4 <= count; row += 4) {
    const float* from = rows + row * width;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      const float a = from[i] - base[i];
      const float b = from[i + width] - base[i];
      const float c = from[i + 2 * width] - base[i];
      const float d = from[i + 3 * width] - base[i];
      sums[i] += (a + b) + (c + d);
      squares[i] += (a * a + b * b) + (c * c + d * d);
    }
  }
  for (; row < count; ++row) {
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      const float a = rows[row * width + i] - base[i];
      sums[i] += a;
      squares[i] += a * a;
    }
  }
}

// Accumulates the differences of a run from its first number in `total`, and their squares in `squares`.
ANNOTATED_REGION_CLONES void moments_of_run(const float* run, int64_t size, double& total, double& squares) {
  constexpr int64_t block = 1024;
  const float base = run[0];
  for (int64_t first = 0; first < size; first += block) {
    const int64_t last = first + block < size ? first + block : size;
    float sum = 0.0f;
    float square = 0.0f;
#pragma omp simd reduction(+ : sum, square)
    for (int64_t i = first; i < last; ++i) {
      const float a = run[i] - base;
      sum += a;
      square += a * a;
    }
    total += sum;
    squares += square;
  }
}

enum class Activation { none, relu, silu };

template <Activation activation>
inline __attribute__((always_inline)) float activated(float x) {
  if (activation == Activation::relu) return x > 0.0f ? x : 0.0f;  // TVM's relu of what is no number is 0
  return activation == Activation::silu ? x / (1.0f + exponential(-x)) : x;
}

// Normalises a run of numbers; mean, factor and shift advance by `step` from number to number.
template <int step, Activation activation>
inline __attribute__((always_inline)) void normalize(const float* from, float* to, int64_t size, const float* means,
                                                     const float* factors, const float* shifts) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) {
    to[i] = activated<activation>((from[i] - means[i * step]) * factors[i * step] + shifts[i * step]);
  }
}

template <int step>
inline __attribute__((always_inline)) void normalize(const float* from, float* to, int64_t size, const float* means,
                                                     const float* factors, const float* shifts,
                                                     Activation activation) {
  if (activation == Activation::silu) {
    normalize<step, Activation::silu>(from, to, size, means, factors, shifts);
  } else if (activation == Activation::relu) {
    normalize<step, Activation::relu>(from, to, size, means, factors, shifts);
  } else {
    normalize<step, Activation::none>(from, to, size, means, factors, shifts);
  }
}

// One number of each channel: a pixel with channels last.
ANNOTATED_REGION_CLONES void normalize_pixel(const float* from, float* to, int64_t size, const float* means,
                                             const float* factors, const float* shifts, Activation activation) {
  normalize<1>(from, to, size, means, factors, shifts, activation);
}

// Many numbers of one channel, with channels first.
ANNOTATED_REGION_CLONES void normalize_channel(const float* from, float* to, int64_t size, const float* mean,
                                               const float* factor, const float* shift, Activation activation) {
  normalize<0>(from, to, size, mean, factor, shift, activation);
}

}  // namespace

constexpr int64_t kExactRows = 64;  // as many terms are added in float32 before they join a sum in double precision

// Differences are taken from the first number of each channel, which avoids cancellation in the variance if the mean
// is large.
struct GroupNorm {
  int64_t images, channels, pixels, groups;
  bool channels_last;
  float epsilon;
  Activation activation;
  bool is_affine;
  int64_t parts;  // of an image, one a thread

  int64_t moments() const { return images * parts * 2 * channels; }
  size_t scratch() const { return moments() * (sizeof(double) + sizeof(float)) + images * 3 * channels * sizeof(float); }

  void run(const std::vector<char*>& pointers) const {
    const float* data = floats(pointers[0]);
    double* const sums = reinterpret_cast<double*>(pointers.back());
    float* const partial = reinterpret_cast<float*>(sums + moments());
    float* const lines = partial + moments();  // of each image: means, factors, shifts
    const float* scale = is_affine ? floats(pointers[1]) : nullptr;
    const float* shift = is_affine ? floats(pointers[2]) : nullptr;
    float* to = floats(pointers[pointers.size() - 2]);
#pragma omp parallel for
    for (int64_t item = 0; item < images * parts; ++item) {
      measure(data, item, sums + item * 2 * channels, partial + item * 2 * channels);
    }
#pragma omp parallel for
    for (int64_t item = 0; item < images * groups; ++item) settle(data, item, sums, lines, scale, shift);
#pragma omp parallel for
    for (int64_t item = 0; item < images * parts; ++item) finish(data, to, item, lines);
  }

 private:
  int64_t size() const { return channels * pixels; }

  // The begin of a part: a pixel if channels are last, else a channel.
  int64_t bound(int64_t part) const { return (channels_last ? pixels : channels) * part / parts; }

  float base(const float* data, int64_t image, int64_t channel) const {
    return data[image * size() + channel * (channels_last ? 1 : pixels)];
  }

  // The sums of the differences and of their squares, for each channel.
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

  // The mean of a group and the factor of each channel, from the moments of its channels (Chan, Golub and LeVeque).
  void settle(const float* data, int64_t item, const double* sums, float* lines, const float* scale,
              const float* shift) const {
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
    float* const means = lines + image * 3 * channels;
    for (int64_t channel = first; channel < first + width; ++channel) {
      means[channel] = static_cast<float>(mean);
      means[channels + channel] = static_cast<float>(scale == nullptr ? factor : factor * scale[channel]);
      means[2 * channels + channel] = shift == nullptr ? 0.0f : shift[channel];
    }
  }

  void finish(const float* data, float* to, int64_t item, const float* lines) const {
    const int64_t image = item / parts, first = bound(item % parts), last = bound(item % parts + 1);
    const float *means = lines + image * 3 * channels, *factors = means + channels, *shifts = factors + channels;
    const int64_t width = channels_last ? channels : pixels;
    for (int64_t row = first; row < last; ++row) {
      const int64_t start = image * size() + row * width;
      if (channels_last) {
        normalize_pixel(data + start, to + start, width, means, factors, shifts, activation);
      } else {
        normalize_channel(data + start, to + start, width, means + row, factors + row, shifts + row, activation);
      }
    }
  }
};

inline Activation activation_of(const NodeRow& node) {
  if (node.post_ops.size == 0) return Activation::none;
  const bool is_relu = node.post_ops[0].algorithm == dnnl_eltwise_relu;
  return is_relu ? Activation::relu : Activation::silu;
}

// inputs: data, and scale and shift or neither.
inline void group_norm(Builder& builder, const NodeRow& node) {
  const int src = node.inputs[0];
  const Dims& dims = builder.dims(src);
  const NamedTag* tag = tag_of(builder.layout(src));
  const bool channels_last = tag != nullptr && tag->channels_last;
  const Desc desc = channels_last ? Desc(dims, kFloat, tag->tag) : plain(dims, kFloat);
  std::vector<Argument> arguments = {{DNNL_ARG_SRC, desc, builder.fetch(src, desc)}};
  for (const Argument& vector : builder.scale_and_shift()) arguments.push_back(vector);
  const auto& [epsilon, groups] = parameters_of<GroupNormRow>(node);
  const GroupNorm work{dims[0], dims[1], volume(dims, 2, dims.size()), groups, channels_last, epsilon,
                       activation_of(node), node.inputs.size > 1, omp_get_max_threads()};
  const Place place = builder.over_or_fresh(arguments[0].place, desc);
  arguments.push_back({DNNL_ARG_DST, desc, place});
  const auto kernel = [work](const std::vector<char*>& pointers) { work.run(pointers); };
  const std::string note = work.activation == Activation::none ? "" : " +eltwise";
  builder.add_kernel(kernel, std::move(arguments), "group_norm " + layout_name(desc) + note, work.scratch());
  builder.define(node.output, desc, place);
}

}  // namespace annotated_region_dnnl
