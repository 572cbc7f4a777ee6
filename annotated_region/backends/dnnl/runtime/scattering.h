// Combines updates with the elements of a tensor at indices given by other tensors.

namespace annotated_region_dnnl {

// The position along an axis that an index refers to, from the end if it is negative, or `kNowhere`.
inline int64_t place_from_end(int64_t index, int64_t extent) {
  return place_of(index < 0 ? index + extent : index, extent, Bounds::checked);
}

// The slice that an update goes to, or `kNowhere`.
inline int64_t slice_at(const std::vector<char*>& pointers, const Dims& extents, int64_t update, RangeError& error) {
  int64_t slice = 0;
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    const int64_t index = reinterpret_cast<const int64_t*>(pointers[axis + 2])[update];
    const int64_t place = place_from_end(index, extents[axis]);
    if (place == kNowhere) {
      error.note(index, extents[axis]);
      return kNowhere;
    }
    slice = slice * extents[axis] + place;
  }
  return slice;
}

// inputs: data, updates, and an index tensor for each of the first axes. Updates of one slice are combined in their
// order, by one thread, so that a sum has the same bits in each run.
inline void scatter(Builder& builder, const NodeRow& node) {
  const Dims &data = builder.dims(node.inputs[0]), &places = builder.dims(node.inputs[2]);
  const auto count = static_cast<size_t>(node.inputs.size - 2);
  const Dims extents(data.begin(), data.begin() + count);
  const int64_t slices = volume(data, 0, count), size = volume(data, count, data.size());
  const int64_t updates = volume(places, 0, places.size());
  const Combination combination = parameters_of<ScatterRow>(node).combination;
  with_combination(builder.stated(node.output), combination, [&](auto zero, auto combine) {
    using T = decltype(zero);
    const auto kernel = [=](const std::vector<char*>& pointers) {
      T* const to = reinterpret_cast<T*>(pointers.back());
      const T* const from = reinterpret_cast<const T*>(pointers[1]);
      std::memcpy(to, pointers[0], static_cast<size_t>(slices * size) * sizeof(T));
      RangeError error;
      for (int64_t update = 0; update < updates; ++update) {
        const int64_t slice = slice_at(pointers, extents, update, error);
        if (slice == kNowhere) continue;
        for (int64_t item = 0; item < size; ++item) {
          T& element = to[slice * size + item];
          element = combine(element, from[update * size + item]);
        }
      }
      error.raise("scatter");
    };
    add_plain_kernel(builder, node, kernel, "scatter");
  });
}

// inputs: data, updates, and an index along an axis for each update. The indices may have fewer elements than the data
// along any axis. Lines along the axis are independent of each other.
inline void scatter_elements(Builder& builder, const NodeRow& node) {
  const auto& given = parameters_of<ElementScatterRow>(node);
  const auto axis = static_cast<size_t>(given.axis);
  const Dims data = builder.dims(node.inputs[0]);
  Dims lines = builder.dims(node.inputs[2]);
  const Dims strides = dense_strides(data), steps = dense_strides(lines);
  const int64_t extent = data[axis], along = strides[axis], step = steps[axis];
  const int64_t size = std::exchange(lines[axis], 1), whole = volume(data, 0, data.size());
  lines.push_back(1);  // each line is a row of one
  const int64_t count = volume(lines, 0, lines.size());
  with_combination(builder.stated(node.output), given.combination, [&](auto zero, auto combine) {
    using T = decltype(zero);
    const auto kernel = [=](const std::vector<char*>& pointers) {
      std::memcpy(pointers[3], pointers[0], static_cast<size_t>(whole) * sizeof(T));
      RangeError error;
#pragma omp parallel for
      for (int64_t line = 0; line < count; ++line) {
        T* const to = reinterpret_cast<T*>(pointers[3]) + row_offset(lines, strides, line);
        const int64_t first = row_offset(lines, steps, line);
        for (int64_t item = 0; item < size; ++item) {
          const int64_t update = first + item * step;
          const int64_t index = reinterpret_cast<const int64_t*>(pointers[2])[update];
          const int64_t place = place_from_end(index, extent);
          if (place == kNowhere) {
            error.note(index, extent);
            continue;
          }
          T& element = to[place * along];
          element = combine(element, reinterpret_cast<const T*>(pointers[1])[update]);
        }
      }
      error.raise("scatter_elements");
    };
    add_plain_kernel(builder, node, kernel, "scatter_elements");
  });
}

}  // namespace annotated_region_dnnl
