"""Splits a program into ops: greedily, the longest sequence of blocks that is one op."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import tvm
import tvm_ffi
from tvm import relax

from annotated_region.checked import checked
from annotated_region.op_info.attach import attached
from annotated_region.op_info.calls import info_of_call
from annotated_region.op_info.infer.creation import (
    read_fills,
    read_one_hot,
    read_ranges,
    read_shape,
    read_triangles,
)
from annotated_region.op_info.infer.elementwise import read_elementwise
from annotated_region.op_info.infer.images import read_resizes
from annotated_region.op_info.infer.movement import (
    read_dropout,
    read_joins,
    read_mirrors,
    read_moves,
    read_pad,
    read_split,
    read_take,
)
from annotated_region.op_info.infer.reductions import (
    read_matmul,
    read_norms,
    read_reductions,
    read_softmax,
)
from annotated_region.op_info.infer.scaled import read_prelu, read_quantization
from annotated_region.op_info.infer.segment import Segment
from annotated_region.op_info.infer.transposed import read_transposed_convolutions
from annotated_region.op_info.infer.windows import read_adaptive_pools, read_convolutions, read_pools
from annotated_region.op_info.info import Composition, Number, OpInfo, Parameter, Result, Source
from annotated_region.op_info.loops import NotNormalError, Program, read_program
from annotated_region.serial import one_at_a_time
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import expect, tensor_type

__all__ = ["composition_of", "infer_op_info", "op_infos", "proved_composition_of"]

LONGEST = 32
"""The maximum number of blocks that TVM lowers one op to."""

Reader = Callable[[Segment], Iterator[relax.Call]]

_READERS: tuple[Reader, ...] = (
    read_convolutions,
    read_transposed_convolutions,
    read_pools,
    read_adaptive_pools,
    read_softmax,
    read_matmul,
    read_reductions,
    read_norms,
    read_elementwise,
    read_moves,
    read_pad,
    read_mirrors,
    read_resizes,
    read_joins,
    read_take,
    read_split,
    read_dropout,
    read_fills,
    read_shape,
    read_ranges,
    read_triangles,
    read_one_hot,
    read_prelu,
    read_quantization,
)


@checked
def infer_op_info(prim_func: tvm.tirx.PrimFunc) -> OpInfo | None:
    """The op that a PrimFunc computes, from its loops, guards and index expressions alone.

    Names and attributes of the function are ignored.

    Parameters
    ----------
    prim_func
        A function as made by ``LegalizeOps``.

    Returns
    -------
    The info of the op; None if it is not recognized, or there are several. If several ops lower to the same
    code (``relu`` and ``maximum`` with 0), the more specific one.

    Notes
    -----
    Some milliseconds, mostly spent in legalizing the proposals.
    """
    composition = _inferred(prim_func)
    return composition.ops[0] if composition is not None and len(composition.ops) == 1 else None


@checked
def op_infos(prim_func: tvm.tirx.PrimFunc) -> tuple[OpInfo, ...] | None:
    """The ops inside a PrimFunc in execution order: attached, or else inferred.

    Returns
    -------
    The infos, whose `arg_roles` map each argument to a parameter or an earlier result; None if a part of the
    function is not recognized.

    Raises
    ------
    OpInfoError
        The attribute ``op_info`` is malformed.
    """
    composition = composition_of(prim_func)
    return None if composition is None else composition.ops


def composition_of(prim_func: tvm.tirx.PrimFunc) -> Composition | None:
    """The ops inside a PrimFunc and the results that it returns: attached, or else inferred."""
    return attached(prim_func) or _inferred(prim_func)


def proved_composition_of(prim_func: tvm.tirx.PrimFunc) -> Composition | None:
    """As `composition_of`, if TVM lowers these ops to the same code again; else None.

    Attached info may be more specific than inferred info (``relu``, not ``maximum`` with 0); but scheduled or
    handwritten code must not be replaced by raising it.
    """
    return None if _inferred(prim_func) is None else composition_of(prim_func)


_KNOWN: dict[int, list[tuple[tvm.tirx.PrimFunc, Composition | None]]] = {}
"""The compositions inferred in this process, by structural hash."""


@one_at_a_time
def _inferred(prim_func: tvm.tirx.PrimFunc) -> Composition | None:
    bucket = _KNOWN.setdefault(tvm_ffi.structural_hash(prim_func), [])
    for known, composition in bucket:
        if tvm_ffi.structural_equal(known, prim_func):
            return composition
    bucket.append((prim_func, _infer(prim_func)))
    return bucket[-1][1]


def _infer(prim_func: tvm.tirx.PrimFunc) -> Composition | None:
    try:
        return _Splitter(read_program(prim_func)).composition()
    except (NotNormalError, RecursionError):
        return None  # or an expression is nested too deeply, as that of a join of a thousand tensors


class _Splitter:
    """Splits the blocks of a program in one pass."""

    def __init__(self, program: Program) -> None:
        self.program = program
        given = (*program.inputs, *program.unread)
        self.sources: dict[int, Source] = {buffer: Parameter(buffer) for buffer in given}
        self.ops: list[OpInfo] = []

    def composition(self) -> Composition | None:
        """The ops; None if some blocks are not recognized."""
        start = 0
        while start < len(self.program.blocks):
            stop = self.take_from(start)
            if stop is None:
                return None
            start = stop
        outputs = [self.sources[buffer] for buffer in self.program.outputs]
        return Composition(tuple(self.ops), tuple(output for output in outputs if isinstance(output, Result)))

    def take_from(self, start: int) -> int | None:
        """Append the op of the longest recognized segment from `start`; returns its end."""
        for stop in range(min(len(self.program.blocks), start + LONGEST), start, -1):
            segment = Segment(self.program.part(start, stop))
            call = _recognised(segment)
            info = None if call is None else self.info_of(call, segment)
            if info is not None:
                self.append(info, segment)
                return stop
        return None

    def info_of(self, call: relax.Call, segment: Segment) -> OpInfo | None:
        return info_of_call(call, self.place_in(segment), segment.places(self.program).place)

    def append(self, info: OpInfo, segment: Segment) -> None:
        outputs = segment.program.outputs
        for field, buffer in enumerate(outputs):
            self.sources[buffer] = Result(len(self.ops), field if len(outputs) > 1 else None)
        self.ops.append(info)

    def place_in(self, segment: Segment) -> Callable[[relax.Expr], Source | None]:
        def place(expr: relax.Expr) -> Source | None:
            if isinstance(expr, relax.Var):
                return self.sources[segment.buffer(expr)]
            return Number(expect(Constant, expr).value.numpy()[()].item(), str(tensor_type(expr).dtype))

        return place


def _recognised(segment: Segment) -> relax.Call | None:
    """The first proposal that can be proved, or None."""
    proved = map(segment.is_computed_by, _proposals(segment))
    return next((call for call in proved if call is not None), None)


def _proposals(segment: Segment) -> Iterator[relax.Call]:
    for read in _READERS:
        try:
            yield from read(segment)
        except (tvm.error.InternalError, TypeError, ValueError):
            continue  # TVM rejects some attributes when the call is constructed
