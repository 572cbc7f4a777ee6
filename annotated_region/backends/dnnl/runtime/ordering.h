// The indices of the first elements along an axis in sorted order.

namespace annotated_region_dnnl {

// Whether one element sorts before another one. NaN counts as the largest value.
template <typename T>
bool precedes(T left, T right, bool descending) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(left) && std::isnan(right)) return false;
    if (std::isnan(left) || std::isnan(right)) return std::isnan(left) == descending;
  }
  return descending ? left > right : left < right;
}

// One run of elements along the axis, and the number of indices requested.
struct OrderedRun {
  int64_t extent, step, count;
  bool descending;

  template <typename T>
  int64_t first(const T* from) const {
    int64_t best = 0;
    for (int64_t item = 1; item < extent; ++item) {
      if (precedes(from[item * step], from[best * step], descending)) best = item;
    }
    return best;
  }

  template <typename T>
  void run(const T* from, int64_t* to) const {
    if (count == 1) {
      *to = first(from);
      return;
    }
    std::vector<int64_t> places(extent);
    std::iota(places.begin(), places.end(), int64_t{0});
    const auto before = [&](int64_t left, int64_t right) {
      const T one = from[left * step], other = from[right * step];
      if (precedes(one, other, descending)) return true;
      return left < right && !precedes(other, one, descending);
    };
    std::partial_sort(places.begin(), places.begin() + count, places.end(), before);
    for (int64_t item = 0; item < count; ++item) to[item * step] = places[item];
  }
};

// inputs: data. The result has the shape of the data except along the axis.
inline void ordering(Builder& builder, const NodeRow& node) {
  const auto& given = parameters_of<OrderingRow>(node);
  const auto axis = static_cast<size_t>(given.axis);
  const Dims &in = builder.dims(node.inputs[0]), &out = builder.dims(node.output);
  const int64_t outer = volume(in, 0, axis), inner = volume(in, axis + 1, in.size());
  const OrderedRun ordered{in[axis], inner, out[axis], given.descending};
  if (ordered.count > ordered.extent) {
    throw std::runtime_error("the first " + std::to_string(ordered.count) + " elements are asked for where there are " +
                             std::to_string(ordered.extent));
  }
  with_numbers(builder.stated(node.inputs[0]).get_data_type(), [&](auto zero) {
    using T = decltype(zero);
    const auto kernel = [=](const std::vector<char*>& pointers) {
      Failure failure;
#pragma omp parallel for
      for (int64_t run = 0; run < outer * inner; ++run) {
        const int64_t group = run / inner * inner, place = run % inner;
        const T* const from = reinterpret_cast<const T*>(pointers[0]) + group * ordered.extent + place;
        int64_t* const to = reinterpret_cast<int64_t*>(pointers[1]) + group * ordered.count + place;
        failure.guard([&] { ordered.run(from, to); });
      }
      failure.raise();
    };
    add_plain_kernel(builder, node, kernel, "order");
  });
}

}  // namespace annotated_region_dnnl
