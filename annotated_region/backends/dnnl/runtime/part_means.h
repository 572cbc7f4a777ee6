// Means of the parts into which axes are divided, as adaptive pooling does. Parts differ in size where an extent does not
// divide, and neighbours share elements then.

namespace annotated_region_dnnl {

struct PartedAxis {
  int64_t before, parts, from_stride, to_stride;

  int64_t first(int64_t part) const { return part * before / parts; }
  int64_t last(int64_t part) const { return ((part + 1) * before + parts - 1) / parts; }
  int64_t size(int64_t part) const { return last(part) - first(part); }
};

struct PartMeans {
  std::array<PartedAxis, 3> axes;  // axes that the operand lacks have one element
  int64_t images, channels;
  Dims from_strides, to_strides;

  void run(const float* data, float* to) const {
    const bool is_dense = from_strides[1] == 1 && to_strides[1] == 1;
    const int64_t planes = is_dense ? 1 : channels, lanes = is_dense ? channels : 1;
    const int64_t parts = axes[0].parts * axes[1].parts;
#pragma omp parallel for
    for (int64_t item = 0; item < images * planes * parts; ++item) {
      const int64_t part = item % parts, plane = item / parts % planes, number = item / parts / planes;
      const float* const from = data + number * from_strides[0] + plane * from_strides[1];
      float* const line = to + number * to_strides[0] + plane * to_strides[1];
      for (int64_t column = 0; column < axes[2].parts; ++column) {
        mean(from, line, {part / axes[1].parts, part % axes[1].parts, column}, lanes);
      }
    }
  }

 private:
  // The mean of one part, of as many channels as there are numbers beside each other.
  void mean(const float* from, float* to, const std::array<int64_t, 3>& part, int64_t lanes) const {
    int64_t count = 1;
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      to += part[axis] * axes[axis].to_stride;
      count *= axes[axis].size(part[axis]);
    }
    for (int64_t lane = 0; lane < lanes; ++lane) to[lane] = 0.0f;
    for (int64_t depth = axes[0].first(part[0]); depth < axes[0].last(part[0]); ++depth) {
      for (int64_t row = axes[1].first(part[1]); row < axes[1].last(part[1]); ++row) {
        const float* const line = from + depth * axes[0].from_stride + row * axes[1].from_stride;
        for (int64_t column = axes[2].first(part[2]); column < axes[2].last(part[2]); ++column) {
          const float* const pixel = line + column * axes[2].from_stride;
          for (int64_t lane = 0; lane < lanes; ++lane) to[lane] += pixel[lane];
        }
      }
    }
    const auto divisor = static_cast<float>(count);
    for (int64_t lane = 0; lane < lanes; ++lane) to[lane] /= divisor;
  }
};

// inputs: images, rows or volumes.
inline void part_means(Builder& builder, const NodeRow& node) {
  const int data = node.inputs[0];
  const Dims &in = builder.dims(data), &out = builder.dims(node.output);
  Desc from = flat_layout(builder, data, kFloat);
  if (!is_strided(from)) from = channels_last(in, kFloat);
  const Dims strides = from.get_strides();
  const Desc to = strides[1] == 1 ? channels_last(out, kFloat) : plain(out, kFloat);
  const Dims to_strides = to.get_strides();
  PartMeans work{{}, out[0], out[1], strides, to_strides};
  const size_t absent = work.axes.size() + 2 - in.size();
  for (size_t axis = 0; axis < work.axes.size(); ++axis) {
    const size_t place = axis + 2 - absent;
    work.axes[axis] = axis < absent ? PartedAxis{1, 1, 0, 0}
                                    : PartedAxis{in[place], out[place], strides[place], to_strides[place]};
  }
  const auto kernel = [work](const std::vector<char*>& pointers) { work.run(floats(pointers[0]), floats(pointers[1])); };
  const Place image = builder.fetch(data, from), result = builder.fresh(to);
  builder.add_kernel(kernel, {{DNNL_ARG_SRC, from, image}, {DNNL_ARG_DST, to, result}}, "part means " + layout_name(to));
  builder.define(node.output, to, result);
}

}  // namespace annotated_region_dnnl
