"""A piece of a program that may be one op, and the proof that a candidate is that op.

A reader looks at the piece and proposes calls to Relax ops. It need not be careful: a call is believed only
if TVM's own legalization of it has the same normal form as the piece.
"""

from __future__ import annotations

from functools import cached_property

import tvm
from tvm import relax

from annotated_region.op_info.loops import Block, NotNormalError, Program, Tensor, read_program
from annotated_region.op_info.loops.trees import Tree

__all__ = ["Segment", "lower"]


class Segment:
    """Consecutive blocks, with a Relax variable for each tensor that they read.

    Attributes
    ----------
    program
        The blocks.
    variables
        What candidates are called with, in the order of the inputs of the program.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.variables = tuple(
            relax.Var(f"x{index}", relax.TensorType(tensor.shape, tensor.dtype))
            for index, tensor in enumerate(self.inputs)
        )

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks in order."""
        return self.program.blocks

    @property
    def inputs(self) -> list[Tensor]:
        """Shape and dtype of what comes in."""
        return [self.program.tensors[buffer] for buffer in self.program.inputs]

    @property
    def outputs(self) -> list[Tensor]:
        """Shape and dtype of what goes out."""
        return [self.program.tensors[buffer] for buffer in self.program.outputs]

    def variable(self, buffer: int) -> relax.Var:
        """The variable of an input."""
        return self.variables[self.program.inputs.index(buffer)]

    @cached_property
    def constants(self) -> list[float]:
        """The numbers that are computed with."""
        return self.program.constants

    @cached_property
    def key(self) -> Tree:
        """What is compared."""
        return self.program.key({buffer: ("in", i) for i, buffer in enumerate(self.program.inputs)})

    def is_computed_by(self, call: relax.Call) -> relax.Call | None:
        """The candidate with its type, if its legalization is this piece; None if not."""
        lowered = lower(call)
        if lowered is None:
            return None
        typed, func, args = lowered
        positions = {variable: index for index, variable in enumerate(self.variables)}
        try:
            program = read_program(func)
            names = {buffer: ("in", positions[args[buffer]]) for buffer in program.inputs}
        except (NotNormalError, KeyError):
            return None
        # An argument that the code never reads leaves no trace, so nothing proves what it was.
        if len(program.inputs) != len(args) or {positions[arg] for arg in args} != set(range(len(positions))):
            return None
        return typed if program.key(names) == self.key else None


def lower(call: relax.Call) -> tuple[relax.Call, tvm.tirx.PrimFunc, list[relax.Expr]] | None:
    """The call with its type, and the PrimFunc and the arguments that its legalization gives.

    None if TVM refuses the call, or its legalization is something else than one ``call_tir``.
    """
    builder = relax.BlockBuilder()
    try:
        typed = builder.normalize(call)
        lowered = typed.op.get_attr("FLegalize")(builder, typed)
    except Exception:  # TVM raises all sorts for attributes that make no sense; then it is no candidate
        return None
    is_call = isinstance(lowered, relax.Call) and isinstance(lowered.op, tvm.ir.Op)
    if not is_call or lowered.op.name != "relax.call_tir":
        return None
    return typed, builder.get()[lowered.args[0]], list(lowered.args[1].fields)
