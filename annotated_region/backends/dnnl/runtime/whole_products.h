// Wrapping integer matrix products. Products of bytes use oneDNN where the processor supports it.

namespace annotated_region_dnnl {
namespace {

// Accumulates a row times a block of rows, with unsigned integers, so that overflow wraps around.
template <typename T>
inline __attribute__((always_inline)) void add_whole_products(const T* left, const T* right, T* to, int64_t depth,
                                                              int64_t columns, int64_t stride) {
  for (int64_t k = 0; k < depth; ++k) {
    const T factor = left[k];
    const T* const row = right + k * stride;
#pragma omp simd
    for (int64_t column = 0; column < columns; ++column) to[column] += factor * row[column];
  }
}

ANNOTATED_REGION_CLONES void add_products(const uint32_t* left, const uint32_t* right, uint32_t* to, int64_t depth,
                                          int64_t columns, int64_t stride) {
  add_whole_products(left, right, to, depth, columns, stride);
}

ANNOTATED_REGION_CLONES void add_products(const uint64_t* left, const uint64_t* right, uint64_t* to, int64_t depth,
                                          int64_t columns, int64_t stride) {
  add_whole_products(left, right, to, depth, columns, stride);
}

}  // namespace

constexpr int64_t kWholeColumns = 256;  // of the result, whose sums stay in the first cache

// inputs: two stacks of matrices, broadcast to the stack of the result.
inline void whole_matmul(Builder& builder, const NodeRow& node) {
  const Dims &left = builder.dims(node.inputs[0]), &right = builder.dims(node.inputs[1]), out = builder.dims(node.output);
  const size_t rank = out.size();
  const int64_t depth = left[rank - 1], rows = out[rank - 2], columns = out[rank - 1];
  const int64_t blocks = (columns + kWholeColumns - 1) / kWholeColumns;
  const int64_t items = volume(out, 0, rank - 1) * blocks;
  const Dims stacks(out.begin(), out.end() - 1);  // `row_offset` leaves the last axis out
  const Dims left_steps = repeating_strides(left), right_steps = repeating_strides(right);
  const auto multiply = [=](auto bits, const std::vector<char*>& pointers) {
    using T = decltype(bits);
#pragma omp parallel for
    for (int64_t item = 0; item < items; ++item) {
      const int64_t line = item / blocks, first = item % blocks * kWholeColumns;
      const int64_t stack = line / rows, width = std::min(kWholeColumns, columns - first);
      const T* const from = reinterpret_cast<const T*>(pointers[0]) + row_offset(stacks, left_steps, stack) +
                            line % rows * depth;
      const T* const weights = reinterpret_cast<const T*>(pointers[1]) + row_offset(stacks, right_steps, stack) + first;
      T* const to = reinterpret_cast<T*>(pointers[2]) + line * columns + first;
      std::fill_n(to, width, T{0});
      add_products(from, weights, to, depth, width, columns);
    }
  };
  const bool is_short = builder.stated(node.output).get_data_type() == DataType::s32;
  const Kernel kernel = [multiply, is_short](const std::vector<char*>& pointers) {
    is_short ? multiply(uint32_t{}, pointers) : multiply(uint64_t{}, pointers);
  };
  add_plain_kernel(builder, node, kernel, "whole matmul");
}

}  // namespace annotated_region_dnnl
