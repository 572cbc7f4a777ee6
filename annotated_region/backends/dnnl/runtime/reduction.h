// Sum, mean, product, minimum and maximum along any axes, in any dense layout; oneDNN 3.2 is fast only for some.

namespace annotated_region_dnnl {
namespace {

// The binary operation of a reduction.
enum class Merge { sum, product, largest, least };

// Propagates NaN. Two selections, where g++ makes branches of one with two conditions.
template <typename T>
inline __attribute__((always_inline)) T merged(T left, T right, Merge merge) {
  if (merge == Merge::sum) return left + right;
  if (merge == Merge::product) return left * right;
  const bool is_better = merge == Merge::largest ? right > left : right < left;
  const T better = is_better ? right : left;
  return right == right ? better : right;
}

constexpr float kNeutral[] = {0.0f, 1.0f, -INFINITY, INFINITY};

// Blocks of rows are merged in float32, and their partial results in double precision.
template <Merge merge>
inline __attribute__((always_inline)) void merge_columns(const float* from, int64_t rows, int64_t stride,
                                                         int64_t width, double* to) {
  constexpr int64_t block = 64;
  for (int64_t i = 0; i < width; ++i) to[i] = kNeutral[static_cast<int>(merge)];
  for (int64_t first = 0; first < rows; first += block) {
    const int64_t last = first + block < rows ? first + block : rows;
    float column[kColumns];
    for (int64_t i = 0; i < width; ++i) column[i] = kNeutral[static_cast<int>(merge)];
    int64_t row = first;
    for (; row + 4 <= last; row += 4) {
      const float* rows_from = from + row * stride;
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) {
        const float two = merged(rows_from[i], rows_from[i + stride], merge);
        const float more = merged(rows_from[i + 2 * stride], rows_from[i + 3 * stride], merge);
        column[i] = merged(column[i], merged(two, more, merge), merge);
      }
    }
    for (; row < last; ++row) {
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) column[i] = merged(column[i], from[row * stride + i], merge);
    }
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) to[i] = merged(to[i], static_cast<double>(column[i]), merge);
  }
}

// Merges rows, which are `stride` apart, column by column; `width` is at most kColumns.
ANNOTATED_REGION_CLONES void merge_rows(const float* from, int64_t rows, int64_t stride, int64_t width, double* to,
                                        Merge merge) {
  if (merge == Merge::sum) return merge_columns<Merge::sum>(from, rows, stride, width, to);
  if (merge == Merge::product) return merge_columns<Merge::product>(from, rows, stride, width, to);
  if (merge == Merge::largest) return merge_columns<Merge::largest>(from, rows, stride, width, to);
  return merge_columns<Merge::least>(from, rows, stride, width, to);
}

// The maximum or minimum of a contiguous run, in one pass at memory speed; propagates NaN.
ANNOTATED_REGION_CLONES float largest_of_run(const float* from, int64_t size) {
  float best = -INFINITY;
  int undefined = 0;
#pragma omp simd reduction(max : best) reduction(| : undefined)
  for (int64_t i = 0; i < size; ++i) {
    best = from[i] > best ? from[i] : best;
    undefined |= from[i] != from[i];
  }
  return undefined != 0 ? NAN : best;
}

ANNOTATED_REGION_CLONES float least_of_run(const float* from, int64_t size) {
  float best = INFINITY;
  int undefined = 0;
#pragma omp simd reduction(min : best) reduction(| : undefined)
  for (int64_t i = 0; i < size; ++i) {
    best = from[i] < best ? from[i] : best;
    undefined |= from[i] != from[i];
  }
  return undefined != 0 ? NAN : best;
}

// Merges `width` numbers, at most kColumns, by halves.
ANNOTATED_REGION_CLONES void merge_halves(float* numbers, int64_t width, Merge merge) {
  for (int64_t half = (width + 1) / 2; width > 1; width = half, half = (width + 1) / 2) {
#pragma omp simd
    for (int64_t i = 0; i < width / 2; ++i) {
      numbers[i] = merge == Merge::sum ? numbers[i] + numbers[i + half] : numbers[i] * numbers[i + half];
    }
  }
}

// Merges a contiguous run: as rows, then by halves, in float32, so that overflow gives infinity.
inline double merged_run(const float* from, int64_t size, Merge merge) {
  if (merge == Merge::largest) return largest_of_run(from, size);
  if (merge == Merge::least) return least_of_run(from, size);
  double columns[kColumns];
  float narrow[kColumns];
  const int64_t width = std::min(size, kColumns), rows = size / width;
  merge_rows(from, rows, width, width, columns, merge);
  for (int64_t i = 0; i < width; ++i) narrow[i] = static_cast<float>(columns[i]);
  for (int64_t i = rows * width; i < size; ++i) {
    float& column = narrow[i - rows * width];
    column = merged(column, from[i], merge);
  }
  merge_halves(narrow, width, merge);
  return narrow[0];
}

constexpr int64_t kShortRun = 64;

// Merges `count` short runs that follow each other, at most kColumns: as columns, so that each is a number of a register.
inline void merge_short_runs(const float* from, int64_t count, int64_t size, double* to, Merge merge) {
  float columns[kShortRun * kColumns];
  for (int64_t run = 0; run < count; ++run) {
    for (int64_t item = 0; item < size; ++item) columns[item * kColumns + run] = from[run * size + item];
  }
  merge_rows(columns, size, kColumns, count, to, merge);
}

}  // namespace

// Axes that are consecutive in memory and all reduced or all kept.
struct Stretch {
  int64_t extent;
  bool is_reduced;
};

// The reduction of one stretch: `outer` times, `size` groups of `inner` numbers.
struct Reduction {
  int64_t outer, size, inner;
  Merge merge;
  int64_t parts;  // of the size, where there is little else to share among threads
  double factor;  // of the result

  int64_t results() const { return outer * inner; }
  size_t scratch() const { return results() * parts * sizeof(double); }

  void run(const float* from, float* to, double* partial) const {
    inner == 1 && parts == 1 && size <= kShortRun ? run_short(from, partial) : run_parts(from, partial);
#pragma omp parallel for
    for (int64_t item = 0; item < results(); ++item) {
      double result = partial[item];
      for (int64_t part = 1; part < parts; ++part) {
        result = merged(result, partial[part * results() + item], merge);
      }
      to[item] = static_cast<float>(result * factor);
    }
  }

 private:
  void run_short(const float* from, double* partial) const {
#pragma omp parallel for
    for (int64_t first = 0; first < outer; first += kColumns) {
      merge_short_runs(from + first * size, std::min(kColumns, outer - first), size, partial + first, merge);
    }
  }

  void run_parts(const float* from, double* partial) const {
    const int64_t columns = std::min(inner, kColumns), blocks = (inner + columns - 1) / columns;
#pragma omp parallel for
    for (int64_t item = 0; item < outer * blocks * parts; ++item) {
      const int64_t part = item % parts, column = item / parts % blocks * columns, row = item / parts / blocks;
      const int64_t first = size * part / parts, last = size * (part + 1) / parts;
      const float* data = from + (row * size + first) * inner + column;
      double* result = partial + part * results() + row * inner + column;
      if (inner == 1) {
        *result = merged_run(data, last - first, merge);
      } else {
        merge_rows(data, last - first, inner, std::min(columns, inner - column), result, merge);
      }
    }
  }
};

inline Merge merge_of(dnnl_alg_kind_t algorithm) {
  switch (algorithm) {
    case dnnl_reduction_max: return Merge::largest;
    case dnnl_reduction_min: return Merge::least;
    case dnnl_reduction_mul: return Merge::product;
    default: return Merge::sum;
  }
}

// The axes in memory order, outermost first, without those of extent one.
inline std::vector<int> memory_order(const Desc& desc) {
  const Dims dims = desc.get_dims(), strides = desc.get_strides();
  std::vector<int> order;
  for (int axis = 0; axis < static_cast<int>(dims.size()); ++axis) {
    if (dims[axis] != 1) order.push_back(axis);
  }
  std::sort(order.begin(), order.end(), [&](int a, int b) { return strides[a] > strides[b]; });
  return order;
}

// The dense layout of `dims` in that order.
inline Desc in_order(const Dims& dims, const std::vector<int>& order) {
  Dims strides(dims.size(), 1);
  int64_t stride = 1;
  for (auto axis = order.rbegin(); axis != order.rend(); stride *= dims[*axis++]) strides[*axis] = stride;
  return strided(dims, kFloat, strides);
}

// The reductions to run in sequence, innermost in memory first.
inline std::vector<Reduction> reductions_of(std::vector<Stretch> stretches, Merge merge) {
  const auto volume_of = [&](size_t first, size_t last) {
    int64_t product = 1;
    for (size_t index = first; index < last; ++index) product *= stretches[index].extent;
    return product;
  };
  std::vector<Reduction> result;
  for (size_t index = stretches.size(); index-- > 0;) {
    if (!stretches[index].is_reduced) continue;
    const int64_t outer = volume_of(0, index), inner = volume_of(index + 1, stretches.size());
    const int64_t threads = omp_get_max_threads();
    const bool is_shared = outer * ((inner + kColumns - 1) / kColumns) >= threads || stretches[index].extent < threads;
    result.push_back({outer, stretches[index].extent, inner, merge, is_shared ? 1 : threads, 1.0});
    stretches.erase(stretches.begin() + static_cast<std::ptrdiff_t>(index));
  }
  return result;
}

// The result has the rank of the operand, with extent one along the reduced axes.
inline void reduction(Builder& builder, const NodeRow& node) {
  const int src = node.inputs[0];
  const dnnl_alg_kind_t algorithm = parameters_of<ReductionRow>(node).algorithm;
  const Dims &dims = builder.dims(src), &kept = builder.dims(node.output);
  const Desc dense = builder.dense(src);
  const Desc from = is_strided(dense) ? retyped(dense, kFloat) : plain(dims, kFloat);
  const std::vector<int> order = memory_order(from);
  const Desc to = in_order(kept, order);
  std::vector<Stretch> stretches;
  for (int axis : order) {
    const bool is_reduced = kept[axis] != dims[axis];
    if (stretches.empty() || stretches.back().is_reduced != is_reduced) stretches.push_back({1, is_reduced});
    stretches.back().extent *= dims[axis];
  }
  std::vector<Reduction> passes = reductions_of(stretches, merge_of(algorithm));
  if (passes.empty()) return builder.define(node.output, to, builder.fetch(src, from));
  if (algorithm == dnnl_reduction_mean) {
    passes.back().factor = static_cast<double>(volume(kept, 0, kept.size())) / volume(dims, 0, dims.size());
  }
  size_t partial_bytes = 0;
  for (const Reduction& pass : passes) partial_bytes = std::max(partial_bytes, round_up(pass.scratch(), kAlignment));
  const size_t room = round_up(passes.front().results() * sizeof(float), kAlignment);  // of what stands between two
  const auto kernel = [passes, partial_bytes, room](const std::vector<char*>& pointers) {
    const float* data = floats(pointers[0]);
    for (size_t index = 0; index < passes.size(); ++index) {
      float* const between = floats(pointers[2] + partial_bytes + index % 2 * room);
      float* const result = index + 1 == passes.size() ? floats(pointers[1]) : between;
      passes[index].run(data, result, reinterpret_cast<double*>(pointers[2]));
      data = result;
    }
  };
  builder.add_unary_kernel(node, kernel, from, to, "reduction " + layout_name(from), partial_bytes + 2 * room);
}

}  // namespace annotated_region_dnnl
