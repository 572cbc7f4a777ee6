// Products of a few queries with keys, and of their weights with values: memory-bound, so rows are asked for ahead.

namespace annotated_region_dnnl {
namespace {

using Four = float __attribute__((vector_size(16)));
using Order = int32_t __attribute__((vector_size(16)));

inline __attribute__((always_inline)) Wide wide_at(const float* from) {
  Wide numbers;
  std::memcpy(&numbers, from, sizeof numbers);
  return numbers;
}

// The sum of a register modulo four lanes, in operations that every machine has.
inline __attribute__((always_inline)) Four quarter_sums(Wide numbers) {
  Four parts[4];
  std::memcpy(parts, &numbers, sizeof numbers);
  return (parts[0] + parts[1]) + (parts[2] + parts[3]);
}

// The sums of four registers, each as one lane.
inline __attribute__((always_inline)) Four totals(Four first, Four second, Four third, Four fourth) {
  const Four left = __builtin_shuffle(first, second, Order{0, 4, 1, 5}) + __builtin_shuffle(first, second, Order{2, 6, 3, 7});
  const Four right = __builtin_shuffle(third, fourth, Order{0, 4, 1, 5}) + __builtin_shuffle(third, fourth, Order{2, 6, 3, 7});
  return __builtin_shuffle(left, right, Order{0, 1, 4, 5}) + __builtin_shuffle(left, right, Order{2, 3, 6, 7});
}

constexpr int64_t kRowsOfHead = 16;  // the keys or values of a head that are processed before those of the next head

// The prefetch distance in rows. Prefetches go to the second-level cache, where more of them can be outstanding.
constexpr int64_t kRowsAhead = 3 * kRowsOfHead;

inline __attribute__((always_inline)) void prefetch_row(const float* row, int64_t size) {
  constexpr int64_t kLine = 16, kSecondLevel = 2;
  for (int64_t item = 0; item < size; item += kLine) __builtin_prefetch(row + item, 0, kSecondLevel);
}

// The products of lines with keys, `stride` apart; four lines at a time share a loaded key and a horizontal sum.
ANNOTATED_REGION_CLONES void multiply_keys(const float* lines, int64_t count, int64_t depth, const float* keys,
                                           int64_t stride, int64_t size, float* scores, int64_t leading) {
  const int64_t whole = depth / kWide * kWide;
  for (; count >= 4; count -= 4, lines += 4 * depth, scores += 4 * leading) {
    const float* key = keys;
    for (int64_t index = 0; index < size; ++index, key += stride) {
      prefetch_row(key + kRowsAhead * stride, depth);
      Wide first{}, second{}, third{}, fourth{};
      for (int64_t item = 0; item < whole; item += kWide) {
        const Wide numbers = wide_at(key + item);
        first += wide_at(lines + item) * numbers;
        second += wide_at(lines + depth + item) * numbers;
        third += wide_at(lines + 2 * depth + item) * numbers;
        fourth += wide_at(lines + 3 * depth + item) * numbers;
      }
      const Four sums = totals(quarter_sums(first), quarter_sums(second), quarter_sums(third), quarter_sums(fourth));
      for (int64_t line = 0; line < 4; ++line) {
        float sum = sums[line];
        for (int64_t item = whole; item < depth; ++item) sum += lines[line * depth + item] * key[item];
        scores[line * leading + index] = sum;
      }
    }
  }
  for (; count > 0; --count, lines += depth, scores += leading) {
    for (int64_t index = 0; index < size; ++index) {
      float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
      for (int64_t item = 0; item < depth; ++item) sum += lines[item] * keys[index * stride + item];
      scores[index] = sum;
    }
  }
}

// Adds the weighted values of the columns from `first` on, which are less than a register.
inline __attribute__((always_inline)) void add_columns(const float* weights, const float* values, int64_t stride,
                                                       int64_t size, float* to, int64_t first, int64_t width) {
  for (int64_t column = first; column < width; ++column) {
    for (int64_t key = 0; key < size; ++key) to[column] += weights[key] * values[key * stride + column];
  }
}

inline __attribute__((always_inline)) void add_wide(float* to, Wide numbers) {
  numbers += wide_at(to);
  std::memcpy(to, &numbers, sizeof numbers);
}

// Adds values, `stride` apart, times the weights of lines, to their sums; four lines at a time, each in a register.
ANNOTATED_REGION_CLONES void add_values(const float* weights, int64_t leading, int64_t lines, const float* values,
                                        int64_t stride, int64_t size, float* to, int64_t width) {
  const int64_t whole = width / kWide * kWide;
  for (; lines >= 4; lines -= 4, weights += 4 * leading, to += 4 * width) {
    for (int64_t column = 0; column < whole; column += kWide) {
      Wide first{}, second{}, third{}, fourth{};
      const float* next = values + column;
      for (int64_t key = 0; key < size; ++key, next += stride) {
        if (column == 0) prefetch_row(next + kRowsAhead * stride, width);
        const Wide value = wide_at(next);
        first += weights[key] * value;
        second += weights[leading + key] * value;
        third += weights[2 * leading + key] * value;
        fourth += weights[3 * leading + key] * value;
      }
      add_wide(to + column, first), add_wide(to + width + column, second);
      add_wide(to + 2 * width + column, third), add_wide(to + 3 * width + column, fourth);
    }
    for (int64_t line = 0; line < 4; ++line) {
      add_columns(weights + line * leading, values, stride, size, to + line * width, whole, width);
    }
  }
  for (; lines > 0; --lines, weights += leading, to += width) {
    for (int64_t column = 0; column < whole; column += kWide) {
      Wide sum{};
      for (int64_t key = 0; key < size; ++key) sum += weights[key] * wide_at(values + key * stride + column);
      add_wide(to + column, sum);
    }
    add_columns(weights, values, stride, size, to, whole, width);
  }
}

}  // namespace
}  // namespace annotated_region_dnnl
