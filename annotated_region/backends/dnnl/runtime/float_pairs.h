// Functions of two floats that oneDNN lacks, with TVM's formulas.

namespace annotated_region_dnnl {

inline float floored_quotient(float left, float right) { return std::floor(left / right); }

// The product is rounded before it is subtracted, as on the host: what is left of 3 and 0.3 is 0 then, and -1.2e-7 where
// both are one instruction, which g++ makes of them for processors that have it, unless the product is volatile.
inline float floored_remainder(float left, float right) {
  const volatile float whole = std::floor(left / right) * right;
  return left - whole;
}

// With the sign of the dividend; exact.
inline float truncated_remainder(float left, float right) { return std::fmod(left, right); }

inline float power(float base, float exponent) { return std::pow(base, exponent); }

template <float (*function)(float, float)>
void row_of_pairs(const Lines& lines, char* result, int64_t size) {
  float* const to = floats(result);
  const Line<float> left = lines.of<float>(0), right = lines.of<float>(1);
  for (int64_t item = 0; item < size; ++item) to[item] = function(left[item], right[item]);
}

inline FillRow row_of(PairFunction function) {
  switch (function) {
    case PairFunction::floored_quotient: return row_of_pairs<floored_quotient>;
    case PairFunction::floored_remainder: return row_of_pairs<floored_remainder>;
    case PairFunction::truncated_remainder: return row_of_pairs<truncated_remainder>;
    case PairFunction::power: return row_of_pairs<power>;
  }
  throw std::logic_error("no such function of two floats");
}

// inputs: two, broadcast to the shape of the result.
inline void float_pair(Builder& builder, const NodeRow& node) {
  add_repeating_kernel(builder, node, row_of(parameters_of<FloatPairRow>(node).function), "pairs");
}

}  // namespace annotated_region_dnnl
