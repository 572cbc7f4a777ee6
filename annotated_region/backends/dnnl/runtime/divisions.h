// Floored quotients and remainders of floats, with TVM's formulas.

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

template <float (*divide)(float, float)>
void divided_row(const Lines& lines, char* result, int64_t size) {
  float* const to = floats(result);
  const Line<float> left = lines.of<float>(0), right = lines.of<float>(1);
  for (int64_t item = 0; item < size; ++item) to[item] = divide(left[item], right[item]);
}

inline FillRow row_of(Division division) {
  switch (division) {
    case Division::floored_quotient: return divided_row<floored_quotient>;
    case Division::floored_remainder: return divided_row<floored_remainder>;
    case Division::truncated_remainder: return divided_row<truncated_remainder>;
  }
  throw std::logic_error("no such division");
}

// inputs: two, broadcast to the shape of the result.
inline void division(Builder& builder, const NodeRow& node) {
  add_repeating_kernel(builder, node, row_of(parameters_of<DividingRow>(node).division), "divide");
}

}  // namespace annotated_region_dnnl
