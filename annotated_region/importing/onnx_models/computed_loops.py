"""TVM's importer of ONNX graphs, which converts loops whose number of steps only a call knows.

The body becomes a function (`annotated_region.importing.repetition`), with a parameter for each value of its
surroundings that it reads, and one for each carried value. An extent that a step changes is a variable there;
which these are is found by converting the body again, until its results have the shapes of its parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.ir import PrimType

from annotated_region.errors import ModelError
from annotated_region.expr_map import ExprMap
from annotated_region.functions.shape_variables import types_with
from annotated_region.importing.nested_builder import NestedBuilder
from annotated_region.importing.onnx_models.branches import BranchingImporter
from annotated_region.importing.onnx_models.converters.conversion import node_label
from annotated_region.importing.onnx_models.converters.folding import known_numbers
from annotated_region.importing.onnx_models.converters.node import rank_of
from annotated_region.importing.onnx_models.functions import nodes_of
from annotated_region.importing.repetition import LoopBody, Made, Rows, repeated
from annotated_region.tvm_adapter.arithmetic import provably_equal
from annotated_region.tvm_adapter.nodes import Constant, PrimExpr
from annotated_region.tvm_adapter.types import expect, shape_of, shape_vars_of, tensor_type

if TYPE_CHECKING:
    import onnx

__all__ = ["MOST_NODES", "LoopSteps", "RepeatingImporter", "ScanSource", "read_from_outside"]

MOST_NODES = 2**13
"""A loop is declined if its steps, as they are converted, have more nodes."""

_MOST_DISCARDED = 2**14
"""The nodes that are converted again, in all loops of a model, because extents differ from step to step."""


@dataclass(frozen=True, slots=True)
class ScanSource:
    """A tensor of which each step reads one element along an axis; from its end on if it is reversed."""

    tensor: relax.Expr
    axis: int
    is_reversed: bool


@dataclass(frozen=True, slots=True)
class LoopSteps:
    """The steps of a `Loop` or `Scan`.

    Attributes
    ----------
    body
        The graph of a step.
    values
        The carried values before the first step.
    sources
        What a `Scan` reads in steps; None for a `Loop`, whose body has the number of the step and a condition
        as inputs, and a condition as a result.
    rows
        How the rows are joined.
    count
        The number (int64, a scalar) of the step before which the loop ends; None if only a condition ends it.
    """

    body: onnx.GraphProto
    values: Sequence[relax.Expr]
    sources: Sequence[ScanSource] | None
    rows: Sequence[Rows]
    count: relax.Expr | None


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """What a body reads of the function that has the loop.

    Attributes
    ----------
    variables
        The shape variables of the function, with those in their places in the body.
    params
        The tensors of the function, with the parameters in their places.
    nodes
        By the names of the graph, what the body reads, as expressions of the body.
    sources
        What the body reads one element of.
    count
        The number of the step before which the loop ends.
    """

    variables: Mapping[tirx.Var, tirx.Var]
    params: ExprMap[relax.Var]
    nodes: Mapping[str, relax.Expr]
    sources: Sequence[ScanSource]
    count: relax.Expr | None

    @staticmethod
    def of(given: Mapping[str, relax.Expr], steps: LoopSteps) -> _Surroundings:
        """What the body reads under these names, and of the sources of the steps."""
        sources = steps.sources or ()
        read = [*given.values(), *steps.values, *(source.tensor for source in sources)]
        types = [_type_of(each) for each in read]
        variables = {each: tirx.Var(each.name, "int64") for ty in types for each in shape_vars_of(ty)}
        found = _Surroundings(variables, ExprMap(), {}, (), None)
        return replace(
            found,
            nodes={name: found._moved(each) for name, each in given.items()},
            sources=[replace(each, tensor=found._moved(each.tensor)) for each in sources],
            count=None if steps.count is None else found._moved(steps.count),
        )

    @property
    def known(self) -> frozenset[tirx.Var]:
        """The variables of the body that are the same in all steps."""
        return frozenset(self.variables.values())

    @property
    def arguments(self) -> list[relax.Expr]:
        """What the function passes: its shape variables as a shape, and its tensors."""
        return [relax.ShapeExpr(list(self.variables)), *self.params]

    def _moved(self, expr: relax.Expr) -> relax.Expr:
        """An expression of the function as one of the body."""
        if isinstance(expr, Constant):
            return expr
        if isinstance(expr, relax.Tuple):
            return relax.Tuple([self._moved(field) for field in expr.fields])
        (ty,) = types_with([_type_of(expr)], self.variables)
        if isinstance(expr, relax.ShapeExpr):
            return relax.ShapeExpr(_numbers(ty))
        if isinstance(expr.ty, PrimType):
            return _numbers(ty)[0]
        variable = expect(relax.Var, expr)
        return self.params.setdefault(variable, relax.Var(variable.name, ty))


class RepeatingImporter(BranchingImporter):
    """An importer that converts loops as functions that call themselves.

    Parameters
    ----------
    model
        The name of the model in messages.
    others
        The parameters of `OnnxGraphImporter`.
    """

    _is_in_loop = False
    """Whether steps of a loop are being converted into a dataflow block, which holds no branches."""

    def __init__(self, model: str, *others: Callable[..., relax.Expr | None], **options: object) -> None:
        super().__init__(*others, **options)  # type: ignore[arg-type]
        self._model = model
        self._converted_nodes = 0
        self._discarded_nodes = 0

    def _declined(self, node: onnx.NodeProto, why: str) -> ModelError:
        return ModelError(f"{self._model} cannot be imported: {node_label(node)} {why}")

    def _count_nodes(self, node: onnx.NodeProto, count: int) -> None:
        self._converted_nodes += count
        if self._converted_nodes > MOST_NODES:
            raise self._declined(node, f"makes more than {MOST_NODES} nodes of its steps")

    def _weights(self, body: onnx.GraphProto) -> dict[str, relax.Expr]:
        """The weights of a body by name, of which all steps read the same copy."""
        return {each.name: relax.const(self._parse_array(each)) for each in body.initializer}

    def _repeated(
        self,
        node: onnx.NodeProto,
        steps: LoopSteps,
        number: int,
        condition: relax.Expr,
        length: PrimExpr | None = None,
    ) -> Generator[onnx.NodeProto, None, list[relax.Expr]]:
        """The nodes of one step; returns the carried values behind the last one, and the rows of all steps.

        Parameters
        ----------
        node
            The `Loop` or `Scan`.
        steps
            What is repeated.
        number
            The number of the first step.
        condition
            Whether there is one, if there are as many at all.
        length
            The number of steps, if it is an extent.
        """
        step_number = relax.const(number, "int64")
        goes_on = self._goes_on(node, condition, step_number, steps.count)
        if goes_on is None:
            goes_on = relax.const(np.array(True))
        steps = replace(steps, values=[self._as_tensor(value) for value in steps.values])
        given = {name: self._bound(self._nodes[name]) for name in read_from_outside(steps.body)}
        surroundings = _Surroundings.of(given, steps)
        before = [self._carried_type(node, value) for value in steps.values]
        types = [expect(relax.TensorType, ty) for ty in types_with(before, surroundings.variables)]
        while True:
            before_step = self._converted_nodes
            step = yield from self._converted_body(node, steps, surroundings, types)
            behind = expect(relax.TupleType, step.func.ret_ty).fields[2 : 2 + len(types)]
            wider = [
                self._wider(node, ty, each, surroundings) for ty, each in zip(types, behind, strict=True)
            ]
            if all(ty.same_as(other) for ty, other in zip(types, wider, strict=True)):
                break
            types = wider
            self._discard(node, before_step)
        self._require_equal_rows(node, step, surroundings)
        first = Made(step_number, goes_on, steps.values, [])
        return repeated(self.bb, step, surroundings.arguments, first, length)

    def _converted_body(
        self,
        node: onnx.NodeProto,
        steps: LoopSteps,
        surroundings: _Surroundings,
        types: Sequence[relax.TensorType],
    ) -> Generator[onnx.NodeProto, None, LoopBody]:
        """The nodes of a step; returns its function for carried values of these types."""
        extents = relax.Var("extents", relax.ShapeType(list(surroundings.variables.values())))
        number = relax.Var("step", relax.TensorType((), "int64"))
        carried = [relax.Var(f"carried_{place}", ty) for place, ty in enumerate(types)]
        params = [extents, *surroundings.params.values(), number, *carried]
        outer = self._nodes, self.bb, self._is_in_branch, self._is_in_loop
        has_branches = any(each.op_type == "If" for each in nodes_of(steps.body.node))
        builder = NestedBuilder(self.bb)
        with builder.nested(params):
            self.bb, self._is_in_branch, self._is_in_loop = builder, True, not has_branches
            with nullcontext() if has_branches else builder.dataflow():
                results = yield from self._one_step(node, steps, surroundings, number, carried)
                result = builder.emit(results) if has_branches else builder.emit_output(results)
            func = builder.finished(result)
        self._nodes, self.bb, self._is_in_branch, self._is_in_loop = outer
        return LoopBody(func, len(surroundings.params), len(types), steps.rows)

    def _one_step(
        self,
        node: onnx.NodeProto,
        steps: LoopSteps,
        surroundings: _Surroundings,
        number: relax.Var,
        carried: Sequence[relax.Var],
    ) -> Generator[onnx.NodeProto, None, relax.Tuple]:
        """The nodes of a step; returns what `LoopBody` says."""
        names, true = [value.name for value in steps.body.input], relax.const(np.array(True))
        first = [self._in_rank_of(steps.body.input[0], number), true] if steps.sources is None else []
        elements = [self._element(source, number) for source in surroundings.sources]
        self._nodes = {**surroundings.nodes, **self._weights(steps.body)}
        self._nodes |= dict(zip(names, [*first, *carried, *elements], strict=True))
        for each in steps.body.node:
            self._count_nodes(node, len(list(nodes_of([each]))))
            yield from self._noted([each])
        self.node = node
        results = [self._as_tensor(self._nodes[each.name]) for each in steps.body.output]
        condition = results.pop(0) if steps.sources is None else true
        pairs = zip(results[len(carried) :], steps.rows, strict=True)
        rows = [self._row_of(node, each, joined.axis) for each, joined in pairs]
        following = self.bb.emit(relax.op.add(number, relax.const(1, "int64")))
        goes_on = self._goes_on(node, condition, following, surroundings.count)
        if goes_on is None:
            raise self._declined(node, "has neither a number of steps nor a condition that ends it")
        return relax.Tuple([following, goes_on, *results[: len(carried)], *rows])

    def _goes_on(
        self, node: onnx.NodeProto, condition: relax.Expr, number: relax.Expr, count: relax.Expr | None
    ) -> relax.Expr | None:
        """Whether a condition holds, and the number of a step is below a count; None if that is always so."""
        known = known_numbers(condition)
        conditions = [] if known is not None and known.all() else [condition]
        parts = [self._scalar(node, each, "bool", "a condition") for each in conditions]
        if count is not None:
            parts.append(self.bb.emit(relax.op.less(number, count)))
        if len(parts) > 1:
            return self.bb.emit(relax.op.logical_and(*parts))
        return next(iter(parts), None)

    def _element(self, source: ScanSource, number: relax.Var) -> relax.Expr:
        """What a step reads of a source."""
        place: relax.Expr = number
        if source.is_reversed:
            last = shape_of(source.tensor).values[source.axis] - 1
            place = self.bb.emit(relax.op.subtract(self._number_of(last), number))
        return self.bb.emit(relax.op.take(source.tensor, place, source.axis))

    def _number_of(self, extent: PrimExpr) -> relax.Expr:
        """An extent as a scalar."""
        numbers = self.bb.emit(relax.op.shape_to_tensor(relax.ShapeExpr([extent])))
        return self.bb.emit(relax.op.reshape(numbers, []))

    def _in_rank_of(self, value: onnx.ValueInfoProto, number: relax.Var) -> relax.Expr:
        """The number of a step as a vector, where a body says that it reads one, as TensorFlow's do."""
        rank = len(value.type.tensor_type.shape.dim)
        return self.bb.emit(relax.op.reshape(number, [1] * rank)) if rank else number

    def _scalar(self, node: onnx.NodeProto, value: relax.Expr, dtype: str, what: str) -> relax.Expr:
        """A tensor of one element as a scalar."""
        tensor = self._as_tensor(value)
        ty = tensor.ty
        extents = _extents(ty) if isinstance(ty, relax.TensorType) and ty.ndim >= 0 else [None]
        numbers = [int(each) for each in extents if isinstance(each, tirx.IntImm)]
        if str(tensor_type(tensor).dtype) != dtype or len(numbers) < len(extents) or set(numbers) - {1}:
            raise self._declined(node, f"has {what} of the type {ty}; it needs one element of {dtype}")
        return self.bb.emit(relax.op.reshape(tensor, [])) if extents else tensor

    def _row_of(self, node: onnx.NodeProto, result: relax.Expr, axis: int) -> relax.Expr:
        """A result of one step with an axis for the steps."""
        row = self._as_tensor(result)
        self._require_axis(node, axis, rank_of(row) + 1)
        return self.bb.emit(relax.op.expand_dims(row, [axis]))

    def _require_axis(self, node: onnx.NodeProto, axis: int, rank: int) -> None:
        if not -rank <= axis < rank:
            raise self._declined(node, f"has the axis {axis} of a tensor of rank {rank}")

    def _discard(self, node: onnx.NodeProto, before: int) -> None:
        """Count nodes that are converted again only once, but those of many conversions."""
        self._discarded_nodes += self._converted_nodes - before
        self._converted_nodes = before
        if self._discarded_nodes > _MOST_DISCARDED:
            raise self._declined(node, f"needs more than {_MOST_DISCARDED} nodes to know its extents")

    def _bound(self, value: relax.Expr) -> relax.Expr:
        """A value that was converted before, of which TVM's importer binds calls where they are read."""
        return self.bb.emit(value) if isinstance(value, relax.Call | relax.TupleGetItem) else value

    def _carried_type(self, node: onnx.NodeProto, value: relax.Expr) -> relax.TensorType:
        """The type of a carried value before the first step."""
        ty = value.ty
        if not isinstance(ty, relax.TensorType) or ty.ndim < 0:
            raise self._declined(node, f"carries what is no tensor of a known rank, but {ty}")
        return ty

    def _wider(
        self, node: onnx.NodeProto, ty: relax.TensorType, behind: tvm.ir.Type, surroundings: _Surroundings
    ) -> relax.TensorType:
        """A type for a carried value before and behind a step; `ty` itself if it is one."""
        if not isinstance(behind, relax.TensorType) or (behind.dtype, behind.ndim) != (ty.dtype, ty.ndim):
            raise self._declined(node, f"carries a value of the type {ty}, which becomes {behind} in a step")
        if ty.ndim < 1:
            return ty
        kept = [
            _is_own(one, surroundings) or _are_equal(one, other)
            for one, other in zip(_extents(ty), _extents(behind), strict=True)
        ]
        if all(kept):
            return ty
        extents: list[PrimExpr | int] = [
            extent if extent is not None and is_kept else tirx.Var(f"carried_{axis}", "int64")
            for axis, (extent, is_kept) in enumerate(zip(_extents(ty), kept, strict=True))
        ]
        return relax.TensorType(extents, ty.dtype)

    def _require_equal_rows(self, node: onnx.NodeProto, step: LoopBody, surroundings: _Surroundings) -> None:
        """Decline results of a step that are joined, and have extents which may differ from step to step."""
        for row in expect(relax.TupleType, step.func.ret_ty).fields[2 + step.carried :]:
            ty = expect(relax.TensorType, row)
            if ty.shape is None or not surroundings.known.issuperset(shape_vars_of(ty)):
                raise self._declined(node, "joins results of its steps whose extents may differ")


def _type_of(expr: relax.Expr) -> tvm.ir.Type:
    """The type of an expression; of a number that of a shape, which knows the variables in it."""
    if isinstance(expr, relax.Tuple):
        return relax.TupleType([_type_of(field) for field in expr.fields])
    return relax.ShapeType([expr]) if isinstance(expr.ty, PrimType) else expr.ty


def _numbers(ty: tvm.ir.Type) -> list[PrimExpr]:
    """The numbers of a shape that is known."""
    return list(expect(relax.ShapeType, ty).values or ())


def _extents(ty: relax.TensorType) -> list[PrimExpr | None]:
    """The extents of a tensor; None for each one if they are not known."""
    return [None] * ty.ndim if ty.shape is None else list(expect(relax.ShapeExpr, ty.shape).values)


def _are_equal(one: PrimExpr | None, other: PrimExpr | None) -> bool:
    """Whether two extents are known to be equal."""
    return one is not None and other is not None and provably_equal(one, other)


def _is_own(extent: PrimExpr | None, surroundings: _Surroundings) -> bool:
    """Whether an extent of a carried value is a variable that each step may change."""
    return isinstance(extent, tirx.Var) and extent not in surroundings.known


def read_from_outside(body: onnx.GraphProto) -> list[str]:
    """The names that a graph reads and does not define, each once, in the order of their first use."""
    return list(dict.fromkeys(_names_from_outside(body, frozenset())))


def _names_from_outside(body: onnx.GraphProto, outer: frozenset[str]) -> Iterator[str]:
    known = {each.name for part in (body.input, body.initializer) for each in part} | outer
    for node in body.node:
        yield from (name for name in node.input if name and name not in known)
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from _names_from_outside(inner, frozenset(known))
        known.update(node.output)
    yield from (each.name for each in body.output if each.name not in known)
