"""Weights of 4 bits as GPTQ, AWQ and MLC store them, and the ops that unpack and scale them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op

__all__ = ["Chain", "module_with", "packed"]

Emit = Callable[[relax.Expr], relax.Var]
EACH = 8
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


@dataclass(frozen=True)
class Chain:
    """Numbers of a weight [depth, columns], with scales and zero points [depth / group, columns]."""

    words: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray
    group: int

    @staticmethod
    def random(depth: int, columns: int, group: int, dtype: str = "float32", seed: int = 0) -> Chain:
        """Words and zero points of 4 bits."""
        rng = np.random.default_rng(seed)
        shape = (depth // group, columns)
        scales = (rng.random(shape) / 16 + 0.01).astype(dtype)
        return Chain(rng.integers(0, 16, (depth, columns)), scales, rng.integers(0, 15, shape), group)

    def floats(self, zeros: np.ndarray | int | None = None) -> np.ndarray:
        """What the words stand for, in double precision."""
        taken = self.zeros if zeros is None else np.broadcast_to(zeros, self.scales.shape)
        spread = [np.repeat(each, self.group, axis=0) for each in (taken, self.scales.astype("float64"))]
        found: np.ndarray = (self.words - spread[0]) * spread[1]
        return found


def packed(numbers: np.ndarray, axis: int, order: tuple[int, ...] = tuple(range(EACH))) -> np.ndarray:
    """Eight numbers of an axis in each uint32, `order` naming the number of each place, the lowest first."""
    parts = np.moveaxis(numbers, axis, -1).astype("uint32")
    parts = parts.reshape(*parts.shape[:-1], -1, EACH)
    words = np.zeros(parts.shape[:-1], "uint32")
    for place, number in enumerate(order):
        words |= parts[..., number] << np.uint32(4 * place)
    return np.ascontiguousarray(np.moveaxis(words, -1, axis))


def _unpacked(emit: Emit, words: np.ndarray, axis: int, shape: tuple[int, ...]) -> relax.Expr:
    """The numbers of int32 words, those of a word behind each other along an axis."""
    extents = [EACH if each == axis + 1 else 1 for each in range(3)]
    shifts = np.arange(0, 32, 4, dtype="int32").reshape(extents)
    wide = emit(op.expand_dims(relax.const(words.view("int32")), axis + 1))
    masked = emit(op.bitwise_and(emit(op.right_shift(wide, relax.const(shifts))), relax.const(15, "int32")))
    return emit(op.reshape(masked, shape))


def gptq(chain: Chain, emit: Emit) -> relax.Expr:
    """Words along the depth; zero points along the columns, stored less one."""
    (depth, columns), groups = chain.words.shape, len(chain.scales)
    words = _unpacked(emit, packed(chain.words, 0), 0, (groups, chain.group, columns))
    stored = _unpacked(emit, packed(chain.zeros - 1 & 15, 1), 1, (groups, 1, columns))
    zeros = emit(op.bitwise_and(emit(op.add(stored, relax.const(1, "int32"))), relax.const(15, "int32")))
    shifted = emit(op.astype(emit(op.subtract(words, zeros)), chain.scales.dtype.name))
    scales = relax.const(chain.scales.reshape(groups, 1, columns))
    return emit(op.reshape(emit(op.multiply(scales, shifted)), (depth, columns)))


def awq(chain: Chain, emit: Emit) -> relax.Expr:
    """Words along the columns, even ones before odd ones; scales repeated for each row."""
    columns, dtype = chain.words.shape[1], chain.scales.dtype.name
    back = np.concatenate([np.argsort(AWQ_ORDER) + first for first in range(0, columns, EACH)])
    parts = []
    for numbers in (chain.words, chain.zeros):
        stored = _unpacked(emit, packed(numbers, 1, AWQ_ORDER), 1, (len(numbers), columns))
        ordered = emit(op.take(stored, relax.const(back.astype("int64")), axis=1))
        parts.append(emit(op.astype(emit(op.astype(ordered, "int8")), dtype)))
    words, zeros = parts
    zeros, scales = (emit(op.repeat(each, chain.group, 0)) for each in (zeros, relax.const(chain.scales)))
    return emit(op.multiply(emit(op.subtract(words, zeros)), scales))


def mlc(chain: Chain, emit: Emit) -> relax.Expr:
    """The ops of q4f32_1: columns first, words along the depth, a zero point of 7 for all."""
    depth, columns = chain.words.shape
    dtype = chain.scales.dtype.name
    shifts = np.arange(0, 32, 4, dtype="uint32")
    wide = emit(op.expand_dims(relax.const(packed(chain.words.T, 1)), 2))
    masked = emit(op.bitwise_and(emit(op.right_shift(wide, relax.const(shifts))), relax.const(15, "uint32")))
    words = emit(op.astype(emit(op.reshape(masked, (columns, depth // chain.group, chain.group))), dtype))
    shifted = emit(op.subtract(words, relax.const(7, dtype)))
    scaled = emit(op.multiply(shifted, relax.const(np.ascontiguousarray(chain.scales.T)[..., None])))
    return emit(op.permute_dims(emit(op.reshape(scaled, (columns, depth)))))


CHAINS = {"gptq": gptq, "awq": awq, "mlc": mlc}


def module_with(chain: Chain, *names: str) -> tvm.IRModule:
    """``x @ weight`` of any number of rows, for the weight of each name."""
    dtype = chain.scales.dtype.name
    x = relax.Var("x", relax.TensorType((tvm.tirx.Var("rows", "int64"), len(chain.words)), dtype))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            outputs = []
            for name in names:
                weight = CHAINS[name](chain, builder.emit)
                outputs.append(builder.emit_output(op.matmul(x, weight)))
        builder.emit_func_output(relax.Tuple(outputs))
    return builder.finalize()
