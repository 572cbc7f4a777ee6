// Products of many rows with packed weights in bfloat16: the work of a step, divided among threads.

namespace annotated_region_dnnl {

// The rows that are processed together: all of them, or as many whole blocks in each part. A span of them takes up to 1 MB.
inline int64_t rows_of_pair_part(const PackedRows& work) {
  const int64_t most = DepthSpans{work.depth()}.steps() > kMostSteps / 2 ? kRowsAtOnce / 2 : kRowsAtOnce;
  const int64_t parts = (work.rows + most - 1) / most, rows = (work.rows + parts - 1) / parts;
  return (rows + kPairBlockRows - 1) / kPairBlockRows * kPairBlockRows;
}

// The scratchpad: a span of the rows, and the memory of each thread for that of a tile, and for sums.
struct PairMemory {
  DepthSpans spans;
  int64_t rows, weights, share;  // bytes

  explicit PairMemory(const PackedRows& work)
      : spans{work.depth()}, rows(rows_of_pair_part(work) / kPairBlockRows * spans.bytes()),
        weights(kSlices * spans.bytes()),
        share(weights + rows_of_pair_part(work) * kTileColumns * static_cast<int64_t>(sizeof(float))) {}

  size_t bytes() const { return static_cast<size_t>(rows + omp_get_max_threads() * share); }
};

// A span of some rows, and their products with all tiles.
struct PairPart {
  const PackedRows& work;
  const std::vector<char*>& pointers;
  const PairMemory& memory;
  DepthSpan span;
  int64_t first, rows;  // among all rows

  void round() const {
    const float* const from = floats(pointers[0]) + first * work.depth();
#pragma omp parallel for
    for (int64_t row = 0; row < rows; row += kPairBlockRows) {
      char* const to = pointers.back() + row / kPairBlockRows * span.bytes();
      round_rows(from + row * work.depth(), work.depth(), std::min(kPairBlockRows, rows - row), span, to);
    }
  }

  // With more threads than tiles, the rows of a tile are divided among several threads.
  void multiply() const {
    const int64_t tiles = work.tiles(), blocks = (rows + kPairBlockRows - 1) / kPairBlockRows;
    const int64_t wanted = (2 * omp_get_max_threads() + tiles - 1) / tiles, parts = std::min(wanted, blocks);
    const int64_t part_rows = (blocks + parts - 1) / parts * kPairBlockRows;
#pragma omp parallel for
    for (int64_t item = 0; item < tiles * parts; ++item) {
      const int64_t begin = item % parts * part_rows, end = std::min(rows, begin + part_rows);
      char* const mine = pointers.back() + memory.rows + omp_get_thread_num() * memory.share;
      if (begin >= end) continue;
      work.each_tile(pointers, item / parts, item / parts + 1, 1, [&](const PackedTile& tile) {
        expand_to_pairs(tile.weight, tile.stored, span, mine);
        const PairOperands operands{pointers.back(), mine, span, work.format.in_tiles, floats(mine + memory.weights)};
        multiply_pairs(operands, begin, end, tile.result(first));
      });
    }
  }
};

inline Kernel many_rounded_rows(const PackedRows& work) {
  return [work, memory = PairMemory(work)](const std::vector<char*>& pointers) {
    const int64_t size = rows_of_pair_part(work);
    for (int64_t first = 0; first < work.rows; first += size) {
      for (int64_t index = 0; index < memory.spans.count(); ++index) {
        const int64_t rows = std::min(size, work.rows - first);
        const PairPart part{work, pointers, memory, memory.spans.at(index), first, rows};
        part.round();
        part.multiply();
      }
    }
  };
}

}  // namespace annotated_region_dnnl
