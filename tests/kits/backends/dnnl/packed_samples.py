"""Weights of 4 and 8 bits as the library stores them, and the runtime's kernels compiled alone."""

from __future__ import annotations

import ctypes
import itertools
from pathlib import Path

import numpy as np

from annotated_region.backends.dnnl.packed_weight import PackedWeight, Words
from kits.backends.dnnl.processor_flags import processor_flags
from kits.backends.dnnl.programs import compiled_with_runtime

__all__ = ["SAMPLES", "Sample", "compiled", "has_whole_numbers", "pointer"]

PROGRAM = """
#include <sys/syscall.h>
#include <unistd.h>

#include <vector>
#include "vector_math.h"
#include "half_numbers.h"
#include "packed_weights.h"
#include "packed_digits.h"
#include "packed_lines.h"
#include "packed_panels.h"
#include "packed_blocks.h"
#include "packed_tiles.h"
#include "packed_pairs.h"
#include "packed_pair_products.h"
using namespace annotated_region_dnnl;
static PackedWeight weight_of(const int64_t* given) {
  return {given[0], given[1], given[2], given[3], given[4] != 0, given[5] != 0};
}
extern "C" int best() { return static_cast<int>(level()); }
extern "C" void multiply(const int64_t* given, int wanted, const char* stored, const float* from,
                         int64_t rows, const float* bias, float* to) {
  const PackedWeight weight = weight_of(given);
  const int64_t depth = weight.padded_depth();
  for (int64_t tile = 0; tile < weight.tiles(); ++tile) {
    const int64_t first = tile * kTileColumns, width = std::min(kTileColumns, weight.columns - first);
    const char* const at = stored + tile * weight.tile_bytes();
    multiply_tile(weight, static_cast<Level>(wanted), at, from, depth, rows, bias + first, to + first, width);
  }
}
extern "C" int64_t most_tiles_at_once() { return kMostTilesAtOnce; }
extern "C" int multiply_in_digits(const int64_t* given, int64_t digits, int64_t at_once, const char* stored,
                                  const float* from, const float* bias, float* to) {
  const PackedWeight weight = weight_of(given);
  if (!takes_digits(weight)) return 2;
  std::vector<char> memory(static_cast<size_t>(digit_bytes(weight, digits)));
  const DigitRow row = digit_row(weight, digits, memory.data());
  if (!make_digits(weight, from, row)) return 1;
  for (int64_t tile = 0; tile < weight.tiles(); tile += at_once) {
    const int64_t first = tile * kTileColumns, left = weight.columns - first;
    const int64_t width = std::min(at_once * kTileColumns, left);
    const char* const at = stored + tile * weight.tile_bytes();
    multiply_digits(weight, at, row, bias + first, to + first, width);
  }
  return 0;
}
extern "C" int may_use_tiles() {  // ARCH_REQ_XCOMP_PERM of the state of tiles
  return syscall(SYS_arch_prctl, 0x1023, 18) == 0;
}
struct Aligned {
  std::vector<char> bytes;
  explicit Aligned(int64_t size) : bytes(static_cast<size_t>(size) + 64, '\\xff') {}  // NaN
  char* data() { return bytes.data() + -reinterpret_cast<uintptr_t>(bytes.data()) % 64; }
};
extern "C" int multiply_rows_in_digits(const int64_t* given, int64_t digits, int in_tiles, const char* stored,
                                       const float* from, int64_t rows, float* to) {
  const PackedWeight weight = weight_of(given);
  if (!takes_digits(weight) || (in_tiles && tile_depth(weight.group) == 0)) return 2;
  const DigitFormat format{digits, in_tiles != 0};
  Aligned memory(DigitBlock::bytes(weight, format, rows)), space(block_bytes(weight, format, rows));
  const DigitBlock all(weight, format, rows, weight.has_zeros, memory.data());
  for (int64_t row = 0; row < rows; ++row) {
    if (!make_lines(weight, from + row * weight.padded_depth(), all, row)) return 1;
  }
  for (int64_t tile = 0; tile < weight.tiles(); ++tile) {
    const int64_t first = tile * kTileColumns, width = std::min(kTileColumns, weight.columns - first);
    const char* const at = stored + tile * weight.tile_bytes();
    multiply_rows(weight, at, all, 0, rows, {to + first, weight.columns, nullptr, width}, space.data());
  }
  return 0;
}
extern "C" void multiply_rows_in_bfloat16(const int64_t* given, int in_tiles, const char* stored,
                                          const float* from, int64_t rows, const float* bias, float* to) {
  const PackedWeight weight = weight_of(given);
  const DepthSpans spans{weight.depth};
  const int64_t blocks = (rows + kPairBlockRows - 1) / kPairBlockRows;
  Aligned rounded(blocks * spans.bytes()), expanded(kSlices * spans.bytes());
  Aligned kept(blocks * kSlices * kPairBlockSums * 4);
  for (int64_t index = 0; index < spans.count(); ++index) {
    const DepthSpan span = spans.at(index);
    for (int64_t row = 0; row < rows; row += kPairBlockRows) {
      round_rows(from + row * weight.depth, weight.depth, std::min(kPairBlockRows, rows - row), span,
                 rounded.data() + row / kPairBlockRows * span.bytes());
    }
    for (int64_t tile = 0; tile < weight.tiles(); ++tile) {
      const int64_t first = tile * kTileColumns, width = std::min(kTileColumns, weight.columns - first);
      expand_to_pairs(weight, stored + tile * weight.tile_bytes(), span, expanded.data());
      float* const sums = reinterpret_cast<float*>(kept.data());
      const PairOperands operands{rounded.data(), expanded.data(), span, in_tiles != 0, sums};
      const float* const added = bias == nullptr ? nullptr : bias + first;
      multiply_pairs(operands, 0, rows, {to + first, weight.columns, added, width});
    }
  }
}
extern "C" void unpack(const int64_t* given, int wanted, const char* stored, float* to) {
  const PackedWeight weight = weight_of(given);
  for (int64_t tile = 0; tile < weight.tiles(); ++tile) {
    const int64_t first = tile * kTileColumns, width = std::min(kTileColumns, weight.columns - first);
    const char* const at = stored + tile * weight.tile_bytes();
    tile_unpacker(weight, static_cast<Level>(wanted))(weight, at, to + first, weight.columns, width);
  }
}
"""


def compiled(folder: Path) -> ctypes.CDLL:
    """The kernels, by the functions of `PROGRAM`."""
    return compiled_with_runtime(PROGRAM, folder)


def has_whole_numbers() -> bool:
    """Whether the processor has the instructions of products in whole numbers."""
    return {"avx512_vnni", "avx512bw", "avx512dq", "avx512vl", "bmi2"} <= processor_flags()


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    """Where the elements of an array lie."""
    return ctypes.c_void_p(array.ctypes.data)


class Sample:
    """A weight of random numbers: as it is stored, and as floats [depth, columns].

    With `halves`, its scales and zero points are numbers that float16 holds, and are stored so.
    """

    def __init__(
        self,
        bits: int,
        depth: int,
        columns: int,
        group: int,
        zeros: bool,
        halves: bool = False,
        seed: int = 0,
    ) -> None:
        rng = np.random.default_rng(seed)
        groups = -(-depth // group)
        numbers = rng.integers(0, 2**bits, (columns, groups * group), "uint8")
        scales = rng.random(columns * groups, "float32") / np.float32(2**bits)
        if halves:
            scales = scales.astype("float16").astype("float32")
        points = rng.integers(0, 2**bits, columns * groups, "uint8") if zeros else None
        middle = 2 ** (bits - 1)
        pairs = numbers[:, 0::2] | numbers[:, 1::2] << 4 if bits == 4 else numbers
        self.constants = {"words": pairs, "scales": scales, **({} if points is None else {"zeros": points})}
        held = middle if points is None else "zeros"
        self.stored = PackedWeight(Words("words", bits), "scales", held, depth, columns, group, halves)
        assert self.stored.fits_halves(self.constants.__getitem__) == halves
        zero = np.full(columns * groups, middle) if points is None else points
        shifted = numbers.reshape(-1, group).astype("float32") - zero[:, None].astype("float32")
        self.floats = (shifted * scales[:, None]).reshape(columns, -1)[:, :depth].T

    def described(self) -> ctypes.Array[ctypes.c_int64]:
        """The fields of the struct of the runtime."""
        stored = self.stored
        extents = (stored.depth, stored.columns, stored.stored_group, stored.bits)
        return (ctypes.c_int64 * 6)(*extents, stored.has_zeros, stored.halves)

    def bytes(self) -> np.ndarray:
        """What lies in the library, at an address as there."""
        made = self.stored.value(self.constants.__getitem__)
        assert made.size == self.stored.size
        space = np.empty(made.size + 64, np.uint8)
        first = -space.ctypes.data % 64
        space[first : first + made.size] = made
        return space[first : first + made.size]


SAMPLES = [
    (bits, *extents, zeros, halves)
    for bits, extents, zeros, halves in itertools.product(
        (4, 8), ((64, 64, 32), (96, 70, 96), (80, 130, 32), (8, 3, 8)), (False, True), (False, True)
    )
]
