// Kernels for ops without an (exact) oneDNN primitive: broadcast, select, unary functions, RMS norm, pad.

namespace annotated_region_dnnl {

// Carries the first exception out of a parallel loop; exceptions must not propagate through OpenMP.
class Failure {
 public:
  template <typename Action>
  void guard(Action action) {
    try {
      action();
    } catch (...) {
#pragma omp critical(annotated_region_failure)
      if (!first_) first_ = std::current_exception();
    }
  }
  void raise() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::exception_ptr first_;
};

inline const float* floats(const char* pointer) { return reinterpret_cast<const float*>(pointer); }
inline float* floats(char* pointer) { return reinterpret_cast<float*>(pointer); }
inline uint16_t* halves(char* pointer) { return reinterpret_cast<uint16_t*>(pointer); }

// Adds a kernel from plain operands, with the types of the graph, to a plain result.
inline void add_plain_kernel(Builder& builder, const NodeRow& node, Kernel kernel, const std::string& label,
                             const Desc& desc) {
  std::vector<Argument> arguments;
  for (int tensor : node.inputs) {
    const Desc stated = builder.stated(tensor);
    arguments.push_back({DNNL_ARG_MULTIPLE_SRC, stated, builder.fetch(tensor, stated)});
  }
  const Place place = builder.fresh(desc);
  arguments.push_back({DNNL_ARG_DST, desc, place});
  builder.add_kernel(std::move(kernel), std::move(arguments), label + " " + layout_name(desc));
  builder.define(node.output, desc, place);
}

inline void add_plain_kernel(Builder& builder, const NodeRow& node, Kernel kernel, const std::string& label) {
  add_plain_kernel(builder, node, std::move(kernel), label, builder.plain(node.output));
}

// The depth, height and width of a convolution, as `Axis` of extents before and behind it, taps, stride, step between
// taps, and padding in front; the axes that it lacks have one element.
template <typename Axis, typename Row>
std::array<Axis, 3> spatial_axes(const Dims& data, const Dims& kernel, const Dims& out, const Row& given) {
  const Dims strides = dims_of(given.strides), dilation = dims_of(given.dilation), before = dims_of(given.before);
  std::array<Axis, 3> axes{};
  const size_t count = strides.size();
  for (size_t axis = 0; axis < count; ++axis) {
    axes[3 - count + axis] = {data[axis + 2], out[axis + 2],      kernel[kernel.size() - count + axis],
                              strides[axis],  dilation[axis] + 1, before[axis]};
  }
  return axes;
}

// A row of an operand and the stride of its elements, which is 0 for a broadcast element.
template <typename T>
struct Line {
  const T* data;
  int64_t step;
  T operator[](int64_t item) const { return data[item * step]; }
};

// A row of each operand.
struct Lines {
  std::array<const char*, 3> data;
  std::array<int64_t, 3> steps;
  template <typename T>
  Line<T> of(int operand) const {
    return {reinterpret_cast<const T*>(data[operand]), steps[operand]};
  }
};

// Computes a row of the result, with the given number of elements, from a row of each operand.
using FillRow = std::function<void(const Lines&, char*, int64_t)>;

// The shape of a tensor; axes are joined with their neighbours along which the same of `parts` are broadcast, in these too.
inline Dims joined_axes(const Dims& whole, std::vector<Dims>& parts) {
  Dims joined{1};
  std::vector<Dims> narrow(parts.size(), Dims{1});
  size_t last = whole.size();  // the axis that was joined last
  for (size_t axis = 0; axis < whole.size(); ++axis) {
    if (whole[axis] == 1) continue;
    const auto is_alike = [&](const Dims& part) { return (part[axis] == 1) == (part[last] == 1); };
    const bool begins = last != whole.size() && !std::all_of(parts.begin(), parts.end(), is_alike);
    if (begins) joined.push_back(1);
    joined.back() *= whole[axis];
    for (size_t part = 0; part < parts.size(); ++part) {
      if (begins) narrow[part].push_back(1);
      narrow[part].back() *= parts[part][axis];
    }
    last = axis;
  }
  parts = narrow;
  return joined;
}

// What the elements of a row of the last axis depend on.
enum class RowUse { elements, whole_rows };

// Adds a kernel whose operands are broadcast along their axes of extent one. It fills rows of the last axis, or any parts
// of them and several at once, if an element depends on those of the operands at its place alone.
inline void add_repeating_kernel(Builder& builder, const NodeRow& node, FillRow fill, const char* label,
                                 RowUse use = RowUse::elements) {
  const auto out_bytes = static_cast<int64_t>(element_bytes(builder.stated(node.output)));
  std::vector<Dims> strides;
  std::vector<int64_t> bytes;
  for (int tensor : node.inputs) {
    strides.push_back(builder.dims(tensor));
    bytes.push_back(static_cast<int64_t>(element_bytes(builder.stated(tensor))));
  }
  const bool is_free = use == RowUse::elements;
  const Dims out = is_free ? joined_axes(builder.dims(node.output), strides) : builder.dims(node.output);
  for (Dims& each : strides) each = repeating_strides(each);
  const int64_t length = is_free ? kRunLength : out.back();
  const auto kernel = [out, out_bytes, strides, bytes, fill, length](const std::vector<char*>& pointers) {
    const int64_t size = out.back(), rows = volume(out, 0, out.size() - 1), parts = (size + length - 1) / length;
#pragma omp parallel for
    for (int64_t item = 0; item < rows * parts; ++item) {
      const int64_t row = item / parts, first = item % parts * length;
      Lines lines{};
      for (size_t operand = 0; operand < strides.size(); ++operand) {
        const int64_t step = strides[operand].back();
        const int64_t offset = row_offset(out, strides[operand], row) + first * step;
        lines.data[operand] = pointers[operand] + offset * bytes[operand];
        lines.steps[operand] = step;
      }
      fill(lines, pointers.back() + (row * size + first) * out_bytes, std::min(length, size - first));
    }
  };
  add_plain_kernel(builder, node, kernel, label);
}

template <typename T>
void expanded_row(const Lines& lines, char* result, int64_t size) {
  T* const to = reinterpret_cast<T*>(result);
  const Line<T> from = lines.of<T>(0);
  if (from.step == 0) {
    std::fill_n(to, size, from[0]);
  } else {
    std::copy_n(from.data, size, to);
  }
}

// Broadcast; elements are only moved, so only their size matters.
inline void expand(Builder& builder, const NodeRow& node) {
  with_bits(element_bytes(builder.stated(node.output)), [&](auto unit) {
    add_repeating_kernel(builder, node, expanded_row<decltype(unit)>, "expand");
  });
}

namespace {

template <typename T>
inline __attribute__((always_inline)) void choose_items(const float* conditions, const T* yes, const T* no, T* to,
                                                        int64_t size) {
#pragma omp simd
  for (int64_t item = 0; item < size; ++item) to[item] = conditions[item] != 0.0f ? yes[item] : no[item];
}

template <typename T>
void choose(const float* conditions, const T* yes, const T* no, T* to, int64_t size) {
  choose_items(conditions, yes, no, to, size);
}
ANNOTATED_REGION_CLONES void choose(const float* conditions, const uint32_t* yes, const uint32_t* no, uint32_t* to,
                                    int64_t size) {
  choose_items(conditions, yes, no, to, size);
}

}  // namespace

// Runs of a row whose elements follow each other; a broadcast element is repeated once for all of them.
template <typename T>
class Runs {
 public:
  static constexpr int64_t kLength = 256;

  Runs(Line<T> line, int64_t size) : line_(line) {
    if (line.step == 0) std::fill_n(block_.begin(), std::min(kLength, size), line[0]);
  }
  const T* at(int64_t first) const { return line_.step == 0 ? block_.data() : line_.data + first; }

 private:
  Line<T> line_;
  std::array<T, kLength> block_;
};

template <typename T>
void selected_row(const Lines& lines, char* result, int64_t size) {
  constexpr int64_t kLength = Runs<T>::kLength;
  T* const to = reinterpret_cast<T*>(result);
  const Runs<float> conditions(lines.of<float>(0), size);
  const Runs<T> yes(lines.of<T>(1), size), no(lines.of<T>(2), size);
  for (int64_t first = 0; first < size; first += kLength) {
    choose(conditions.at(first), yes.at(first), no.at(first), to + first, std::min(kLength, size - first));
  }
}

// inputs: condition, the value where it is nonzero, the value where it is zero.
inline void select(Builder& builder, const NodeRow& node) {
  with_bits(element_bytes(builder.stated(node.output)), [&](auto unit) {
    add_repeating_kernel(builder, node, selected_row<decltype(unit)>, "select");
  });
}

// inputs: data, slopes for nonpositive elements, of the same rank. oneDNN's prelu multiplies the others by them too.
inline void exact_prelu(Builder& builder, const NodeRow& node) {
  const auto sloped = [](const Lines& lines, char* result, int64_t size) {
    float* const to = floats(result);
    const Line<float> from = lines.of<float>(0), slopes = lines.of<float>(1);
    for (int64_t item = 0; item < size; ++item) {
      to[item] = from[item] > 0.0f ? from[item] : from[item] * slopes[item];
    }
  };
  add_repeating_kernel(builder, node, sloped, "prelu");
}

// A dense layout, in which elements can be processed in memory order, that also exists for other types.
inline Desc flat_layout(Builder& builder, int tensor, DataType type) {
  const Desc desc = builder.dense(tensor);
  const bool is_flat = is_blocked_kind(desc) && !is_padded(desc) && (is_strided(desc) || tag_of(desc) != nullptr);
  return is_flat ? retyped(desc, type) : plain(builder.dims(tensor), type);
}

// An element-wise function, applied in memory order; its arguments are runs: from, to, size.
template <typename Function>
void apply(Builder& builder, const NodeRow& node, Function function, const char* label) {
  const int src = node.inputs[0];
  const Desc desc = flat_layout(builder, src, kFloat);
  const int64_t count = volume(builder.dims(src), 0, builder.dims(src).size());
  const auto kernel = [count, function](const std::vector<char*>& pointers) {
#pragma omp parallel for
    for (int64_t first = 0; first < count; first += kRunLength) {
      function(floats(pointers[0]) + first, floats(pointers[1]) + first, std::min(kRunLength, count - first));
    }
  };
  builder.add_unary_kernel(node, kernel, desc, desc, label + (" " + layout_name(desc)));
}

// Whether a node reads and writes float32 alone, and nothing is fused with it.
inline bool is_bare(const Builder& builder, const NodeRow& node) {
  const auto is_float = [&](int tensor) { return builder.type(tensor) == kFloat; };
  return node.post_ops.size == 0 && node.quantized == nullptr && is_float(node.output) &&
         std::all_of(node.inputs.begin(), node.inputs.end(), is_float);
}

// Adds or multiplies two tensors of the same shape in the memory order of the first; false if that order has gaps, or
// the node is another one. oneDNN would allocate memory in each run.
inline bool combine(Builder& builder, const NodeRow& node) {
  const int left = node.inputs[0], right = node.inputs[1];
  const auto algorithm = parameters_of<ArithmeticRow>(node).algorithm;
  const bool is_sum = algorithm == dnnl_binary_add, is_product = algorithm == dnnl_binary_mul;
  if (!(is_sum || is_product) || builder.dims(left) != builder.dims(right) || !is_bare(builder, node)) return false;
  const Desc desc = flat_layout(builder, left, kFloat);
  if (desc != builder.dense(left)) return false;
  const int64_t count = volume(builder.dims(left), 0, builder.dims(left).size());
  const auto run = is_sum ? add_run : multiply_run;
  const auto kernel = [count, run](const std::vector<char*>& pointers) {
#pragma omp parallel for
    for (int64_t first = 0; first < count; first += kRunLength) {
      const int64_t size = std::min(kRunLength, count - first);
      run(floats(pointers[0]) + first, floats(pointers[1]) + first, floats(pointers[2]) + first, size);
    }
  };
  const Place from = builder.fetch(left, desc), other = builder.fetch(right, desc);
  const Place to = builder.over_or_fresh(from, desc);
  builder.add_kernel(kernel, {{DNNL_ARG_SRC, desc, from}, {DNNL_ARG_SRC_1, desc, other}, {DNNL_ARG_DST, desc, to}},
                     (is_sum ? "add " : "multiply ") + layout_name(desc));
  builder.define(node.output, desc, to);
  return true;
}

// A function of two numbers, for a row of each operand; the second is one number if its elements are 0 apart.
using PairRow = void (*)(const float* left, const float* right, int64_t step, float* to, int64_t size);

template <typename Function>
void pair_row(const float* left, const float* right, int64_t step, float* to, int64_t size) {
  const Function function{};
  if (step == 0) {
    const float number = *right;
#pragma omp simd
    for (int64_t item = 0; item < size; ++item) to[item] = static_cast<float>(function(left[item], number));
  } else {
#pragma omp simd
    for (int64_t item = 0; item < size; ++item) to[item] = static_cast<float>(function(left[item], right[item]));
  }
}

// With NaN the second number, as TVM and oneDNN have it.
struct Greater {
  float operator()(float x, float y) const { return x > y ? x : y; }
};
struct Less {
  float operator()(float x, float y) const { return x < y ? x : y; }
};

inline PairRow pair_row_of(dnnl_alg_kind_t algorithm) {
  switch (algorithm) {
    case dnnl_binary_add: return pair_row<std::plus<float>>;
    case dnnl_binary_sub: return pair_row<std::minus<float>>;
    case dnnl_binary_mul: return pair_row<std::multiplies<float>>;
    case dnnl_binary_div: return pair_row<std::divides<float>>;
    case dnnl_binary_max: return pair_row<Greater>;
    case dnnl_binary_min: return pair_row<Less>;
    case dnnl_binary_ge: return pair_row<std::greater_equal<float>>;
    case dnnl_binary_gt: return pair_row<std::greater<float>>;
    case dnnl_binary_le: return pair_row<std::less_equal<float>>;
    case dnnl_binary_lt: return pair_row<std::less<float>>;
    case dnnl_binary_eq: return pair_row<std::equal_to<float>>;
    case dnnl_binary_ne: return pair_row<std::not_equal_to<float>>;
    default: return nullptr;
  }
}

// Whether a node computes with floats, some of which may be stored in bfloat16, and nothing is fused with it.
inline bool is_bare_or_rounded(const Builder& builder, const NodeRow& node) {
  const auto is_float = [&](int tensor) { return builder.type(tensor) == kFloat || builder.type(tensor) == kRounded; };
  return node.post_ops.size == 0 && node.quantized == nullptr && is_float(node.output) &&
         std::all_of(node.inputs.begin(), node.inputs.end(), is_float);
}

// Arithmetic in float32 with an operand that is broadcast along any axes, for which oneDNN may have reference code
// only; false if the node is another one.
inline bool combine_repeating(Builder& builder, const NodeRow& node) {
  const PairRow run = pair_row_of(parameters_of<ArithmeticRow>(node).algorithm);
  if (run == nullptr || !is_bare_or_rounded(builder, node)) return false;
  std::vector<Dims> parts{builder.dims(node.inputs[1])};
  const Dims whole = joined_axes(builder.dims(node.inputs[0]), parts);
  const auto kernel = [run, whole, strides = repeating_strides(parts[0])](const std::vector<char*>& pointers) {
    const int64_t size = whole.back();
    for_rows(whole, [&](int64_t row) {
      const float* const right = floats(pointers[1]) + row_offset(whole, strides, row);
      run(floats(pointers[0]) + row * size, right, strides.back(), floats(pointers[2]) + row * size, size);
    });
  };
  add_plain_kernel(builder, node, kernel, "combine", builder.stated(node.output));
  return true;
}

template <float (*function)(float)>
void one_by_one(const float* from, float* to, int64_t size) {
  for (int64_t item = 0; item < size; ++item) to[item] = function(from[item]);
}

// By vectors, unless an angle of the run is so large that only the C library reduces it exactly.
inline void sine_run(const float* from, float* to, int64_t size) {
  are_small_angles(from, size) ? small_sine_run(from, to, size) : one_by_one<std::sin>(from, to, size);
}

inline void cosine_run(const float* from, float* to, int64_t size) {
  are_small_angles(from, size) ? small_cosine_run(from, to, size) : one_by_one<std::cos>(from, to, size);
}

inline void error_function(Builder& builder, const NodeRow& node) { apply(builder, node, gauss_error_run, "erf"); }
inline void exponential(Builder& builder, const NodeRow& node) { apply(builder, node, exponential_run, "exp"); }
inline void logarithm(Builder& builder, const NodeRow& node) { apply(builder, node, logarithm_run, "log"); }
inline void reciprocal_root(Builder& builder, const NodeRow& node) { apply(builder, node, reciprocal_root_run, "rsqrt"); }
inline void gelu(Builder& builder, const NodeRow& node) { apply(builder, node, gelu_run, "gelu"); }
inline void sine(Builder& builder, const NodeRow& node) { apply(builder, node, sine_run, "sine"); }
inline void cosine(Builder& builder, const NodeRow& node) { apply(builder, node, cosine_run, "cosine"); }
inline void floor(Builder& builder, const NodeRow& node) { apply(builder, node, floor_run, "floor"); }
inline void ceiling(Builder& builder, const NodeRow& node) { apply(builder, node, ceiling_run, "ceiling"); }
inline void truncation(Builder& builder, const NodeRow& node) { apply(builder, node, truncation_run, "trunc"); }

// 0 for no number, as TVM has it.
inline float sign_of(float number) { return static_cast<float>((number > 0.0f) - (number < 0.0f)); }

using ElementRun = void (*)(const float* from, float* to, int64_t size);

inline ElementRun run_of(ScalarFunction function) {
  switch (function) {
    case ScalarFunction::arc_cosine: return one_by_one<std::acos>;
    case ScalarFunction::arc_hyperbolic_cosine: return one_by_one<std::acosh>;
    case ScalarFunction::arc_sine: return one_by_one<std::asin>;
    case ScalarFunction::arc_hyperbolic_sine: return one_by_one<std::asinh>;
    case ScalarFunction::arc_tangent: return one_by_one<std::atan>;
    case ScalarFunction::arc_hyperbolic_tangent: return one_by_one<std::atanh>;
    case ScalarFunction::hyperbolic_cosine: return one_by_one<std::cosh>;
    case ScalarFunction::hyperbolic_sine: return one_by_one<std::sinh>;
    case ScalarFunction::tangent: return one_by_one<std::tan>;
    case ScalarFunction::sign: return one_by_one<sign_of>;
  }
  throw std::logic_error("no such function");
}

inline void elementary(Builder& builder, const NodeRow& node) {
  apply(builder, node, run_of(parameters_of<ElementaryRow>(node).function), "elementary");
}

// inputs: data, and optionally a scale. Over the last axis.
inline void rms_norm(Builder& builder, const NodeRow& node) {
  const Dims dims = builder.dims(node.output);
  const float epsilon = parameters_of<NormRow>(node).epsilon;
  const std::vector<float> ones(node.inputs.size > 1 ? 0 : dims.back(), 1.0f);
  const bool rounds = builder.type(node.output) == kRounded;
  const auto kernel = [dims, epsilon, ones, rounds](const std::vector<char*>& pointers) {
    const int64_t size = dims.back();
    const float* scale = ones.empty() ? floats(pointers[1]) : ones.data();
    for_rows(dims, [&](int64_t row) {
      const float* from = floats(pointers[0]) + row * size;
      if (rounds) {
        normalize_row(from, scale, halves(pointers.back()) + row * size, size, epsilon);
      } else {
        normalize_row(from, scale, floats(pointers.back()) + row * size, size, epsilon);
      }
    });
  };
  add_plain_kernel(builder, node, kernel, "rms_norm");
}

// Fills the result, then copies the operand into its position, if it has elements.
inline void pad(Builder& builder, const NodeRow& node) {
  const Desc whole = builder.stated(node.output);
  const Dims strides = whole.get_strides();
  const Place target = builder.fresh(whole);
  const int64_t count = volume(builder.dims(node.output), 0, strides.size());
  const auto& [before, value] = parameters_of<PaddingRow>(node);
  with_elements(whole.get_data_type(), [&](auto zero) {
    using T = decltype(zero);
    const auto fill = [count, value = static_cast<T>(value)](const std::vector<char*>& pointers) {
      T* to = reinterpret_cast<T*>(pointers[0]);
#pragma omp parallel for simd
      for (int64_t item = 0; item < count; ++item) to[item] = value;
    };
    builder.add_kernel(fill, {{DNNL_ARG_DST, whole, target}}, "fill");
  });
  Place inner = target;
  for (size_t axis = 0; axis < strides.size(); ++axis) {
    inner.offset += before[static_cast<int>(axis)] * strides[axis] * element_bytes(whole);
  }
  if (!is_empty(builder.dims(node.inputs[0]))) {
    const Desc part = strided(builder.dims(node.inputs[0]), whole.get_data_type(), strides);
    builder.reorder(builder.numbers(node.inputs[0]), part, inner);
  }
  builder.define(node.output, whole, target);
}

}  // namespace annotated_region_dnnl
