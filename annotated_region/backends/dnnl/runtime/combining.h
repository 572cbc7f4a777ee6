// The functions that combine numbers of any type, and reductions of integers by them.

namespace annotated_region_dnnl {

// Calls `action` with a zero of the type of the updates and the function that combines an element and an update. Where
// updates replace elements, only their size matters. The operands of a minimum or maximum are compared in TVM's order,
// so that NaN has the same effect.
template <typename Action>
void with_combination(const Desc& data, Combination combination, Action action) {
  if (combination == Combination::update) {
    return with_bits(element_bytes(data), [&](auto zero) { action(zero, [](auto, auto other) { return other; }); });
  }
  with_numbers(data.get_data_type(), [&](auto zero) {
    using T = decltype(zero);
    switch (combination) {
      case Combination::add: return action(zero, [](T old, T other) { return sum_of(old, other); });
      case Combination::mul: return action(zero, [](T old, T other) { return product_of(old, other); });
      case Combination::min: return action(zero, [](T old, T other) { return old < other ? old : other; });
      case Combination::max: return action(zero, [](T old, T other) { return old > other ? old : other; });
      default: return;
    }
  });
}

// inputs: data, of which the last axis is reduced to one element. Integers wrap around, so their order does not matter.
inline void whole_reduction(Builder& builder, const NodeRow& node) {
  const Dims& dims = builder.dims(node.inputs[0]);
  const int64_t rows = volume(dims, 0, dims.size() - 1), size = dims.back();
  const Combination combination = parameters_of<WholeReductionRow>(node).combination;
  with_combination(builder.stated(node.output), combination, [&](auto zero, auto combine) {
    using T = decltype(zero);
    const auto kernel = [=](const std::vector<char*>& pointers) {
#pragma omp parallel for
      for (int64_t row = 0; row < rows; ++row) {
        const T* const from = reinterpret_cast<const T*>(pointers[0]) + row * size;
        T result = from[0];
        for (int64_t item = 1; item < size; ++item) result = combine(result, from[item]);
        reinterpret_cast<T*>(pointers[1])[row] = result;
      }
    };
    add_plain_kernel(builder, node, kernel, "whole_reduction");
  });
}

}  // namespace annotated_region_dnnl
