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

using WideOrder = int32_t __attribute__((vector_size(sizeof(Wide))));

// In each 128 bits: the sums of the four lanes there, of the first register, the second, the third and the fourth.
inline __attribute__((always_inline)) Wide sums_of_lanes(Wide first, Wide second, Wide third, Wide fourth) {
  constexpr WideOrder kLow{0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29};
  constexpr WideOrder kHigh{2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31};
  constexpr WideOrder kFirst{0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29};
  constexpr WideOrder kSecond{2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31};
  const Wide left = __builtin_shuffle(first, second, kLow) + __builtin_shuffle(first, second, kHigh);
  const Wide right = __builtin_shuffle(third, fourth, kLow) + __builtin_shuffle(third, fourth, kHigh);
  return __builtin_shuffle(left, right, kFirst) + __builtin_shuffle(left, right, kSecond);
}

// The products of four lines with groups of four keys, `stride` apart: sixteen sums stay in registers. Processors without
// AVX-512 have too few of them.
ANNOTATED_REGION_CLONES void multiply_four_keys(const float* lines, int64_t depth, const float* keys, int64_t stride,
                                                int64_t size, float* scores, int64_t leading) {
  const int64_t whole = depth / kWide * kWide;
  for (int64_t index = 0; index < size; index += 4, keys += 4 * stride) {
    Wide sums[4][4] = {};
#pragma GCC unroll 4
    for (int64_t key = 0; key < 4; ++key) prefetch_row(keys + (key + kRowsAhead) * stride, depth);
    for (int64_t item = 0; item < whole; item += kWide) {
      const Wide first = wide_at(keys + item), second = wide_at(keys + stride + item);
      const Wide third = wide_at(keys + 2 * stride + item), fourth = wide_at(keys + 3 * stride + item);
#pragma GCC unroll 4
      for (int64_t line = 0; line < 4; ++line) {
        const Wide numbers = wide_at(lines + line * depth + item);
        sums[line][0] += numbers * first, sums[line][1] += numbers * second;
        sums[line][2] += numbers * third, sums[line][3] += numbers * fourth;
      }
    }
#pragma GCC unroll 4
    for (int64_t line = 0; line < 4; ++line) {
      Four found = quarter_sums(sums_of_lanes(sums[line][0], sums[line][1], sums[line][2], sums[line][3]));
      for (int64_t item = whole; item < depth; ++item) {
        for (int64_t key = 0; key < 4; ++key) found[key] += lines[line * depth + item] * keys[key * stride + item];
      }
      std::memcpy(scores + line * leading + index, &found, sizeof found);
    }
  }
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

// Adds values times the weights of four lines to their sums, of two registers of columns at a time: eight sums hide the
// latency of an addition.
ANNOTATED_REGION_CLONES void add_wide_values(const float* weights, int64_t leading, const float* values, int64_t stride,
                                             int64_t size, float* to, int64_t width) {
  for (int64_t column = 0; column + 2 * kWide <= width; column += 2 * kWide) {
    Wide sums[4][2] = {};
    const float* next = values + column;
    for (int64_t key = 0; key < size; ++key, next += stride) {
      if (column == 0) prefetch_row(next + kRowsAhead * stride, width);
      const Wide left = wide_at(next), right = wide_at(next + kWide);
#pragma GCC unroll 4
      for (int64_t line = 0; line < 4; ++line) {
        sums[line][0] += weights[line * leading + key] * left;
        sums[line][1] += weights[line * leading + key] * right;
      }
    }
#pragma GCC unroll 4
    for (int64_t line = 0; line < 4; ++line) {
      add_wide(to + line * width + column, sums[line][0]), add_wide(to + line * width + column + kWide, sums[line][1]);
    }
  }
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

// The same with the kernel for the processor.
inline void multiply_rows_of_keys(const float* lines, int64_t count, int64_t depth, const float* keys, int64_t stride,
                                  int64_t size, float* scores, int64_t leading) {
  const int64_t fours = level() == Level::avx512 ? size / 4 * 4 : 0;
  const int64_t together = count / 4 * 4;
  for (int64_t line = 0; line < together && fours > 0; line += 4) {
    multiply_four_keys(lines + line * depth, depth, keys, stride, fours, scores + line * leading, leading);
  }
  if (fours == 0) return multiply_keys(lines, count, depth, keys, stride, size, scores, leading);
  multiply_keys(lines, together, depth, keys + fours * stride, stride, size - fours, scores + fours, leading);
  multiply_keys(lines + together * depth, count - together, depth, keys, stride, size, scores + together * leading,
                leading);
}

inline void add_rows_of_values(const float* weights, int64_t leading, int64_t lines, const float* values,
                               int64_t stride, int64_t size, float* to, int64_t width) {
  const bool is_wide = level() == Level::avx512 && width % (2 * kWide) == 0;
  const int64_t together = is_wide ? lines / 4 * 4 : 0;
  for (int64_t line = 0; line < together; line += 4) {
    add_wide_values(weights + line * leading, leading, values, stride, size, to + line * width, width);
  }
  add_values(weights + together * leading, leading, lines - together, values, stride, size, to + together * width, width);
}

}  // namespace
}  // namespace annotated_region_dnnl
