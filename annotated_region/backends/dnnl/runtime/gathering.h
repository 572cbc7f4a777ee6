// Gathers elements at indices given by other tensors, and elements beyond the edges of a tensor.

namespace annotated_region_dnnl {

inline int64_t floor_mod(int64_t number, int64_t extent) {
  const int64_t rest = number % extent;
  return rest < 0 ? rest + extent : rest;
}

// Records one of the out-of-range indices that the threads find.
class RangeError {
 public:
  void note(int64_t index, int64_t extent) {
    index_.store(index, std::memory_order_relaxed);
    extent_.store(extent, std::memory_order_relaxed);
  }
  void raise(const char* op) const {
    const int64_t extent = extent_.load(std::memory_order_relaxed);
    if (extent == 0) return;
    throw std::runtime_error(std::string(op) + ": index " + std::to_string(index_.load(std::memory_order_relaxed)) +
                             " is out of range for an axis of " + std::to_string(extent));
  }

 private:
  std::atomic<int64_t> index_{0}, extent_{0};
};

constexpr int64_t kNowhere = -1;

// The position along an axis that an index refers to, or `kNowhere`.
inline int64_t place_of(int64_t index, int64_t extent, Bounds bounds) {
  if (index >= 0 && index < extent) return index;
  if (bounds == Bounds::clipped) return index < 0 ? 0 : extent - 1;
  return bounds == Bounds::wrapped ? floor_mod(index, extent) : kNowhere;
}

// An operand whose elements are moved, in its stored type, so that a 16-bit table is not widened as a whole.
inline Value moved(Builder& builder, int tensor) {
  const Value& value = builder.value(tensor);
  const Desc dense = builder.plain(tensor);
  if (value.is_half() && same_bytes(value.desc, dense)) return value;
  return {dense, builder.fetch(tensor, dense)};
}

// Adds a kernel that moves elements of the first operand; 16-bit elements are widened afterwards.
inline void add_moving_kernel(Builder& builder, const NodeRow& node, const Value& data, Kernel kernel,
                              const std::string& label) {
  const Desc from = data.bytes(), to = plain(builder.dims(node.output), from.get_data_type());
  std::vector<Argument> arguments{{DNNL_ARG_SRC, from, data.place}};
  for (int index = 1; index < node.inputs.size; ++index) {
    const Desc desc = builder.stated(node.inputs[index]);
    arguments.push_back({DNNL_ARG_MULTIPLE_SRC + index, desc, builder.fetch(node.inputs[index], desc)});
  }
  const Place place = builder.fresh(to);
  arguments.push_back({DNNL_ARG_DST, to, place});
  builder.add_kernel(std::move(kernel), std::move(arguments), label + " " + layout_name(to));
  if (!data.is_half()) return builder.define(node.output, to, place);
  const Desc wide = retyped(to, data.desc.get_data_type());
  builder.define(node.output, wide, builder.reorder({wide, place, data.stored}, wide, builder.fresh(wide)));
}

// Copies a run of elements, usually a row of a table or a single element.
inline void copy_run(char* to, const char* from, size_t bytes) {
  if (bytes == sizeof(uint32_t)) {
    std::memcpy(to, from, sizeof(uint32_t));
  } else if (bytes == sizeof(uint64_t)) {
    std::memcpy(to, from, sizeof(uint64_t));
  } else {
    std::memcpy(to, from, bytes);
  }
}

// The axes of the data are split into outer axes, indexed axes, and inner axes, which are copied as a run.
struct Gathering {
  Dims extents;                  // of the axes with indices
  int64_t outer, places, inner;  // places: of the result, for each element of the outer axes
  bool batched;
  Bounds bounds;
  size_t bytes;  // of an element

  // The run of the data for position `place` of element `batch` of the outer axes.
  int64_t run_at(const std::vector<char*>& pointers, int64_t batch, int64_t place, RangeError& error) const {
    int64_t run = batch;
    for (size_t axis = 0; axis < extents.size(); ++axis) {
      const auto* indices = reinterpret_cast<const int64_t*>(pointers[axis + 1]);
      const int64_t index = indices[batched ? batch * places + place : place];
      const int64_t found = place_of(index, extents[axis], bounds);
      if (found == kNowhere) {
        if (bounds == Bounds::checked) error.note(index, extents[axis]);
        return kNowhere;
      }
      run = run * extents[axis] + found;
    }
    return run;
  }

  void run(const std::vector<char*>& pointers) const {
    RangeError error;
    const size_t size = static_cast<size_t>(inner) * bytes;
#pragma omp parallel for
    for (int64_t item = 0; item < outer * places; ++item) {
      char* const to = pointers.back() + item * size;
      const int64_t from = run_at(pointers, item / places, item % places, error);
      if (from != kNowhere) {
        copy_run(to, pointers[0] + from * size, size);
      } else if (bounds == Bounds::undefined) {
        std::memset(to, 0xff, size);  // NaN, in whatever type of floats
      }
    }
    error.raise("take");
  }
};

// inputs: data, and an index tensor for each of several consecutive axes.
inline void gather(Builder& builder, const NodeRow& node) {
  const auto& given = parameters_of<GatherRow>(node);
  const Dims &data = builder.dims(node.inputs[0]), &indices = builder.dims(node.inputs[1]);
  const auto first = static_cast<size_t>(given.axis), last = first + node.inputs.size - 1;
  const Value from = moved(builder, node.inputs[0]);
  Gathering gathering;
  gathering.extents = Dims(data.begin() + first, data.begin() + last);
  gathering.outer = volume(data, 0, first);
  gathering.places = volume(indices, 0, indices.size()) / (given.batched ? gathering.outer : 1);
  gathering.inner = volume(data, last, data.size());
  gathering.batched = given.batched;
  gathering.bounds = given.bounds;
  gathering.bytes = element_bytes(from.bytes());
  const auto kernel = [gathering](const std::vector<char*>& pointers) { gathering.run(pointers); };
  add_moving_kernel(builder, node, from, kernel, "gather");
}

// inputs: data, and an index for each element of the result.
inline void gather_elements(Builder& builder, const NodeRow& node) {
  const auto axis = static_cast<size_t>(parameters_of<ElementRow>(node).axis);
  const Dims out = builder.dims(node.output), in = builder.dims(node.inputs[0]);
  for (size_t each = 0; each < out.size(); ++each) {  // known here alone where extents are symbols
    if (each == axis || out[each] <= in[each]) continue;
    throw std::runtime_error("gather_elements: there are " + std::to_string(out[each]) + " indices for " +
                             std::to_string(in[each]) + " elements along axis " + std::to_string(each));
  }
  const int64_t extent = builder.dims(node.inputs[0])[axis];
  Dims strides = dense_strides(builder.dims(node.inputs[0]));
  const int64_t along = std::exchange(strides[axis], 0);
  const Value data = moved(builder, node.inputs[0]);
  const auto bytes = static_cast<int64_t>(element_bytes(data.bytes()));
  const auto kernel = [=](const std::vector<char*>& pointers) {
    RangeError error;
    for_rows(out, [&](int64_t row) {
      const char* const from = pointers[0] + row_offset(out, strides, row) * bytes;
      const int64_t first = row * out.back();
      const auto* indices = reinterpret_cast<const int64_t*>(pointers[1]) + first;
      for (int64_t item = 0; item < out.back(); ++item) {
        if (place_of(indices[item], extent, Bounds::checked) == kNowhere) {
          error.note(indices[item], extent);
        } else {
          const int64_t place = indices[item] * along + item * strides.back();
          copy_run(pointers[2] + (first + item) * bytes, from + place * bytes, static_cast<size_t>(bytes));
        }
      }
    });
    error.raise("gather_elements");
  };
  add_moving_kernel(builder, node, data, kernel, "gather_elements");
}

// The element of an axis that provides a position, which may be beyond its edges.
inline int64_t inner_place(int64_t place, int64_t extent, Border border) {
  if (border == Border::circular) return floor_mod(place, extent);
  if (border == Border::replicate) return std::clamp<int64_t>(place, 0, extent - 1);
  const int64_t last = extent - 1;
  return last - std::abs(last - std::abs(place));
}

// For each position along an axis of the result, the index of the operand's element.
inline std::vector<int64_t> inner_places(int64_t extent, int64_t before, int64_t whole, Border border) {
  const int64_t widest = std::max(before, whole - extent - before);
  if (border == Border::reflect && widest >= extent) {
    throw std::runtime_error("an axis of " + std::to_string(extent) + " cannot be padded with " +
                             std::to_string(widest) + " of its reflected elements");
  }
  std::vector<int64_t> places;
  for (int64_t place = 0; place < whole; ++place) places.push_back(inner_place(place - before, extent, border));
  return places;
}

inline void border_pad(Builder& builder, const NodeRow& node) {
  const auto& given = parameters_of<BorderPaddingRow>(node);
  const Dims in = builder.dims(node.inputs[0]), out = builder.dims(node.output);
  const Dims strides = dense_strides(in);
  std::vector<std::vector<int64_t>> places;
  for (size_t axis = 0; axis < out.size(); ++axis) {
    places.push_back(inner_places(in[axis], given.before[static_cast<int>(axis)], out[axis], given.border));
  }
  const Value data = moved(builder, node.inputs[0]);
  with_bits(element_bytes(data.bytes()), [&](auto unit) {
    using T = decltype(unit);
    const auto kernel = [=](const std::vector<char*>& pointers) {
      for_rows(out, [&](int64_t row) {
        const T* from = reinterpret_cast<const T*>(pointers[0]);
        int64_t rest = row;
        for (size_t axis = out.size() - 1; axis-- > 0; rest /= out[axis]) {
          from += places[axis][rest % out[axis]] * strides[axis];
        }
        T* const to = reinterpret_cast<T*>(pointers[1]) + row * out.back();
        for (int64_t item = 0; item < out.back(); ++item) to[item] = from[places.back()[item]];
      });
    };
    add_moving_kernel(builder, node, data, kernel, "border_pad");
  });
}

}  // namespace annotated_region_dnnl
