"""Checks a quantized region piece by piece, because its results reveal little about inner errors.

A value that two engines round to adjacent steps differs by a whole step, and the difference grows downstream:
after 80 quantizations, two correct engines differ by several hundredths, as much as if one scale in the
middle were wrong by a twentieth. So the region is cut after each quantization, and each piece gets the values
of the host:

    q0 -> dequantize, conv2d, relu, quantize -> q1 -> dequantize, conv2d, add, quantize -> q2
         |               piece 0            |        |              piece 1            |

Each piece rounds once, so the result of a correct piece is close to the numbers that the host rounds,
independent of the length of the region (see `annotated_region.checking.rounding`). All pieces are built
together, once. The whole region is checked too, for errors that only occur there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tvm import relax

from annotated_region.checking.comparison import ResultCheck
from annotated_region.checking.failure import Failure
from annotated_region.checking.parts import (
    Nodes,
    host_values,
    part_function,
    parts_module,
    units_of,
    with_structure,
)
from annotated_region.checking.program import ENTRY, PlacedFunction
from annotated_region.checking.region_values import RegionValues
from annotated_region.checking.rounding import compared_leaf
from annotated_region.checking.running import FAILURES, arrays_of
from annotated_region.checking.tolerance import quantizations, tolerance_for
from annotated_region.compilation.executable import compile_module, machine_of
from annotated_region.functions.external import External
from annotated_region.functions.inlining import is_inlinable, opened
from annotated_region.ids import NodeId
from annotated_region.printable import first_line
from annotated_region.regions.op_names import op_name_of

__all__ = ["WrongPiece", "first_wrong_piece", "has_pieces", "pieces_of"]

_QUANTIZE, _DEQUANTIZE = "relax.quantize", "relax.dequantize"


@dataclass(frozen=True)
class WrongPiece:
    """A piece that is wrong on its target.

    Attributes
    ----------
    results
        Its results, compared with the reference.
    failure
        The inputs and results of the call.
    """

    results: tuple[ResultCheck, ...]
    failure: Failure


def has_pieces(function: PlacedFunction) -> bool:
    """Whether a region quantizes more than once."""
    return quantizations(function.host_function) > 1


def pieces_of(function: PlacedFunction) -> list[Nodes]:
    """The pieces of a region in program order: each ends in one quantization; the rest is the last piece.

    A dequantization is repeated in each piece that uses it, so that engines see ops between 8-bit values.
    Composites are not split. O(units + edges).
    """
    units = units_of(function)
    unit_of = {node: unit for unit in units for node in unit}
    taken: dict[Nodes, None] = {}
    pieces: list[Nodes] = []
    for last in [unit for unit in units if _has(function, unit, _QUANTIZE)]:
        before = _units_before(function, last, unit_of, taken)
        taken |= dict.fromkeys(before)
        pieces.append(_piece(function, before))
    rest = [unit for unit in units if unit not in taken]
    return [*pieces, *([_piece(function, _with_dequantized(function, rest, unit_of))] if rest else [])]


def _piece(function: PlacedFunction, units: Sequence[Nodes]) -> Nodes:
    return with_structure(function, {node for unit in units for node in unit})


def _has(function: PlacedFunction, unit: Nodes, op: str) -> bool:
    return any(op_name_of(function.graph.nodes[node].value) == op for node in unit)


def _units_before(
    function: PlacedFunction, last: Nodes, unit_of: Mapping[NodeId, Nodes], taken: Mapping[Nodes, None]
) -> list[Nodes]:
    """The unit and its transitive producers, up to the values of other pieces."""
    found: dict[Nodes, None] = {}
    waiting = [last]
    while waiting:
        unit = waiting.pop()
        if unit in found:
            continue
        found[unit] = None
        for other in _producers(function, unit, unit_of):
            # Earlier quantizations are taken: each ends a piece, in program order.
            if other not in taken or _is_dequantization(function, other):
                waiting.append(other)
    return list(found)


def _with_dequantized(
    function: PlacedFunction, units: Sequence[Nodes], unit_of: Mapping[NodeId, Nodes]
) -> list[Nodes]:
    more = (
        other
        for unit in units
        for other in _producers(function, unit, unit_of)
        if _is_dequantization(function, other)
    )
    return list(dict.fromkeys([*units, *more]))


def _is_dequantization(function: PlacedFunction, unit: Nodes) -> bool:
    return len(unit) == 1 and _has(function, unit, _DEQUANTIZE)


def _producers(function: PlacedFunction, unit: Nodes, unit_of: Mapping[NodeId, Nodes]) -> list[Nodes]:
    """The units of the region that produce operands of a unit, directly or through tuples."""
    found: dict[Nodes, None] = {}
    seen: set[NodeId] = set(unit)
    waiting = [edge.producer for node in unit for edge in function.graph.into[node]]
    inside = set(function.nodes)
    while waiting:
        node = waiting.pop()
        if node in seen or node not in inside:
            continue
        seen.add(node)
        if node in unit_of:
            found[unit_of[node]] = None
        else:
            waiting += [edge.producer for edge in function.graph.into[node]]
    return list(found)


def first_wrong_piece(
    function: PlacedFunction,
    entering: RegionValues,
    options: Mapping[str, Mapping[str, object]],
    reference: str,
) -> WrongPiece | None:
    """The first piece of a region that is wrong on the host's values; None if all are right.

    Parameters
    ----------
    function
        The region.
    entering
        The inputs of one call.
    options
        By target, the options of its code generator.
    reference
        What computes the reference values.

    Raises
    ------
    CodegenError, BuildError
        The target cannot build the pieces.
    """
    parts: dict[str, tuple[Nodes, External]] = {}
    for number, nodes in enumerate(pieces_of(function)):
        symbol = f"{function.symbol}_piece_{number}"
        external = part_function(function, nodes, symbol)
        if external is not None:
            parts[symbol] = (nodes, external)
    mod = parts_module({symbol: external.func for symbol, (_nodes, external) in parts.items()})
    with machine_of(compile_module(mod, options=options)) as machine:
        values = host_values(function, entering, reference)
        for symbol, (nodes, external) in parts.items():
            wanted = {leaf.name: values.array_of(leaf) for leaf in external.results}
            tolerance = tolerance_for(_plain(external), function.target, options)
            right = Failure(function, nodes, values, wanted, {}, tolerance, options, reference=reference)
            wrong = _run(machine[ENTRY.format(symbol)], external, right)
            if wrong is not None:
                return wrong
    return None


def _plain(external: External) -> relax.Function:
    return opened(external.func) if is_inlinable(external.func) else external.func


def _run(entry: Callable[..., object], external: External, right: Failure) -> WrongPiece | None:
    """The wrong results of a piece, or None if it is right."""
    try:
        found = arrays_of(entry(*right.values.arguments(external)))
    except FAILURES as error:
        return WrongPiece((), replace(right, error=first_line(error)))
    results = tuple(
        compared_leaf(right.values, leaf, array, right.tolerance)
        for leaf, array in zip(external.results, found, strict=True)
    )
    if all(result.ok for result in results):
        return None
    return WrongPiece(results, replace(right, found=dict(zip(right.wanted, found, strict=True))))
