"""TVM's importer of ONNX graphs, which unrolls a `Loop` or `Scan` of a known number of steps.

TVM's importer has neither. The body is converted once for each step, with the results of the step before as
its inputs::

    y, z = Loop(3, true, x) { body }        v1, s1 = body(0, x)
                                            v2, s2 = body(1, v1)
                                            y,  s3 = body(2, v2)      z = concat(s1, s2, s3)

The number of a step is a constant, so conditions that depend on it alone are constants, too; the loop ends
with the step that computes a false one. Where conditions, branches or the number of steps depend on data, or
there are very many steps, a `Loop` becomes a function that calls itself (`computed_loops`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from tvm import relax

from annotated_region.importing.onnx_models.computed_loops import (
    MOST_NODES,
    LoopSteps,
    RepeatingImporter,
    ScanSource,
    read_from_outside,
)
from annotated_region.importing.onnx_models.converters.conversion import domain_of
from annotated_region.importing.onnx_models.converters.folding import known_numbers
from annotated_region.importing.onnx_models.converters.node import rank_of
from annotated_region.importing.onnx_models.functions import nodes_of
from annotated_region.importing.repetition import Rows
from annotated_region.tvm_adapter.arithmetic import provably_equal
from annotated_region.tvm_adapter.nodes import PrimExpr
from annotated_region.tvm_adapter.types import shape_of

if TYPE_CHECKING:
    import onnx

__all__ = ["LOOPS", "UnrollingImporter"]

LOOPS = frozenset({"Loop", "Scan"})
"""The types of node that are unrolled."""

_OF_EXTENTS = ("Shape", "Size")


class UnrollingImporter(RepeatingImporter):
    """An importer that converts loops as their steps, one after another, where it knows these.

    Its parameters are those of `RepeatingImporter`.
    """

    def __init__(self, model: str, *others: Callable[..., relax.Expr | None], **options: object) -> None:
        super().__init__(model, *others, **options)
        self._chosen: set[str] = set()
        """The results of each `If`."""

    def _noted(self, nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
        for node in nodes:
            match node.op_type if not domain_of(node) else "":
                case "Loop":
                    yield from self._looped(node)
                case "Scan":
                    yield from self._scanned(node)
                case "If" if self._is_in_loop and self._branch_taken(node) is None:
                    raise self._declined(node, "is a branch on data inside of a loop, which is not supported")
                case _:
                    self._require_known_ranks(node)
                    yield from super()._noted([node])

    def _require_known_ranks(self, node: onnx.NodeProto) -> None:
        """Decline a node that reads the result of an `If` whose branches have results of different ranks."""
        for name in node.input:
            ty = self._nodes[name].ty if name in self._nodes else None
            if isinstance(ty, relax.TensorType) and ty.ndim < 0 and name in self._chosen:
                raise self._declined(
                    node,
                    f"reads {name!r}, a choice of tensors of different ranks; "
                    "give the inputs numbers for their extents (shape_dict, --shape)",
                )
        if node.op_type == "If":
            self._chosen.update(node.output)

    def _looped(self, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
        """The nodes of the steps of a `Loop`, or of one step if the others are computed."""
        self.node = node
        body = _body(node)
        names = [value.name for value in body.input]
        values = [self._nodes[name] for name in node.input[2:]]
        self._require_body(node, body, 2 + len(values), 1 + len(values))
        is_conditional = len(node.input) > 1 and node.input[1]
        goes_on = self._nodes[node.input[1]] if is_conditional else relax.const(np.array(True))
        collected: list[list[relax.Expr]] = [[] for _ in range(len(body.output) - 1 - len(values))]
        step, weights, count = 0, self._weights(body), self._count(node)
        is_unrolled = self._is_false(node, goes_on) or (
            known_numbers(goes_on) is not None and self._can_unroll(node, body, values)
        )
        while is_unrolled and not self._is_false(node, goes_on) and (count is None or step < count):
            number = relax.const(_in_rank_of(body.input[0], np.array(step)), "int64")
            given = dict(zip(names, [number, relax.const(np.array(True)), *values], strict=True))
            goes_on, *results = yield from self._step(node, body, weights, given)
            values = results[: len(values)]
            for parts, result in zip(collected, results[len(values) :], strict=True):
                parts.append(self._row_of(node, result, 0))
            step += 1
            is_unrolled = known_numbers(goes_on) is not None
        if not is_unrolled:
            steps = LoopSteps(body, values, None, [Rows(0) for _ in collected], self._limit(node))
            results = yield from self._repeated(node, steps, step, goes_on)
            values = results[: len(values)]
            for parts, row in zip(collected, results[len(values) :], strict=True):
                parts.append(row)
        self._give(node, [*values, *(self._joined(node, parts, 0) for parts in collected)])

    def _scanned(self, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
        """The nodes of the steps of a `Scan`, each of which reads one element along an axis of each input."""
        self.node = node
        body, inputs = _body(node), [self._nodes[name] for name in node.input]
        read = next(each.i for each in node.attribute if each.name == "num_scan_inputs")
        if not 0 < read <= len(inputs):
            raise self._declined(node, f"has {len(inputs)} inputs, and reads {read} of them in steps")
        kept = len(inputs) - read
        self._require_body(node, body, len(inputs), kept)
        sources = [self._as_tensor(source) for source in inputs[kept:]]
        axes, backwards = self._numbers(node, "scan_input", read)
        length = self._common_length(node, sources, axes)
        elements = [ScanSource(*each) for each in zip(sources, axes, map(bool, backwards), strict=True)]
        axes, backwards = self._numbers(node, "scan_output", len(body.output) - kept)
        rows = [Rows(*each) for each in zip(axes, map(bool, backwards), strict=True)]
        count = known_numbers(length)
        if count is not None and int(count) * len(list(nodes_of(body.node))) <= MOST_NODES:
            steps = LoopSteps(body, inputs[:kept], elements, rows, None)
            results = yield from self._unrolled_scan(node, steps, elements, int(count))
        else:
            steps = LoopSteps(body, inputs[:kept], elements, rows, self._number_of(length))
            results = yield from self._repeated(node, steps, 0, relax.const(np.array(True)), length)
        self._give(node, results)

    def _unrolled_scan(
        self, node: onnx.NodeProto, steps: LoopSteps, sources: Sequence[ScanSource], count: int
    ) -> Generator[onnx.NodeProto, None, list[relax.Expr]]:
        """The nodes of the steps of a `Scan` of a known length; returns its results."""
        body, values = steps.body, list(steps.values)
        names, weights = [value.name for value in body.input], self._weights(body)
        collected: list[list[relax.Expr]] = [[] for _ in steps.rows]
        for step in range(count):
            places = [count - 1 - step if source.is_reversed else step for source in sources]
            elements = [
                self.bb.emit(relax.op.take(source.tensor, relax.const(place), source.axis))
                for source, place in zip(sources, places, strict=True)
            ]
            given = dict(zip(names, [*values, *elements], strict=True))
            results = yield from self._step(node, body, weights, given)
            values = results[: len(values)]
            for parts, result, rows in zip(collected, results[len(values) :], steps.rows, strict=True):
                parts.append(self._row_of(node, result, rows.axis))
        joined = [
            self._joined(node, parts[::-1] if rows.is_reversed else parts, rows.axis)
            for parts, rows in zip(collected, steps.rows, strict=True)
        ]
        return [*values, *joined]

    def _step(
        self,
        node: onnx.NodeProto,
        body: onnx.GraphProto,
        weights: dict[str, relax.Expr],
        given: dict[str, relax.Expr],
    ) -> Generator[onnx.NodeProto, None, list[relax.Expr]]:
        """The nodes of one step; returns the results of the body.

        The values of the body are gone behind it: it may use a name again that is known outside of it. The
        first step adds what `Constant` nodes hold to `weights`.
        """
        self._count_nodes(node, 1)
        own = [*weights, *given, *(name for each in body.node for name in each.output)]
        outer = {name: self._nodes[name] for name in own if name in self._nodes}
        before, self._is_in_loop = self._is_in_loop, True
        self._nodes |= weights | given
        for each in body.node:
            self._count_nodes(node, 1 if each.op_type != "If" else len(list(nodes_of([each]))))
            if each.op_type == "Constant" and each.output[0] in weights:
                continue
            yield from self._noted([each])
            if each.op_type == "Constant":
                weights[each.output[0]] = self._nodes[each.output[0]]
        self._is_in_loop, self.node = before, node
        results = [self._nodes[each.name] for each in body.output]
        for name in own:
            self._nodes.pop(name, None)
        self._nodes |= outer
        return results

    def _require_body(self, node: onnx.NodeProto, body: onnx.GraphProto, inputs: int, outputs: int) -> None:
        """Decline a body of other inputs than a step has, or of fewer results than the next step needs."""
        if len(body.input) != inputs or len(body.output) < outputs:
            raise self._declined(
                node,
                f"has a body of {len(body.input)} inputs and {len(body.output)} results; "
                f"it needs {inputs}, and {outputs} at least",
            )

    def _numbers(self, node: onnx.NodeProto, prefix: str, count: int) -> tuple[list[int], list[int]]:
        """The axes of the inputs or the results of a `Scan`, and whether they are read backwards."""
        given = {each.name: list(each.ints) for each in node.attribute}
        axes, backwards = (given.get(f"{prefix}_{what}") or [0] * count for what in ("axes", "directions"))
        if len(axes) != count or len(backwards) != count or not set(backwards) <= {0, 1}:
            raise self._declined(
                node, f"has {prefix}_axes {axes} and {prefix}_directions {backwards} of {count} values"
            )
        return axes, backwards

    def _can_unroll(self, node: onnx.NodeProto, body: onnx.GraphProto, values: Sequence[relax.Expr]) -> bool:
        """Whether the steps are few, and their number, conditions and branches seem to be constants.

        Extents are taken for constants. Where a condition turns out to be none, the other steps are computed.
        """
        count = self._count(node)
        if count is None and node.input[0]:
            return False
        number, condition, *carried = (value.name for value in body.input)
        outer = {name for name, each in self._nodes.items() if known_numbers(each) is not None}
        counted = {
            name for name, value in zip(carried, values, strict=True) if known_numbers(value) is not None
        }
        while True:
            known = _depending_on({*outer, number, condition, *counted}, body)
            behind = [each.name for each in body.output[1 : 1 + len(carried)]]
            still = {name for name, result in zip(carried, behind, strict=True) if result in known} & counted
            if still == counted:
                break
            counted = still
        branches = [each for each in body.node if each.op_type == "If" and not domain_of(each)]
        if body.output[0].name not in known or any(each.input[0] not in known for each in branches):
            return False
        is_changing = body.output[0].name not in _depending_on({*outer, condition}, body)
        are_few = count is not None and count * len(list(nodes_of(body.node))) <= MOST_NODES
        return is_changing or are_few

    def _count(self, node: onnx.NodeProto) -> int | None:
        """The largest number of steps, if it is a constant; None if it is not, or there is none."""
        numbers = known_numbers(self._nodes[node.input[0]]) if node.input[0] else None
        if numbers is None:
            return None
        if numbers.size != 1 or numbers.dtype != "int64":
            raise self._declined(node, f"has {numbers.size} numbers of {numbers.dtype} as that of its steps")
        return int(numbers.item())

    def _is_false(self, node: onnx.NodeProto, condition: relax.Expr) -> bool:
        """Whether a condition is constant, and false."""
        numbers = known_numbers(condition)
        if numbers is None:
            return False
        if numbers.size != 1 or numbers.dtype != "bool":
            raise self._declined(node, f"has {numbers.size} numbers of {numbers.dtype} as a condition")
        return not numbers.item()

    def _limit(self, node: onnx.NodeProto) -> relax.Expr | None:
        """The number of steps of a `Loop` as a scalar; None if it has none."""
        self.node = node
        if not node.input[0]:
            return None
        return self._scalar(node, self._nodes[node.input[0]], "int64", "a number of steps")

    def _common_length(
        self, node: onnx.NodeProto, sources: Sequence[relax.Expr], axes: Sequence[int]
    ) -> PrimExpr:
        """The extent that what is read in steps has along its axis."""
        for source, axis in zip(sources, axes, strict=True):
            self._require_axis(node, axis, rank_of(source))
        extents = [shape_of(source).values[axis] for source, axis in zip(sources, axes, strict=True)]
        if not all(provably_equal(each, extents[0]) for each in extents):
            raise self._declined(
                node,
                f"has inputs of the lengths {', '.join(map(str, extents))}; "
                "it needs one (shape_dict, --shape)",
            )
        return extents[0]

    def _joined(self, node: onnx.NodeProto, parts: Sequence[relax.Expr], axis: int) -> relax.Expr:
        """The results of all steps along an axis."""
        if not parts:
            raise self._declined(node, "has no step, and a result that joins those of the steps")
        return self.bb.emit(relax.op.concat(list(parts), axis)) if len(parts) > 1 else parts[0]

    def _give(self, node: onnx.NodeProto, results: Sequence[relax.Expr]) -> None:
        self._nodes |= {name: each for name, each in zip(node.output, results, strict=False) if name}
        self._originated(node, list(results))


def _in_rank_of(value: onnx.ValueInfoProto, number: np.ndarray) -> np.ndarray:
    """The number of a step as a vector, where a body says that it reads one, as TensorFlow's do."""
    return number.reshape([1] * len(value.type.tensor_type.shape.dim))


def _body(node: onnx.NodeProto) -> onnx.GraphProto:
    return next(each.g for each in node.attribute if each.name == "body")


def _depending_on(names: set[str], body: onnx.GraphProto) -> set[str]:
    """The names of a graph whose values depend on constants, extents and the values of some names alone."""
    known = {*names, *(each.name for each in body.initializer)}
    for node in body.node:
        inner = [each.g for each in node.attribute if each.HasField("g")]
        read = {*filter(None, node.input), *(name for graph in inner for name in read_from_outside(graph))}
        if node.op_type in _OF_EXTENTS or known.issuperset(read):
            known.update(node.output)
    return known
