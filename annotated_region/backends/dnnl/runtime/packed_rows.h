// Products of rows with packed weights: the work of a step, divided among threads.

namespace annotated_region_dnnl {

constexpr int64_t kMostPackedRows = 16;    // above, expanding the weights to bytes or floats pays
constexpr int64_t kLeastRowsOfShare = 32;  // each share expands its tiles to bytes

// Copies rows, padded with zeros to the depth of the last group of the weights.
inline void pad_rows(const float* from, int64_t rows, int64_t depth, float* to, int64_t padded) {
  for (int64_t row = 0; row < rows; ++row, from += depth, to += padded) {
    std::copy(from, from + depth, to);
    std::fill(to + depth, to + padded, 0.0f);
  }
}

// One of the products of a step: its weight, and the indices of its pointers among those of the step; a negative bias
// index means none.
struct PackedPart {
  PackedWeight weight;
  int stored, bias, result;
};

// A tile of a product of a step, or several adjacent ones: its address, and the address of its columns of the result.
struct PackedTile {
  const PackedWeight& weight;
  const char* stored;
  const float* bias;
  float* to;
  int64_t width;

  PackedTile(const PackedPart& part, const std::vector<char*>& pointers, int64_t index, int64_t count)
      : weight(part.weight), stored(pointers[part.stored] + index * weight.tile_bytes()),
        bias(part.bias < 0 ? nullptr : floats(pointers[part.bias]) + index * kTileColumns),
        to(floats(pointers[part.result]) + index * kTileColumns),
        width(std::min(count * kTileColumns, weight.columns - index * kTileColumns)) {}

  void multiply_floats(Level level, const float* from, int64_t first, int64_t rows) const {
    const int64_t depth = weight.padded_depth();
    multiply_tile(weight, level, stored, from + first * depth, depth, rows, bias, to + first * weight.columns, width);
  }

  // The result of the rows from `first` on.
  TileResult result(int64_t first) const { return {to + first * weight.columns, weight.columns, bias, width}; }
};

// Products of the same rows with one or more weights of the same depth, group size and bits.
struct PackedRows {
  std::vector<PackedPart> parts;
  int64_t rows;
  Level level;
  DigitFormat format;

  const PackedWeight& weight() const { return parts.front().weight; }
  int64_t depth() const { return weight().depth; }
  int64_t padded_depth() const { return weight().padded_depth(); }
  size_t padded_bytes(int64_t count) const {
    return padded_depth() == depth() ? 0 : rounded(count * padded_depth() * static_cast<int64_t>(sizeof(float)));
  }
  size_t row_bytes() const { return format.digits > 0 ? rounded(digit_bytes(weight(), format.digits)) : 0; }

  bool has_zeros() const {
    return std::any_of(parts.begin(), parts.end(), [](const PackedPart& part) { return part.weight.has_zeros; });
  }

  int64_t tiles() const {
    int64_t count = 0;
    for (const PackedPart& part : parts) count += part.weight.tiles();
    return count;
  }

  // Calls `action` with a range of the tiles, which are numbered across all products, up to `most` of a weight at once.
  template <typename Action>
  void each_tile(const std::vector<char*>& pointers, int64_t first, int64_t last, int64_t most, Action action) const {
    for (const PackedPart& part : parts) {
      const int64_t count = part.weight.tiles(), end = std::min(last, count);
      for (int64_t tile = std::max<int64_t>(first, 0); tile < end; tile += most) {
        action(PackedTile(part, pointers, tile, std::min(most, end - tile)));
      }
      first -= count, last -= count;
    }
  }

  static size_t rounded(int64_t bytes) { return round_up(static_cast<size_t>(bytes), kAlignment); }
};

// The digits with which few rows are multiplied; 0 as floats. With more rows than one, one after the other meets each tile,
// which the first has brought into the second-level cache. That pays on AMD's processors, where it was measured: on a
// Zen 4 (EPYC) with weights that no cache holds (4 bits in groups of 32), 16 rows take 9.0 cycles a row and 64 bytes of weights as floats,
// and 7.2, 5.3 and 4.0 in three digits, two and one; 2 rows 13.7, and 8.7, 7.3 and 5.8. With 8 bits these are 5.1, 3.6, 2.6 and 2.8; and 9.5,
// 5.1, 4.8 and 6.5.
inline int64_t digits_of_few(int64_t rows, int64_t digits) { return rows == 1 || reads_one_stream() ? digits : 0; }

inline size_t few_rows_scratchpad(const PackedRows& work) {
  const int64_t threads = omp_get_max_threads(), rows = work.rows;
  return work.padded_bytes(rows) + threads * rows * work.row_bytes() + WorkShares::bytes(threads);
}

// The digits of few rows, in the memory of a thread; some rows may have none.
class FewDigits {
 public:
  FewDigits(const PackedRows& work, const float* from, char* memory) : work_(work), from_(from), memory_(memory) {
    const PackedWeight& weight = work.weight();
    const bool wanted = work.format.digits > 0;
    for (int64_t row = 0; row < work.rows; ++row) {
      has_[row] = wanted && make_digits(weight, from + row * weight.padded_depth(), of(row));
      has_all_ = has_all_ && has_[row];
    }
  }

  // How many tiles are multiplied at a time: floats take one.
  int64_t tiles() const { return has_all_ ? tiles_at_once() : 1; }

  void multiply(const PackedTile& tile) const {
    if (work_.format.digits == 0) return tile.multiply_floats(work_.level, from_, 0, work_.rows);
    for (int64_t row = 0; row < work_.rows; ++row) {
      if (!has_[row]) {
        tile.multiply_floats(work_.level, from_, row, 1);
        continue;
      }
      multiply_digits(tile.weight, tile.stored, of(row), tile.bias, tile.to + row * tile.weight.columns, tile.width);
    }
  }

 private:
  DigitRow of(int64_t row) const {
    return digit_row(work_.weight(), work_.format.digits, memory_ + row * static_cast<int64_t>(work_.row_bytes()));
  }

  const PackedRows& work_;
  const float* from_;
  char* memory_;
  bool has_[kMostPackedRows];
  bool has_all_ = true;
};

// Each thread computes the digits of the rows itself, because that is faster than reading them from another processor's
// cache.
inline Kernel few_packed_rows(const PackedRows& work) {
  const int64_t threads = omp_get_max_threads();
  return [work, threads, tiles = work.tiles()](const std::vector<char*>& pointers) {
    const PackedWeight& weight = work.weight();
    const float* from = floats(pointers[0]);
    if (work.padded_bytes(1) > 0) {
      pad_rows(from, work.rows, weight.depth, floats(pointers.back()), weight.padded_depth());
      from = floats(pointers.back());
    }
    char* const rows = pointers.back() + work.padded_bytes(work.rows);
    const int64_t bytes = work.rows * static_cast<int64_t>(work.row_bytes());
    const int64_t wanted = std::min<int64_t>(help_is_worth() > 0 ? helpers() + 1 : 1, threads);
    const WorkShares left(rows + threads * bytes, tiles, wanted, tiles_at_once());
#pragma omp parallel num_threads(wanted)
    if (!left.is_empty()) {
      const int64_t share = omp_get_thread_num();
      const FewDigits digits(work, from, rows + share * bytes);
      left.each(share, [&](int64_t first, int64_t last) {
        work.each_tile(pointers, first, last, digits.tiles(), [&](const PackedTile& tile) { digits.multiply(tile); });
      });
    }
  };
}

// The rows that are processed together: all of them, or blocks of about the same size.
inline int64_t rows_of_block(const PackedRows& work) {
  const int64_t blocks = (work.rows + kRowsAtOnce - 1) / kRowsAtOnce;
  return (work.rows + blocks - 1) / blocks;
}

// The scratchpad of a block of rows: the padded rows, their digits, and the memory of each thread for a tile.
struct BlockMemory {
  size_t digits, shares, share;  // the offsets of the parts; the bytes of a share

  explicit BlockMemory(const PackedRows& work) {
    const int64_t rows = rows_of_block(work);
    digits = work.padded_bytes(rows);
    shares = digits + PackedRows::rounded(DigitBlock::bytes(work.weight(), work.format, rows));
    share = PackedRows::rounded(block_bytes(work.weight(), work.format, rows));
  }

  size_t bytes() const { return shares + omp_get_max_threads() * share; }
};

// A block of rows: its digits, and its products with all tiles.
struct PackedBlock {
  const PackedRows& work;
  const std::vector<char*>& pointers;
  const BlockMemory memory;
  int64_t first, rows;  // among all rows
  const float* from;    // the rows of the block, padded to the depth of the weights
  DigitBlock digits;

  PackedBlock(const PackedRows& given, const std::vector<char*>& all, int64_t begin)
      : work(given), pointers(all), memory(given), first(begin), rows(std::min(rows_of_block(given), given.rows - begin)),
        from(memory.digits > 0 ? floats(all.back()) : floats(all[0]) + begin * given.depth()),
        digits(given.weight(), given.format, rows, given.has_zeros(), all.back() + memory.digits) {}

  void make_digits_of_all() const {
    const int64_t depth = work.padded_depth();
#pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row) {
      if (memory.digits > 0) {
        pad_rows(floats(pointers[0]) + (first + row) * work.depth(), 1, work.depth(),
                 floats(pointers.back()) + row * depth, depth);
      }
      digits.absent[row] = !make_lines(work.weight(), from + row * depth, digits, row);
    }
  }

  // With more threads than tiles, the rows of a tile are divided among several threads.
  void multiply() const {
    const int64_t tiles = work.tiles(), wanted = (2 * omp_get_max_threads() + tiles - 1) / tiles;
    const int64_t parts = std::max<int64_t>(1, std::min(wanted, rows / kLeastRowsOfShare));
    const int64_t part_rows = work.format.with_padding((rows + parts - 1) / parts);
#pragma omp parallel for
    for (int64_t item = 0; item < tiles * parts; ++item) {
      const int64_t begin = item % parts * part_rows, end = std::min(rows, begin + part_rows);
      char* const mine = pointers.back() + memory.shares + omp_get_thread_num() * memory.share;
      if (begin >= end) continue;
      work.each_tile(pointers, item / parts, item / parts + 1, 1,
                     [&](const PackedTile& tile) { multiply(tile, begin, end, mine); });
    }
  }

 private:
  void multiply(const PackedTile& tile, int64_t begin, int64_t end, char* mine) const {
    multiply_rows(tile.weight, tile.stored, digits, begin, end, tile.result(first), mine);
    for (int64_t row = begin; row < end; ++row) {
      if (digits.absent[row] != 0) multiply_as_floats(tile, row);
    }
  }

  void multiply_as_floats(PackedTile tile, int64_t row) const {
    tile.to += first * tile.weight.columns;
    tile.multiply_floats(work.level, from, row, 1);
  }
};

inline Kernel many_packed_rows(const PackedRows& work) {
  return [work](const std::vector<char*>& pointers) {
    for (int64_t first = 0; first < work.rows; first += rows_of_block(work)) {
      const PackedBlock block(work, pointers, first);
      block.make_digits_of_all();
      block.multiply();
    }
  };
}

}  // namespace annotated_region_dnnl
