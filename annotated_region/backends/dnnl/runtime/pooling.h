// Pooling. oneDNN's maximum of a window starts from the lowest finite number, which is its result where the window holds
// -inf alone. Results that are this number are compared with their windows.

namespace annotated_region_dnnl {

// The bits of the lowest finite number and of -inf.
template <typename Bits>
struct Least;
template <>
struct Least<uint32_t> {
  static constexpr uint32_t kLowest = 0xff7fffff, kInfinite = 0xff800000;
};
template <>
struct Least<uint16_t> {  // bfloat16
  static constexpr uint16_t kLowest = 0xff7f, kInfinite = 0xff80;
};

namespace {

template <typename Bits>
ANNOTATED_REGION_CLONES bool has_lowest(const Bits* data, int64_t count) {
  int found = 0;
#pragma omp simd reduction(| : found)
  for (int64_t item = 0; item < count; ++item) found |= data[item] == Least<Bits>::kLowest;
  return found != 0;
}

}  // namespace

// Where the elements of a layout lie, in elements.
class Places {
 public:
  explicit Places(const Desc& desc)
      : strides_(desc.get_strides()), blocks_(desc.get_inner_blks()), axes_(desc.get_inner_idxs()) {}

  int64_t of(Dims position) const {
    int64_t place = 0, stride = 1;
    for (size_t block = blocks_.size(); block-- > 0; stride *= blocks_[block]) {
      int64_t& index = position[axes_[block]];
      place += index % blocks_[block] * stride;
      index /= blocks_[block];
    }
    for (size_t axis = 0; axis < position.size(); ++axis) place += position[axis] * strides_[axis];
    return place;
  }

 private:
  Dims strides_, blocks_, axes_;
};

// The windows of a pooling: extents of the operand and of the result, then a number for each axis behind the channels.
struct Windows {
  Dims in, out, strides, size, dilation, before;

  // Calls `action` with each position of the operand that the window of a result covers.
  template <typename Action>
  void for_each(const Dims& result, Action action) const {
    Dims position = result;
    for (int64_t index = 0, count = volume(size, 0, size.size()); index < count; ++index) {
      bool is_inside = true;
      int64_t rest = index;
      for (size_t axis = size.size(); axis-- > 0; rest /= size[axis]) {
        int64_t& at = position[axis + 2];
        at = result[axis + 2] * strides[axis] - before[axis] + rest % size[axis] * (dilation[axis] + 1);
        is_inside = is_inside && at >= 0 && at < in[axis + 2];
      }
      if (is_inside) action(position);
    }
  }
};

inline Dims position_of(int64_t index, const Dims& dims) {
  Dims position(dims.size());
  for (size_t axis = dims.size(); axis-- > 0; index /= dims[axis]) position[axis] = index % dims[axis];
  return position;
}

template <typename Bits>
struct InfinityRestored {
  Windows windows;
  Places given, made;
  int64_t count;  // of the elements of the result, with those of a block that is not full

  void operator()(const std::vector<char*>& pointers) const {
    const auto* const from = reinterpret_cast<const Bits*>(pointers[0]);
    auto* const to = reinterpret_cast<Bits*>(pointers[1]);
    std::atomic<bool> found{false};
#pragma omp parallel for
    for (int64_t first = 0; first < count; first += kRunLength) {
      if (has_lowest(to + first, std::min(kRunLength, count - first))) found.store(true, std::memory_order_relaxed);
    }
    if (!found.load(std::memory_order_relaxed)) return;
#pragma omp parallel for
    for (int64_t index = 0; index < volume(windows.out, 0, windows.out.size()); ++index) {
      const Dims position = position_of(index, windows.out);
      Bits& number = to[made.of(position)];
      if (number == Least<Bits>::kLowest && is_infinite(from, position)) number = Least<Bits>::kInfinite;
    }
  }

 private:
  // Whether the numbers of a window are -inf or NaN, and not all NaN.
  bool is_infinite(const Bits* from, const Dims& result) const {
    constexpr Bits kMagnitude = static_cast<Bits>(~Bits{0}) >> 1;
    bool has_other = false, has_infinite = false;
    windows.for_each(result, [&](const Dims& at) {
      const Bits number = from[given.of(at)];
      const bool is_nan = (number & kMagnitude) > (Least<Bits>::kInfinite & kMagnitude);
      has_infinite = has_infinite || number == Least<Bits>::kInfinite;
      has_other = has_other || (number != Least<Bits>::kInfinite && !is_nan);
    });
    return has_infinite && !has_other;
  }
};

inline void restore_infinity(Builder& builder, const NodeRow& node, const Desc& from, const Windows& windows) {
  const Value& result = builder.value(node.output);
  const std::vector<Argument> arguments = {{DNNL_ARG_SRC, from, builder.fetch(node.inputs[0], from)},
                                           {DNNL_ARG_DST, result.desc, result.place}};
  const auto count = static_cast<int64_t>(result.desc.get_size() / element_bytes(result.desc));
  const Places given(from), made(result.desc);
  const std::string label = "windows of -inf " + layout_name(result.desc);
  if (result.desc.get_data_type() == kFloat) {
    builder.add_kernel(InfinityRestored<uint32_t>{windows, given, made, count}, arguments, label);
  } else if (result.desc.get_data_type() == kRounded) {
    builder.add_kernel(InfinityRestored<uint16_t>{windows, given, made, count}, arguments, label);
  }
}

inline bool is_bounding(dnnl_alg_kind_t algorithm, float alpha) {
  return (algorithm == dnnl_eltwise_relu && alpha == 0.0f) || (algorithm == dnnl_eltwise_clip && alpha > -INFINITY);
}

// For each tensor, whether a relu or a clip keeps its numbers from -inf; poolings of most networks read such tensors.
inline std::vector<bool> has_lower_bound(const GraphTable& graph) {
  std::vector<bool> found(graph.tensors.size, false);
  for (const NodeRow& node : graph.nodes) {
    switch (node.kind) {
      case Kind::concat: case Kind::reshape: case Kind::permute: case Kind::slice: case Kind::expand: case Kind::pooling:
        found[node.output] = std::all_of(node.inputs.begin(), node.inputs.end(), [&](int each) { return found[each]; });
        break;
      case Kind::eltwise:
        found[node.output] = is_bounding(parameters_of<CurveRow>(node).algorithm, parameters_of<CurveRow>(node).alpha);
        break;
      default:
        break;
    }
    if (node.post_ops.size == 0) continue;
    const PostOpRow& last = node.post_ops[node.post_ops.size - 1];
    found[node.output] = is_bounding(last.algorithm, last.alpha);
  }
  return found;
}

// Whether oneDNN's code is for all windows, and slow.
template <typename PrimitiveDesc>
bool is_simple(const PrimitiveDesc& pd) {
  return is_reference(pd) || std::strstr(pd.impl_info_str(), "simple") != nullptr;
}

inline void pooling(Builder& builder, const NodeRow& node) {
  const int src = node.inputs[0];
  const auto& given = parameters_of<PoolingRow>(node);
  const Dims &in = builder.dims(src), &out = builder.dims(node.output);
  const Dims strides = dims_of(given.strides), dilation = dims_of(given.dilation), before = dims_of(given.before);
  Dims window = dims_of(given.size), after = dims_of(given.after);
  for (size_t axis = 0; axis < window.size(); ++axis) {
    if (window[axis] == 0) window[axis] = in[axis + 2];
    // With ceil_mode the last window may extend beyond the stated padding.
    const int64_t reach = (out[axis + 2] - 1) * strides[axis] + (window[axis] - 1) * (dilation[axis] + 1) + 1;
    after[axis] = std::max(after[axis], reach - in[axis + 2] - before[axis]);
  }
  const auto create = [&](const Desc& from) {
    return dnnl::pooling_forward::primitive_desc(cpu(), kInference, algorithm_of(given.algorithm), from,
                                                 builder.any(node.output), strides, window, dilation, before, after,
                                                 Builder::attributes(), /*allow_empty=*/true);
  };
  Desc from = builder.dense(src);
  auto pd = create(from);
  // For lines, bytes and some windows oneDNN has vector code for channels last alone.
  for (const Desc& other : {channels_last(in, from.get_data_type()), builder.plain(src)}) {
    if (pd && !is_simple(pd)) break;
    auto another = create(other);
    if (!another || (pd && is_simple(another))) continue;
    from = other;
    pd = another;
  }
  if (!pd) throw std::runtime_error("oneDNN has no pooling with these parameters");
  constexpr int64_t kFewChannels = 8;  // oneDNN's vectors are of channels
  if (given.algorithm == dnnl_pooling_max && from.get_data_type() == kFloat && builder.type(node.output) == kFloat &&
      (is_reference(pd) || in[1] < kFewChannels)) {
    return largest_of_windows(builder, node, window);
  }
  builder.add_unary_step(node, pd, from);
  if (given.algorithm == dnnl_pooling_max && !has_lower_bound(builder.graph())[src]) {
    restore_infinity(builder, node, from, Windows{in, out, strides, window, dilation, before});
  }
}

}  // namespace annotated_region_dnnl
