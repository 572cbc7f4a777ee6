"""A segment of a program that may be one op, and the proof that a candidate is that op.

A reader inspects the segment and proposes calls to Relax ops. It may propose freely: a call is accepted only
if TVM's own legalization of it has the same normal form as the segment.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import cached_property

import tvm
from tvm import relax

from annotated_region.functions.polynomials import are_equal
from annotated_region.op_info.extents import ExtentPlaces, known_extents, parameters_at_call, types_in
from annotated_region.op_info.loops import Block, LoopTensor, NotNormalError, Program, read_program
from annotated_region.op_info.loops.trees import Extent, Tree
from annotated_region.tvm_adapter.nodes import BufferType, PrimExpr
from annotated_region.tvm_adapter.types import expect, shape_of

__all__ = ["Segment", "lower"]


_OPERATORS = {
    "product": operator.mul,
    "div": tvm.tirx.floordiv,
    "mod": tvm.tirx.floormod,
    "Max": tvm.tirx.Max,
    "Min": tvm.tirx.Min,
}


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
        return relax.Var(f"x{buffer}", relax.TensorType(self.shape(tensor.shape), tensor.dtype))

    def shape(self, extents: Sequence[Extent]) -> list[int | PrimExpr]:
        """Extents as expressions, for the arguments of candidates."""
        return [each if isinstance(each, int) else self.extent(each) for each in extents]

    def extent(self, form: Tree) -> PrimExpr:
        """A linear form of sizes as an expression."""
        total: PrimExpr = tvm.tirx.IntImm("int64", 0)
        for atom, factor in form[2]:
            total = total + self._atom(atom) * factor
        whole: PrimExpr = total + form[1]
        return whole

    def _atom(self, atom: Tree) -> PrimExpr:
        if atom[0] == "size":
            return self._sizes.setdefault(atom, tvm.tirx.Var(f"n{atom[1]}", "int64"))
        parts = [tvm.tirx.IntImm("int64", part) if isinstance(part, int) else part for part in atom[1:]]
        left, right = (self.extent(part) if isinstance(part, tuple) else part for part in parts[-2:])
        made: PrimExpr = _OPERATORS[atom[0]](left, right)
        return made

    def places(self, whole: Program) -> ExtentPlaces:
        """Where the parameters of the whole program tell its extents, those of the results first."""
        params = (*whole.outputs, *whole.inputs, *whole.unread)
        return ExtentPlaces(
            {number: self.shape(whole.tensors[number].shape) for number in params},
            {number: self._atom(size) for number, size in whole.scalars.items()},
        )

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
        typed, func, parameters = lowered
        if not self._makes(typed.ty):
            return None
        positions = {variable: index for index, variable in enumerate(self.variables)}
        try:
            program = read_program(func, self._sizes_in(func, parameters))
            names = {
                buffer: ("in", positions[expect(relax.Var, parameters[buffer])]) for buffer in program.inputs
            }
        except (NotNormalError, KeyError):
            return None
        # The code does not determine a tensor that it never reads; it must be one of the unread parameters.
        known = (*program.inputs, *program.scalars, *program.outputs)
        unread = [parameter for number, parameter in parameters.items() if number not in known]
        everything_is_read = {place for _, place in names.values()} == set(range(len(positions)))
        if not everything_is_read or any(arg not in self.spare for arg in unread):
            return None
        return typed if program.key(names) == self.key else None

    def _makes(self, ty: tvm.ir.Type) -> bool:
        """Whether the results have the shapes that TVM infers for a candidate, whatever the sizes are.

        TVM lowers a join of ``(n, 2)`` and ``(m, 2)`` along the second axis as if `m` were `n`, but infers no
        shape for it.
        """
        shapes = [known_extents(each) for each in types_in(ty)]
        return len(shapes) == len(self.outputs) and all(
            shape is not None
            and len(shape) == len(output.shape)
            and all(map(are_equal, shape, self.shape(output.shape)))
            for shape, output in zip(shapes, self.outputs, strict=True)
        )

    def _sizes_in(
        self, func: tvm.tirx.PrimFunc, parameters: Mapping[int, relax.Expr]
    ) -> dict[tvm.tirx.Var, Tree]:
        """The names in this segment of the size variables of a candidate's code.

        An extent that is a variable of the code has the same place in the type of the argument or the result;
        other variables are integer arguments themselves.
        """
        names = {var: atom for atom, var in self._sizes.items()}
        pairs: list[tuple[PrimExpr, PrimExpr]] = []
        for number, param in enumerate(func.params):
            if isinstance(param.ty, BufferType):
                pairs += zip(param.shape, shape_of(parameters[number]).values, strict=True)
            else:
                pairs.append((param, parameters[number]))
        return {
            inner: names[outer]
            for inner, outer in pairs
            if isinstance(inner, tvm.tirx.Var) and isinstance(outer, tvm.tirx.Var) and outer in names
        }


def lower(call: relax.Call) -> tuple[relax.Call, tvm.tirx.PrimFunc, dict[int, relax.Expr]] | None:
    """The call with its type, and the PrimFunc of its legalization with an expression for each parameter.

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
    return typed, expect(tvm.tirx.PrimFunc, func), parameters_at_call(lowered)
