// What the toy backend's code computes with: float tensors whose shapes are known when it runs.
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

namespace toy {

using Extents = std::vector<int64_t>;

struct Tensor {
  Extents shape;
  std::vector<float> data;
};
using Tuple = std::vector<Tensor>;

inline int64_t count(const Extents& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>());
}

inline Tensor read(tvm::ffi::TensorView view) {
  Extents shape(view.shape().begin(), view.shape().end());
  const float* first = static_cast<const float*>(view.data_ptr());
  return {shape, std::vector<float>(first, first + count(shape))};
}

inline void write(tvm::ffi::TensorView view, const Tensor& tensor) {
  std::copy(tensor.data.begin(), tensor.data.end(), static_cast<float*>(view.data_ptr()));
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
