"""Finds a minimal set of ops of a region that is wrong on its own, on the host's values.

Delta debugging (Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, IEEE TSE 28(2),
2002, algorithm ddmin): halves are built and run; if one fails, the search continues in it. If neither fails
alone, the fault needs ops of both, and the search tries to remove smaller parts. A fault of one op takes two
builds per halving.

The host computes every value of the region once. A part takes its inputs from these values, and its results
are compared with them. So a part need not be convex, and the host is built only once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np

from annotated_region.checking.failure import Failure
from annotated_region.checking.parts import (
    Nodes,
    host_values,
    part_function,
    parts_module,
    units_of,
    with_structure,
)
from annotated_region.checking.program import ENTRY
from annotated_region.checking.rounding import compared_leaf
from annotated_region.checking.running import FAILURES, arrays_of
from annotated_region.checking.tolerance import tolerance_for
from annotated_region.compilation.executable import compile_module, machine_of
from annotated_region.errors import AnnotatedRegionError
from annotated_region.functions.external import External
from annotated_region.functions.inlining import is_inlinable, opened
from annotated_region.ids import NodeId
from annotated_region.printable import first_line
from annotated_region.targets.op_view import OpView
from annotated_region.targets.rules import rule_of

__all__ = ["Bisected", "culprit_of", "smallest_failing"]

_MOST_BUILDS = 96


@dataclass(frozen=True, slots=True)
class Bisected:
    """The smallest failing part, and the number of builds that the search took."""

    failure: Failure
    builds: int


def culprit_of(failure: Failure) -> Bisected | None:
    """A minimal failing set of a region; None if the region does not fail in isolation.

    Takes at most ``2 * log2(n) + 4`` builds on the target for a fault of one op among `n` units, and one on
    the host. If only a piece of the region is known to fail, the search starts from that piece.
    """
    parts = _Parts(failure)
    units = parts.units()
    left = smallest_failing(units, parts.fail)
    if left is None:
        return None
    nodes = [(node,) for unit in left for node in unit]
    if len(nodes) > len(left):  # composites: also try their ops that the target claims individually
        smallest_failing(nodes, parts.fail_alone)
    assert parts.smallest is not None, "what is left has failed"
    return Bisected(parts.smallest, parts.builds)


def smallest_failing(
    units: Sequence[Nodes], fails: Callable[[Sequence[Nodes]], bool]
) -> Sequence[Nodes] | None:
    """A 1-minimal failing subset of the units, by ddmin.

    Parameters
    ----------
    units
        Units that fail together, in program order.
    fails
        Whether a subset fails. It is called for the full set only if no proper part fails.

    Returns
    -------
    A failing set from which no unit can be removed; None if not even the full set fails.
    """
    left, parts, is_known = list(units), 2, False
    while len(left) > 1:
        pieces = _pieces(left, min(parts, len(left)))
        smaller = next((piece for piece in pieces if fails(piece)), None)
        if smaller is not None:
            left, parts, is_known = smaller, 2, True
            continue
        if not is_known and not fails(left):
            return None
        is_known = True
        others = (_without(pieces, number) for number in range(len(pieces))) if len(pieces) > 2 else ()
        smaller = next((rest for rest in others if fails(rest)), None)
        if smaller is not None:
            left, parts = smaller, max(len(pieces) - 1, 2)
        elif len(pieces) == len(left):
            break
        else:
            parts = 2 * len(pieces)
    return left if is_known or fails(left) else None


def _pieces(units: Sequence[Nodes], count: int) -> list[list[Nodes]]:
    """The units split into `count` parts of about equal size."""
    ends = [len(units) * (number + 1) // count for number in range(count)]
    return [list(units[first:last]) for first, last in zip([0, *ends], ends, strict=False)]


def _without(pieces: Sequence[list[Nodes]], number: int) -> list[Nodes]:
    return [unit for index, piece in enumerate(pieces) if index != number for unit in piece]


class _Parts:
    """Builds parts of a region, and runs them on the host's values.

    Attributes
    ----------
    builds
        The number of parts that the target built.
    smallest
        The last failing part. It is the smallest one, because only failing parts are reduced further.
    """

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        self.function = failure.function
        is_piece = failure.nodes != failure.function.nodes
        self.builds = int(is_piece)  # that of the pieces
        self.smallest: Failure | None = None
        self._answers: dict[Nodes, bool] = {}
        self.values = (
            failure.values if is_piece else host_values(failure.function, failure.values, failure.reference)
        )

    def units(self) -> list[Nodes]:
        """The units of the region, or of the piece of it that is known to be wrong."""
        failing = set(self.failure.nodes)
        return [unit for unit in units_of(self.function) if failing.issuperset(unit)]

    def fail_alone(self, units: Sequence[Nodes]) -> bool:
        """Whether a set of ops fails, all of which the target also claims individually."""
        return all(self._is_claimed(node) for unit in units for node in unit) and self.fail(units)

    def _is_claimed(self, node: NodeId) -> bool:
        view = OpView.of(self.function.graph.nodes[node].value)
        rule = None if view is None else rule_of(self.function.target, view.name)
        return view is not None and rule is not None and rule(view) is True

    def fail(self, units: Sequence[Nodes]) -> bool:
        """Whether some units are wrong as a separate region; False if that cannot be built."""
        nodes = with_structure(self.function, {node for unit in units for node in unit})
        if nodes not in self._answers:
            self._answers[nodes] = self.builds < _MOST_BUILDS and self._is_wrong(nodes)
        return self._answers[nodes]

    def _is_wrong(self, nodes: Nodes) -> bool:
        symbol = f"{self.function.symbol}_part"
        external = part_function(self.function, nodes, symbol)
        if external is None:
            return False
        self.builds += 1
        with ExitStack() as builds:
            try:
                executable = compile_module(
                    parts_module({symbol: external.func}), options=self.failure.options
                )
                machine = builds.enter_context(machine_of(executable))
            except AnnotatedRegionError:
                return False
            try:
                found = arrays_of(machine[ENTRY.format(symbol)](*self.values.arguments(external)))
            except FAILURES as error:
                return self._failed(nodes, external, [], first_line(error))
        return self._failed(nodes, external, found, "")

    def _failed(self, nodes: Nodes, external: External, found: Sequence[np.ndarray], error: str) -> bool:
        """Whether a part fails in the same way as the region: with an error, or with a wrong result."""
        if bool(error) != bool(self.failure.error) or not (error or self._differs(external, found)):
            return False
        names = [leaf.name for leaf in external.results]
        wanted = [self.values.array_of(leaf) for leaf in external.results]
        self.smallest = replace(
            self.failure,
            nodes=nodes,
            values=self.values,
            wanted=dict(zip(names, wanted, strict=True)),
            found=dict(zip(names, found, strict=False)),
            error=error,
        )
        return True

    def _differs(self, external: External, found: Sequence[np.ndarray]) -> bool:
        plain = opened(external.func) if is_inlinable(external.func) else external.func
        tolerance = self.failure.tolerance
        if tolerance.of_largest > 0:  # the default tolerance, so recompute it for the part
            tolerance = tolerance_for(plain, self.function.target, self.failure.options)
        return any(
            not compared_leaf(self.values, leaf, one, tolerance).ok
            for leaf, one in zip(external.results, found, strict=True)
        )
