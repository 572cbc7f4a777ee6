// What oneDNN has no primitive for, or none that is exact: repetition, choice, functions, root mean square, filling.

namespace annotated_region_dnnl {

// Carries the first exception out of a parallel loop, which it must not leave by itself.
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

// The strides of a plain tensor that is repeated along its axes of extent one.
inline Dims repeating_strides(const Dims& in) {
  Dims strides = dense_strides(in);
  for (size_t axis = 0; axis < in.size(); ++axis) {
    if (in[axis] == 1) strides[axis] = 0;
  }
  return strides;
}

// Where row number `row` of a tensor of extents `dims` begins in an operand with these strides.
inline int64_t row_offset(const Dims& dims, const Dims& strides, int64_t row) {
  int64_t offset = 0;
  for (int axis = static_cast<int>(dims.size()) - 2; axis >= 0; --axis) {
    offset += row % dims[axis] * strides[axis];
    row /= dims[axis];
  }
  return offset;
}

// Runs `action` for each row of a tensor, shared among threads.
template <typename Action>
void for_rows(const Dims& dims, Action action) {
  const int64_t rows = volume(dims, 0, dims.size() - 1);
#pragma omp parallel for
  for (int64_t row = 0; row < rows; ++row) action(row);
}

inline const float* floats(const char* pointer) { return reinterpret_cast<const float*>(pointer); }
inline float* floats(char* pointer) { return reinterpret_cast<float*>(pointer); }
inline uint16_t* halves(char* pointer) { return reinterpret_cast<uint16_t*>(pointer); }

// Adds a kernel over plain operands of float32 that makes a plain result.
inline void add_plain_kernel(Builder& builder, const NodeRow& node, Kernel kernel, const std::string& label) {
  std::vector<Argument> arguments;
  for (int tensor : node.inputs) {
    const Desc desc = plain(builder.dims(tensor), kFloat);
    arguments.push_back({DNNL_ARG_MULTIPLE_SRC, desc, builder.fetch(tensor, desc)});
  }
  const Desc desc = builder.plain(node.output);
  const Place place = builder.fresh(desc);
  arguments.push_back({DNNL_ARG_DST, desc, place});
  builder.add_kernel(std::move(kernel), std::move(arguments), label + " " + layout_name(desc));
  builder.define(node.output, desc, place);
}

// Where a row of an operand lies, and how far its elements are apart: 0 where one is repeated.
struct Line {
  const float* data;
  int64_t step;
  float operator[](int64_t item) const { return data[item * step]; }
};

using Lines = std::array<Line, 3>;  // of the operands

// Adds a kernel whose operands are repeated along the axes where their extent is one; `element` makes one number of
// the result from a row of each operand and its place there.
template <typename Element>
void add_repeating_kernel(Builder& builder, const NodeRow& node, Element element, const char* label) {
  const Dims out = builder.dims(node.output);
  std::vector<Dims> strides;
  for (int tensor : node.inputs) strides.push_back(repeating_strides(builder.dims(tensor)));
  const auto kernel = [out, strides, element](const std::vector<char*>& pointers) {
    for_rows(out, [&](int64_t row) {
      Lines lines{};
      for (size_t operand = 0; operand < strides.size(); ++operand) {
        lines[operand] = {floats(pointers[operand]) + row_offset(out, strides[operand], row), strides[operand].back()};
      }
      float* to = floats(pointers.back()) + row * out.back();
      for (int64_t item = 0; item < out.back(); ++item) to[item] = element(lines, item);
    });
  };
  add_plain_kernel(builder, node, kernel, label);
}

inline void expand(Builder& builder, const NodeRow& node) {
  add_repeating_kernel(builder, node, [](const Lines& lines, int64_t item) { return lines[0][item]; }, "expand");
}

// inputs: condition, and what is taken where it is not zero and where it is.
inline void select(Builder& builder, const NodeRow& node) {
  const auto chosen = [](const Lines& lines, int64_t item) { return lines[lines[0][item] != 0.0f ? 1 : 2][item]; };
  add_repeating_kernel(builder, node, chosen, "select");
}

// inputs: data, slopes for what is not above zero, of the same rank. oneDNN's multiplies the rest by them, too.
inline void exact_prelu(Builder& builder, const NodeRow& node) {
  const auto sloped = [](const Lines& lines, int64_t item) {
    return lines[0][item] > 0.0f ? lines[0][item] : lines[0][item] * lines[1][item];
  };
  add_repeating_kernel(builder, node, sloped, "prelu");
}

// A layout whose elements can be taken one after the other, and that exists for other types, too.
inline Desc flat_layout(Builder& builder, int tensor, DataType type) {
  const Desc desc = builder.dense(tensor);
  const bool is_flat = is_blocked_kind(desc) && !is_padded(desc) && (is_strided(desc) || tag_of(desc) != nullptr);
  return is_flat ? retyped(desc, type) : plain(builder.dims(tensor), type);
}

// A function of each number, in the order in which they lie; it takes runs: from, to, size.
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
  builder.add_unary_kernel(kernel, desc, desc, label + (" " + layout_name(desc)));
}

template <float (*function)(float)>
void one_by_one(const float* from, float* to, int64_t size) {
  for (int64_t item = 0; item < size; ++item) to[item] = function(from[item]);
}

inline void error_function(Builder& builder, const NodeRow& node) { apply(builder, node, gauss_error_run, "erf"); }
inline void exponential(Builder& builder, const NodeRow& node) { apply(builder, node, exponential_run, "exp"); }
inline void logarithm(Builder& builder, const NodeRow& node) { apply(builder, node, logarithm_run, "log"); }
inline void reciprocal_root(Builder& builder, const NodeRow& node) { apply(builder, node, reciprocal_root_run, "rsqrt"); }
inline void gelu(Builder& builder, const NodeRow& node) { apply(builder, node, gelu_run, "gelu"); }
inline void sine(Builder& builder, const NodeRow& node) { apply(builder, node, one_by_one<std::sin>, "sine"); }
inline void cosine(Builder& builder, const NodeRow& node) { apply(builder, node, one_by_one<std::cos>, "cosine"); }

// inputs: data, and a scale or none. Over the last axis.
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

// Fills the whole, then copies the operand into its place.
inline void pad(Builder& builder, const NodeRow& node) {
  const Desc whole = plain(builder.dims(node.output), kFloat);
  const Dims strides = whole.get_strides();
  const Place target = builder.fresh(whole);
  const int64_t count = volume(builder.dims(node.output), 0, strides.size());
  const auto& [before, value] = parameters_of<PaddingRow>(node);
  const auto fill = [count, value = value](const std::vector<char*>& pointers) {
    float* to = floats(pointers[0]);
#pragma omp parallel for simd
    for (int64_t item = 0; item < count; ++item) to[item] = value;
  };
  builder.add_kernel(fill, {{DNNL_ARG_DST, whole, target}}, "fill");
  Place inner = target;
  for (size_t axis = 0; axis < strides.size(); ++axis) {
    inner.offset += before[static_cast<int>(axis)] * strides[axis] * sizeof(float);
  }
  const Desc part = strided(builder.dims(node.inputs[0]), kFloat, strides);
  builder.reorder(builder.numbers(node.inputs[0]), part, inner);
  builder.define(node.output, whole, target);
}

}  // namespace annotated_region_dnnl
