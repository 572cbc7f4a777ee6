// Loops over rows of tensors, dispatch on element types, and copies of integer tensors.

namespace annotated_region_dnnl {

// Calls `action` with an integer of the element size, for kernels that only move elements.
template <typename Action>
void with_bits(size_t bytes, Action action) {
  switch (bytes) {
    case 1: return action(uint8_t{});
    case 2: return action(uint16_t{});
    case 4: return action(uint32_t{});
    case 8: return action(uint64_t{});
    default: throw std::runtime_error("elements of a size that nothing here moves");
  }
}

// Calls `action` with a zero of the type to compute with.
template <typename Action>
void with_numbers(DataType type, Action action) {
  switch (type) {
    case kFloat: return action(float{});
    case DataType::s32: return action(int32_t{});
    case kLong: return action(int64_t{});
    default: throw std::runtime_error("elements of a type that nothing here computes with");
  }
}

// The same, also for truth values and bytes, which are only moved.
template <typename Action>
void with_elements(DataType type, Action action) {
  switch (type) {
    case DataType::u8: return action(uint8_t{});
    case DataType::s8: return action(int8_t{});
    default: return with_numbers(type, action);
  }
}

// The strides of a plain tensor broadcast along its axes of extent one.
inline Dims repeating_strides(const Dims& in) {
  Dims strides = dense_strides(in);
  for (size_t axis = 0; axis < in.size(); ++axis) {
    if (in[axis] == 1) strides[axis] = 0;
  }
  return strides;
}

// The offset of row `row` of a tensor of shape `dims` in an operand with these strides.
inline int64_t row_offset(const Dims& dims, const Dims& strides, int64_t row) {
  int64_t offset = 0;
  for (int axis = static_cast<int>(dims.size()) - 2; axis >= 0; --axis) {
    offset += row % dims[axis] * strides[axis];
    row /= dims[axis];
  }
  return offset;
}

// Runs `action` for each row of a tensor, in parallel.
template <typename Action>
void for_rows(const Dims& dims, Action action) {
  const int64_t rows = volume(dims, 0, dims.size() - 1);
#pragma omp parallel for
  for (int64_t row = 0; row < rows; ++row) action(row);
}

// Copies elements from one strided layout to another. oneDNN's reorders do not support 64-bit integers, and some
// convert 32-bit integers through float32, which has only 24 significant bits.
inline Kernel copying_kernel(const Desc& from, const Desc& to) {
  const Dims dims = to.get_dims(), read = from.get_strides(), written = to.get_strides();
  Kernel kernel;
  with_bits(element_bytes(to), [&](auto unit) {
    using T = decltype(unit);
    kernel = [dims, read, written](const std::vector<char*>& pointers) {
      for_rows(dims, [&](int64_t row) {
        const T* const source = reinterpret_cast<const T*>(pointers[0]) + row_offset(dims, read, row);
        T* const target = reinterpret_cast<T*>(pointers[1]) + row_offset(dims, written, row);
        for (int64_t item = 0; item < dims.back(); ++item) target[item * written.back()] = source[item * read.back()];
      });
    };
  });
  return kernel;
}

}  // namespace annotated_region_dnnl
