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

// The place of an element, in a number as wide as the element where that holds all places: g++ vectorizes it then.
template <typename T>
using PlaceOf = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;

namespace {

// The first element in sorted order of each of `width` columns, and its row.
template <typename T>
inline __attribute__((always_inline)) void find_in_columns(const T* from, int64_t rows, int64_t stride, int64_t width,
                                                           bool descending, T* best, PlaceOf<T>* places) {
  for (int64_t i = 0; i < width; ++i) {
    best[i] = from[i];
    places[i] = 0;
  }
  for (int64_t row = 1; row < rows; ++row) {
    const T* const line = from + row * stride;
    const auto here = static_cast<PlaceOf<T>>(row);
    if (descending) {
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) {
        const bool precedes = !(line[i] <= best[i]) & (best[i] == best[i]);  // NaN precedes all but NaN
        places[i] = precedes ? here : places[i];
        best[i] = precedes ? line[i] : best[i];
      }
    } else {
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) {
        const bool precedes = !(line[i] >= best[i]) & (line[i] == line[i]);
        places[i] = precedes ? here : places[i];
        best[i] = precedes ? line[i] : best[i];
      }
    }
  }
}

template <typename T>
void find_firsts(const T* from, int64_t rows, int64_t stride, int64_t width, bool descending, T* best,
                 PlaceOf<T>* places) {
  find_in_columns(from, rows, stride, width, descending, best, places);
}
ANNOTATED_REGION_CLONES void find_firsts(const float* from, int64_t rows, int64_t stride, int64_t width, bool descending,
                                         float* best, int32_t* places) {
  find_in_columns(from, rows, stride, width, descending, best, places);
}

}  // namespace

// A number that is sorted like an element, with its place in the low half: NaN as the largest, -0 as 0.
template <typename T>
uint64_t sortable(T element, int64_t place, bool descending) {
  constexpr uint32_t kSign = 0x80000000;
  uint32_t key;
  if constexpr (std::is_floating_point_v<T>) {
    const uint32_t bits = bits_as<uint32_t>(element + 0.0f);
    key = element != element ? ~uint32_t{0} : ((bits & kSign) != 0 ? ~bits : bits | kSign);
  } else {
    key = static_cast<uint32_t>(static_cast<int64_t>(element)) ^ kSign;
  }
  return static_cast<uint64_t>(descending ? ~key : key) << 32 | static_cast<uint32_t>(place);
}

// One run of elements along the axis, and the number of indices requested.
struct OrderedRun {
  int64_t extent, step, count;
  bool descending;

  template <typename T>
  void run(const T* from, int64_t* to) const {
    if constexpr (sizeof(T) <= sizeof(uint32_t)) {
      if (extent <= UINT32_MAX) return run_by_keys(from, to);
    }
    std::vector<int64_t> places(extent);
    std::iota(places.begin(), places.end(), int64_t{0});
    const auto before = [&](int64_t left, int64_t right) {
      const T one = from[left * step], other = from[right * step];
      if (precedes(one, other, descending)) return true;
      return left < right && !precedes(other, one, descending);
    };
    select(places, before);
    for (int64_t item = 0; item < count; ++item) to[item * step] = places[item];
  }

  // The first element of each of `width` neighbouring runs, at most kColumns.
  template <typename T>
  void run_firsts(const T* from, int64_t* to, int64_t width) const {
    std::array<T, kColumns> best;
    std::array<PlaceOf<T>, kColumns> places;
    find_firsts(from, extent, step, width, descending, best.data(), places.data());
    std::copy_n(places.begin(), width, to);
  }

  // The first element of a run whose elements follow each other: of the first ones of columns, and of what is left.
  template <typename T>
  int64_t first(const T* from) const {
    constexpr int64_t kWidth = 16;
    const int64_t rows = extent / kWidth;
    int64_t best = 0;
    if (rows > 1) {
      std::array<T, kWidth> found;
      std::array<PlaceOf<T>, kWidth> places;
      find_firsts(from, rows, kWidth, kWidth, descending, found.data(), places.data());
      best = places[0] * kWidth;
      for (int64_t column = 1; column < kWidth; ++column) {
        const int64_t place = places[column] * kWidth + column;
        const bool is_equal = !precedes(from[best], from[place], descending);
        if (is_equal && (place < best || precedes(from[place], from[best], descending))) best = place;
      }
    }
    for (int64_t item = rows > 1 ? rows * kWidth : 1; item < extent; ++item) {
      if (precedes(from[item], from[best], descending)) best = item;
    }
    return best;
  }

 private:
  template <typename T>
  void run_by_keys(const T* from, int64_t* to) const {
    std::vector<uint64_t> keys(extent);
    for (int64_t item = 0; item < extent; ++item) keys[item] = sortable(from[item * step], item, descending);
    select(keys, std::less<uint64_t>());
    for (int64_t item = 0; item < count; ++item) to[item * step] = static_cast<uint32_t>(keys[item]);
  }

  // Brings the first `count` of some items to the front. A heap is faster where there are few of them.
  template <typename Item, typename Before>
  void select(std::vector<Item>& items, Before before) const {
    const auto end = items.begin() + count;
    if (count * 8 < extent) return std::partial_sort(items.begin(), end, items.end(), before);
    if (count < extent) std::nth_element(items.begin(), end, items.end(), before);
    std::sort(items.begin(), end, before);
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
    // Of many runs beside each other whose first elements alone are asked for, a part is done at once.
    const bool has_one = ordered.count == 1 && ordered.extent <= std::numeric_limits<PlaceOf<T>>::max();
    const int64_t width = has_one ? std::min(inner, kColumns) : 1, blocks = (inner + width - 1) / width;
    const auto kernel = [=](const std::vector<char*>& pointers) {
      Failure failure;
#pragma omp parallel for
      for (int64_t item = 0; item < outer * blocks; ++item) {
        const int64_t group = item / blocks * inner, place = item % blocks * width;
        const T* const from = reinterpret_cast<const T*>(pointers[0]) + group * ordered.extent + place;
        int64_t* const to = reinterpret_cast<int64_t*>(pointers[1]) + group * ordered.count + place;
        if (!has_one) {
          failure.guard([&] { ordered.run(from, to); });
        } else if (inner == 1) {
          *to = ordered.first(from);
        } else {
          ordered.run_firsts(from, to, std::min(width, inner - place));
        }
      }
      failure.raise();
    };
    add_plain_kernel(builder, node, kernel, "order");
  });
}

}  // namespace annotated_region_dnnl
