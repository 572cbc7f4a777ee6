// What the toy backend's code computes with: float tensors whose shapes are known when it runs.
//
// Arguments are read through TVM's C interface: its C++ headers take most of the time that a region compiles.
#include <tvm/ffi/c_api.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace toy {

using Extents = std::vector<int64_t>;

struct Tensor {
  Extents shape;
  std::vector<float> data;
};
using Tuple = std::vector<Tensor>;

inline int64_t count(const Extents& shape) {
  int64_t product = 1;
  for (int64_t extent : shape) product *= extent;
  return product;
}

// The tensor that is an argument; null if it is something else.
inline const DLTensor* tensor_of(const TVMFFIAny& argument) {
  if (argument.type_index == kTVMFFIDLTensorPtr) return static_cast<const DLTensor*>(argument.v_ptr);
  return argument.type_index == kTVMFFITensor ? TVMFFITensorGetDLTensorPtr(argument.v_obj) : nullptr;
}

inline float* first_of(const DLTensor* view) {
  return reinterpret_cast<float*>(static_cast<char*>(view->data) + view->byte_offset);
}

inline Tensor read(const TVMFFIAny& argument) {
  const DLTensor* view = tensor_of(argument);
  Extents shape(view->shape, view->shape + view->ndim);
  return {shape, std::vector<float>(first_of(view), first_of(view) + count(shape))};
}

inline void write(const TVMFFIAny& argument, const Tensor& tensor) {
  std::copy(tensor.data.begin(), tensor.data.end(), first_of(tensor_of(argument)));
}

// Whether a region is called as it was compiled: t for a tensor, s for a shape. Otherwise an error is raised.
inline bool fits(const char* kinds, const TVMFFIAny* arguments, int32_t given) {
  int32_t index = 0;
  for (; kinds[index] != '\0' && index < given; ++index) {
    const bool is_shape = arguments[index].type_index == kTVMFFIShape;
    if (kinds[index] == 's' ? !is_shape : tensor_of(arguments[index]) == nullptr) break;
  }
  if (kinds[index] == '\0' && index == given) return true;
  TVMFFIErrorSetRaisedFromCStr("TypeError", "a region of the toy backend is called with other arguments");
  return false;
}

template <class F>
Tensor each(Tensor tensor, F f) {
  for (float& value : tensor.data) value = f(value);
  return tensor;
}

inline int64_t offset(const Extents& shape, const Extents& index) {
  int64_t at = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const size_t skipped = index.size() - shape.size();
    at = at * shape[axis] + (shape[axis] == 1 ? 0 : index[skipped + axis]);
  }
  return at;
}

template <class F>
Tensor both(const Tensor& left, const Tensor& right, F f) {
  Extents shape(std::max(left.shape.size(), right.shape.size()), 1);
  for (const Tensor* tensor : {&left, &right}) {
    for (size_t axis = 1; axis <= tensor->shape.size(); ++axis) {
      int64_t& extent = shape[shape.size() - axis];
      extent = std::max(extent, tensor->shape[tensor->shape.size() - axis]);
    }
  }
  Tensor result{shape, std::vector<float>(count(shape))};
  Extents index(shape.size(), 0);
  for (float& value : result.data) {
    value = f(left.data[offset(left.shape, index)], right.data[offset(right.shape, index)]);
    for (size_t axis = shape.size(); axis-- > 0 && ++index[axis] == shape[axis];) index[axis] = 0;
  }
  return result;
}

inline int64_t chunk(const Extents& shape, size_t axis) {
  return count(Extents(shape.begin() + axis, shape.end()));
}

inline Tensor concat(const Tuple& parts, size_t axis) {
  Tensor result{parts[0].shape, {}};
  result.shape[axis] = 0;
  for (const Tensor& part : parts) result.shape[axis] += part.shape[axis];
  const int64_t rows = count(Extents(result.shape.begin(), result.shape.begin() + axis));
  for (int64_t row = 0; row < rows; ++row) {
    for (const Tensor& part : parts) {
      const auto first = part.data.begin() + row * chunk(part.shape, axis);
      result.data.insert(result.data.end(), first, first + chunk(part.shape, axis));
    }
  }
  return result;
}

inline Tuple split(const Tensor& tensor, size_t sections, size_t axis) {
  Tuple parts(sections, Tensor{tensor.shape, {}});
  const int64_t whole = chunk(tensor.shape, axis), part = whole / sections;
  for (int64_t at = 0; at < static_cast<int64_t>(tensor.data.size()); at += part) {
    Tensor& target = parts[at % whole / part];
    target.data.insert(target.data.end(), tensor.data.begin() + at, tensor.data.begin() + at + part);
  }
  for (Tensor& each_part : parts) each_part.shape[axis] /= sections;
  return parts;
}

inline Tensor matmul(const Tensor& left, const Tensor& right) {
  const int64_t rows = left.shape[0], inner = left.shape[1], columns = right.shape[1];
  Tensor result{{rows, columns}, std::vector<float>(rows * columns, 0.0f)};
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < inner; ++k)
      for (int64_t j = 0; j < columns; ++j)
        result.data[i * columns + j] += left.data[i * inner + k] * right.data[k * columns + j];
  return result;
}

}  // namespace toy
