"""A segment of a program that may be one op, and the proof that a candidate is that op.

A reader inspects the segment and proposes calls to Relax ops. It may propose freely: a call is accepted only
if TVM's own legalization of it has the same normal form as the segment.
"""

from __future__ import annotations

from functools import cached_property

import tvm
from tvm import relax

from annotated_region.op_info.loops import Block, LoopTensor, NotNormalError, Program, read_program
from annotated_region.op_info.loops.trees import Extent, Tree
from annotated_region.tvm_adapter.nodes import BufferType, PrimExpr
from annotated_region.tvm_adapter.types import expect, shape_of

__all__ = ["Segment", "lower"]


class Segment:
    """Consecutive blocks, with a Relax variable for each tensor that they read.

    Attributes
    ----------
    program
        The blocks.
    variables
        The arguments of candidates, in the order of the inputs of the program.
    spare
        Variables for the tensors that the program receives and does not read.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self._sizes: dict[Tree, tvm.tirx.Var] = {}
        self.variables = tuple(map(self._variable, program.inputs))
        self.spare = tuple(map(self._variable, program.unread))
        buffers = (*program.inputs, *program.unread)
        self._buffers: dict[relax.Var, int] = dict(zip((*self.variables, *self.spare), buffers, strict=True))

    def _variable(self, buffer: int) -> relax.Var:
        tensor = self.program.tensors[buffer]
        return relax.Var(f"x{buffer}", relax.TensorType(list(map(self._extent, tensor.shape)), tensor.dtype))

    def _extent(self, extent: Extent) -> int | PrimExpr:
        if isinstance(extent, int):
            return extent
        total: PrimExpr = extent[1]
        for atom, factor in extent[2]:
            total = total + factor * self._sizes.setdefault(atom, tvm.tirx.Var(f"n{atom[1]}", "int64"))
        return total

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks, in order."""
        return self.program.blocks

    @property
    def inputs(self) -> list[LoopTensor]:
        """Shapes and dtypes of the inputs."""
        return [self.program.tensors[buffer] for buffer in self.program.inputs]

    @property
    def outputs(self) -> list[LoopTensor]:
        """Shapes and dtypes of the outputs."""
        return [self.program.tensors[buffer] for buffer in self.program.outputs]

    @property
    def is_static(self) -> bool:
        """Whether all shapes are static."""
        return all(tensor.is_static for tensor in (*self.inputs, *self.outputs))

    def tensor(self, variable: relax.Var) -> LoopTensor:
        """Shape and dtype of the tensor of a variable."""
        return self.program.tensors[self.buffer(variable)]

    def buffer(self, variable: relax.Var) -> int:
        """The buffer of a variable."""
        return self._buffers[variable]

    def variable(self, buffer: int) -> relax.Var:
        """The variable of an input."""
        return self.variables[self.program.inputs.index(buffer)]

    @cached_property
    def constants(self) -> list[float]:
        """The numbers in the computation."""
        return self.program.constants

    @cached_property
    def key(self) -> Tree:
        """The normal form that is compared."""
        return self.program.key({buffer: ("in", i) for i, buffer in enumerate(self.program.inputs)})

    def is_computed_by(self, call: relax.Call) -> relax.Call | None:
        """The candidate with its type, if its legalization is this segment; otherwise None."""
        lowered = lower(call)
        if lowered is None:
            return None
        typed, func, args = lowered
        positions = {variable: index for index, variable in enumerate(self.variables)}
        try:
            program = read_program(func, self._sizes_in(func, args))
            names = {buffer: ("in", positions[expect(relax.Var, args[buffer])]) for buffer in program.inputs}
        except (NotNormalError, KeyError):
            return None
        # The code does not determine a tensor that it never reads; it must be one of the unread parameters.
        unread = [arg for buffer, arg in enumerate(args) if buffer not in program.inputs]
        everything_is_read = {place for _, place in names.values()} == set(range(len(positions)))
        if not everything_is_read or any(arg not in self.spare for arg in unread):
            return None
        return typed if program.key(names) == self.key else None

    def _sizes_in(self, func: tvm.tirx.PrimFunc, args: list[relax.Expr]) -> dict[tvm.tirx.Var, Tree]:
        """The names in this segment of the size variables of a candidate's code."""
        names = {var: atom for atom, var in self._sizes.items()}
        return {
            inner: names[outer]
            for param, arg in zip(func.params, args, strict=False)
            if isinstance(param.ty, BufferType)
            for inner, outer in zip(param.shape, shape_of(arg).values, strict=True)
            if isinstance(inner, tvm.tirx.Var) and isinstance(outer, tvm.tirx.Var) and outer in names
        }


def lower(call: relax.Call) -> tuple[relax.Call, tvm.tirx.PrimFunc, list[relax.Expr]] | None:
    """The call with its type, and the PrimFunc and arguments of its legalization.

    None if TVM rejects the call, or its legalization is not a single ``call_tir``.
    """
    builder = relax.BlockBuilder()
    try:
        typed = expect(relax.Call, builder.normalize(call))
        lowered = expect(tvm.ir.Op, typed.op).get_attr("FLegalize")(builder, typed)
    except Exception:  # TVM raises various errors for invalid attributes; then it is no candidate
        return None
    if not isinstance(lowered, relax.Call) or not isinstance(lowered.op, tvm.ir.Op):
        return None
    if lowered.op.name != "relax.call_tir":
        return None
    func = builder.get()[expect(tvm.ir.GlobalVar, lowered.args[0])]
    return typed, expect(tvm.tirx.PrimFunc, func), list(expect(relax.Tuple, lowered.args[1]).fields)
