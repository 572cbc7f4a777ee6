// Integers: wrapping arithmetic, comparisons, conversions, cumulative sums; and predicates such as isnan.

namespace annotated_region_dnnl {

// The quotient, rounded towards minus infinity or zero. The least number divided by -1 wraps around to itself.
template <typename T>
T divided(T left, T right, bool floor) {
  using Bits = std::make_unsigned_t<T>;
  if (right == -1) return static_cast<T>(Bits{0} - static_cast<Bits>(left));
  const T quotient = left / right;
  return floor && left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

// The remainder, with the sign of the divisor or of the dividend.
template <typename T>
T remainder_of(T left, T right, bool floor) {
  if (right == -1) return 0;
  const T rest = left % right;
  return floor && rest != 0 && (rest < 0) != (right < 0) ? rest + right : rest;
}

// Sums, differences and products are computed with unsigned integers, for which overflow is defined to wrap around.
template <typename T>
void whole_row(WholeFunction function, Line<T> left, Line<T> right, T* to, int64_t size) {
  using Bits = std::make_unsigned_t<T>;
  const auto each = [&](auto element) {
    for (int64_t item = 0; item < size; ++item) to[item] = element(left[item], right[item]);
  };
  const auto bits = [&](auto element) {
    each([&](T x, T y) { return static_cast<T>(element(static_cast<Bits>(x), static_cast<Bits>(y))); });
  };
  const auto negative = [](T x) { return static_cast<T>(Bits{0} - static_cast<Bits>(x)); };
  switch (function) {
    case WholeFunction::add: return bits([](Bits x, Bits y) { return x + y; });
    case WholeFunction::subtract: return bits([](Bits x, Bits y) { return x - y; });
    case WholeFunction::multiply: return bits([](Bits x, Bits y) { return x * y; });
    case WholeFunction::minimum: return each([](T x, T y) { return std::min(x, y); });
    case WholeFunction::maximum: return each([](T x, T y) { return std::max(x, y); });
    case WholeFunction::bitwise_and: return each([](T x, T y) { return x & y; });
    case WholeFunction::bitwise_or: return each([](T x, T y) { return x | y; });
    case WholeFunction::bitwise_xor: return each([](T x, T y) { return x ^ y; });
    case WholeFunction::floor_divide: return each([](T x, T y) { return divided(x, y, true); });
    case WholeFunction::floor_mod: return each([](T x, T y) { return remainder_of(x, y, true); });
    case WholeFunction::truncated_divide: return each([](T x, T y) { return divided(x, y, false); });
    case WholeFunction::truncated_mod: return each([](T x, T y) { return remainder_of(x, y, false); });
    case WholeFunction::bitwise_not: return each([](T x, T) { return ~x; });
    case WholeFunction::negative: return each([&](T x, T) { return negative(x); });
    case WholeFunction::absolute: return each([&](T x, T) { return x < 0 ? negative(x) : x; });
    case WholeFunction::sign: return each([](T x, T) { return static_cast<T>((x > 0) - (x < 0)); });
  }
}

// inputs: one or two, broadcast to the shape of the result; a single input is used as both operands.
inline void whole(Builder& builder, const NodeRow& node) {
  const WholeFunction function = parameters_of<WholeRow>(node).function;
  const int other = node.inputs.size - 1;
  with_numbers(builder.stated(node.output).get_data_type(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>) {
      const auto fill = [=](const Lines& lines, char* to, int64_t size) {
        whole_row(function, lines.of<T>(0), lines.of<T>(other), reinterpret_cast<T*>(to), size);
      };
      add_repeating_kernel(builder, node, fill, "whole");
    }
  });
}

template <typename T>
void compared_row(Comparison comparison, Line<T> left, Line<T> right, float* to, int64_t size) {
  const auto each = [&](auto is_so) {
    for (int64_t item = 0; item < size; ++item) to[item] = is_so(left[item], right[item]) ? 1.0f : 0.0f;
  };
  switch (comparison) {
    case Comparison::equal: return each(std::equal_to<T>());
    case Comparison::not_equal: return each(std::not_equal_to<T>());
    case Comparison::less: return each(std::less<T>());
    case Comparison::less_equal: return each(std::less_equal<T>());
  }
}

// inputs: two, broadcast to the shape of the result.
inline void comparison(Builder& builder, const NodeRow& node) {
  const Comparison comparison = parameters_of<ComparingRow>(node).comparison;
  with_numbers(builder.stated(node.inputs[0]).get_data_type(), [&](auto zero) {
    using T = decltype(zero);
    const auto fill = [=](const Lines& lines, char* to, int64_t size) {
      compared_row(comparison, lines.of<T>(0), lines.of<T>(1), floats(to), size);
    };
    add_repeating_kernel(builder, node, fill, "compare");
  });
}

template <typename T>
bool has(Property property, T number) {
  if constexpr (std::is_floating_point_v<T>) {
    switch (property) {
      case Property::undefined: return std::isnan(number);
      case Property::infinite: return std::isinf(number);
      case Property::finite: return std::isfinite(number);
      default: break;
    }
  }
  return number != 0;
}

inline void predicate(Builder& builder, const NodeRow& node) {
  const Property property = parameters_of<PredicateRow>(node).property;
  with_numbers(builder.stated(node.inputs[0]).get_data_type(), [&](auto zero) {
    using T = decltype(zero);
    const auto fill = [=](const Lines& lines, char* result, int64_t size) {
      float* const to = floats(result);
      const Line<T> from = lines.of<T>(0);
      for (int64_t item = 0; item < size; ++item) to[item] = has(property, from[item]) ? 1.0f : 0.0f;
    };
    add_repeating_kernel(builder, node, fill, "predicate");
  });
}

// Truncates towards zero. NaN and values out of range become the least integer, like the x86 instruction; TVM leaves
// this undefined. The bounds are powers of two, which float32 represents exactly.
template <typename T>
T truncated(float number) {
  constexpr float bound = -static_cast<float>(std::numeric_limits<T>::min());
  return number >= -bound && number < bound ? static_cast<T>(number) : std::numeric_limits<T>::min();
}

template <typename To, typename From>
To converted(From number) {
  if constexpr (std::is_floating_point_v<From> && sizeof(To) == 1) {
    return static_cast<To>(truncated<int32_t>(number));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return truncated<To>(number);
  } else {
    return static_cast<To>(number);
  }
}

// The same, with bytes as additional types.
template <typename Action>
void with_numbers_or_bytes(DataType type, Action action) {
  if (type == DataType::s8) return action(int8_t{});
  if (type == DataType::u8) return action(uint8_t{});
  with_numbers(type, action);
}

// Casts from or to integers.
inline void whole_cast(Builder& builder, const NodeRow& node) {
  with_numbers_or_bytes(builder.stated(node.inputs[0]).get_data_type(), [&](auto source) {
    using From = decltype(source);
    with_numbers_or_bytes(builder.stated(node.output).get_data_type(), [&](auto target) {
      using To = decltype(target);
      const auto fill = [](const Lines& lines, char* result, int64_t size) {
        To* const to = reinterpret_cast<To*>(result);
        const Line<From> from = lines.of<From>(0);
        for (int64_t item = 0; item < size; ++item) to[item] = converted<To>(from[item]);
      };
      add_repeating_kernel(builder, node, fill, "cast");
    });
  });
}

// Adds sequentially in the element type, like TVM.
template <typename T>
T sum_of(T left, T right) {
  if constexpr (std::is_integral_v<T>) {
    using Bits = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Bits>(left) + static_cast<Bits>(right));
  } else {
    return left + right;
  }
}

template <typename T>
T product_of(T left, T right) {
  if constexpr (std::is_integral_v<T>) {
    using Bits = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Bits>(left) * static_cast<Bits>(right));  // wraps around
  } else {
    return left * right;
  }
}

template <typename T>
void cumulated_run(const T* from, T* to, int64_t extent, int64_t step, bool exclusive, bool multiplies) {
  T whole = exclusive ? static_cast<T>(multiplies ? 1 : 0) : from[0];
  to[0] = whole;
  for (int64_t item = 1; item < extent; ++item) {
    const T next = from[(exclusive ? item - 1 : item) * step];
    whole = multiplies ? product_of(whole, next) : sum_of(whole, next);
    to[item * step] = whole;
  }
}

// The same of `width` neighbouring runs, row by row.
template <typename T>
void cumulated_columns(const T* from, T* to, int64_t extent, int64_t step, int64_t width, bool exclusive,
                       bool multiplies) {
  for (int64_t i = 0; i < width; ++i) to[i] = exclusive ? static_cast<T>(multiplies ? 1 : 0) : from[i];
  for (int64_t item = 1; item < extent; ++item) {
    const T* const next = from + (exclusive ? item - 1 : item) * step;
    const T* const before = to + (item - 1) * step;
    T* const whole = to + item * step;
    if (multiplies) {
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) whole[i] = product_of(before[i], next[i]);
    } else {
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) whole[i] = sum_of(before[i], next[i]);
    }
  }
}

inline void cumulation(Builder& builder, const NodeRow& node) {
  const Dims& dims = builder.dims(node.output);
  const auto& given = parameters_of<CumulationRow>(node);
  const auto axis = static_cast<size_t>(given.axis);
  const int64_t outer = volume(dims, 0, axis), extent = dims[axis], inner = volume(dims, axis + 1, dims.size());
  with_numbers(builder.stated(node.output).get_data_type(), [&](auto zero) {
    using T = decltype(zero);
    const auto kernel = [=, exclusive = given.exclusive, multiplies = given.multiplies](const std::vector<char*>& pointers) {
      const int64_t columns = std::min(inner, kColumns), blocks = (inner + columns - 1) / columns;
#pragma omp parallel for
      for (int64_t item = 0; item < outer * blocks; ++item) {
        const int64_t column = item % blocks * columns, begin = item / blocks * extent * inner + column;
        const T* const from = reinterpret_cast<const T*>(pointers[0]) + begin;
        T* const to = reinterpret_cast<T*>(pointers[1]) + begin;
        if (inner == 1) {
          cumulated_run(from, to, extent, inner, exclusive, multiplies);
        } else {
          cumulated_columns(from, to, extent, inner, std::min(columns, inner - column), exclusive, multiplies);
        }
      }
    };
    add_plain_kernel(builder, node, kernel, "cumulate");
  });
}

inline void range(Builder& builder, const NodeRow& node) {
  const auto& given = parameters_of<RangeRow>(node);
  const int64_t start = builder.number(given.start), step = given.step;
  const Dims& dims = builder.dims(node.output);
  const int64_t count = volume(dims, 0, dims.size());
  with_numbers(builder.stated(node.output).get_data_type(), [&](auto zero) {
    using T = decltype(zero);
    const auto kernel = [=](const std::vector<char*>& pointers) {
      T* const to = reinterpret_cast<T*>(pointers[0]);
      for (int64_t item = 0; item < count; ++item) to[item] = static_cast<T>(start + item * step);
    };
    add_plain_kernel(builder, node, kernel, "range");
  });
}

}  // namespace annotated_region_dnnl
