"""The labels of the frontier search, and their pruning by dominance.

A label is one partial placement. The labels of a layer have visited the same nodes; those with equal
shape and paid destinations have the same continuations, so a layer keeps only the cheapest of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from annotated_region.placement.dominance import PlacementProfile, beats, profile
from annotated_region.placement.shapes import Choice, PlacementShape

__all__ = ["Label", "Layer", "Narrowed", "choices_of", "size_of_layer", "undominated"]

RIVALS = 16
"""The number of cheapest labels that each label is compared with."""


class Label(NamedTuple):
    """A partial placement.

    Attributes
    ----------
    bound
        A lower bound on the cost of every placement that extends it.
    before
        The label that it extends; None at the start of a search.
    choice
        The choice of the last step; None at the start of a search.
    """

    bound: float
    before: Label | None
    choice: Choice | None


Layer = dict[PlacementShape, dict[int, Label]]
"""For each shape, the best label for each set of paid destinations (one bit per place, for each slot)."""


class Narrowed(NamedTuple):
    """A layer with fewer labels, and the least bound of those that were dropped."""

    layer: Layer
    dropped: float


def size_of_layer(layer: Layer) -> int:
    """The number of labels."""
    return sum(map(len, layer.values()))


def choices_of(label: Label) -> list[Choice]:
    """The choices that lead to a label, in the order of steps."""
    choices: list[Choice] = []
    cursor: Label | None = label
    while cursor is not None and cursor.choice is not None:
        choices.append(cursor.choice)
        cursor = cursor.before
    return choices[::-1]


def undominated(layer: Layer, launch: Sequence[float]) -> Layer:
    """The layer without dominated labels.

    Parameters
    ----------
    layer
        The layer.
    launch
        Seconds to enter a region, for each target.

    Notes
    -----
    O(labels x `RIVALS` x idle regions^3).
    """
    profiles = {shape: profile(shape) for shape in layer}
    contests: dict[tuple[tuple[object, ...], int], list[PlacementShape]] = {}
    for shape, variants in layer.items():
        stands = profiles[shape].stands
        for paid in variants:
            contests.setdefault((stands, paid), []).append(shape)
    kept: Layer = {}
    for (_stands, paid), shapes in contests.items():
        for shape in shapes if len(shapes) == 1 else _unbeaten(layer, shapes, paid, profiles, launch):
            kept.setdefault(shape, {})[paid] = layer[shape][paid]
    return kept


def _unbeaten(
    layer: Layer,
    shapes: list[PlacementShape],
    paid: int,
    profiles: Mapping[PlacementShape, PlacementProfile],
    launch: Sequence[float],
) -> list[PlacementShape]:
    """The shapes whose labels with equal paid destinations are not dominated by a cheaper undominated one."""
    shapes.sort(key=lambda shape: (layer[shape][paid].bound, len(profiles[shape].idle)))
    best: list[PlacementShape] = []
    for shape in shapes:
        taken, bound = profiles[shape], layer[shape][paid].bound
        if not any(
            beats(profiles[other], taken, bound - layer[other][paid].bound, launch) for other in best[:RIVALS]
        ):
            best.append(shape)
    return best
