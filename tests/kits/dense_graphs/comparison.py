"""Tells a wrong answer from rounding: results against the reference, within what it says of rounding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tvm

from kits.dense_graphs.recipe import Recipe
from kits.dense_graphs.reference import evaluate
from kits.dense_graphs.sources import input_values
from kits.dense_graphs.values import AS_FLOAT32, HALVES, Roundings, Value, is_float

__all__ = ["Difference", "Expectation", "expectations"]

FEW, MANY = 1, 48
"""How often errors are drawn at first, and before a difference counts: none of them may turn a decision.

More draws can only allow more, so that what agrees after the first needs no others.
"""

FACTOR = 8.0
"""How much more than the largest error that was drawn an engine may be wrong by."""

LEAST = 2e-6
"""What an engine may be wrong by anyway, as a part of the largest element of the result."""

UNITS = 4.0
"""The same for types of half the bits, in roundings to such a type: constants are joined in it, too."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A result that is wrong: which one, where, and by how much."""

    result: int
    text: str


@dataclass(slots=True)
class Expectation:
    """What one call of a graph has to give.

    Attributes
    ----------
    inputs
        What it is called with.
    values
        The results, each as often as errors were drawn.
    roundings
        What the engine rounds beside the results of its ops.
    """

    mod: tvm.IRModule
    inputs: list[np.ndarray]
    values: list[list[Value]]
    roundings: Roundings = AS_FLOAT32

    def difference(self, results: Sequence[np.ndarray]) -> Difference | None:
        """What is wrong with the results of an engine; None if nothing is."""
        found = self._difference(results)
        if found is not None and len(self.values) < MANY:
            for seed in range(len(self.values), MANY):
                self.values.append(evaluate(self.mod, "main", self.inputs, seed, self.roundings))
            found = self._difference(results)
        return found

    def _difference(self, results: Sequence[np.ndarray]) -> Difference | None:
        if len(results) != len(self.values[0]):
            return Difference(0, f"{len(results)} results instead of {len(self.values[0])}")
        for index, result in enumerate(results):
            text = _problem(result, [values[index] for values in self.values])
            if text is not None:
                return Difference(index, f"result {index} {text}")
        return None


def expectations(
    mod: tvm.IRModule, recipe: Recipe, draws: int = FEW, roundings: Roundings = AS_FLOAT32
) -> list[Expectation]:
    """What each call of a graph has to give, with errors drawn a few times.

    Raises
    ------
    UnfitValuesError
        The inputs are not fit to tell an error from rounding.
    """
    found = []
    for call in range(len(recipe.calls)):
        inputs = input_values(recipe, call)
        values = [evaluate(mod, "main", inputs, seed, roundings) for seed in range(draws)]
        found.append(Expectation(mod, inputs, values, roundings))
    return found


def _problem(result: np.ndarray, drawn: Sequence[Value]) -> str | None:
    wanted = drawn[0].clean
    if result.shape != wanted.shape:
        return f"has shape {result.shape} instead of {wanted.shape}"
    least = UNITS * HALVES[result.dtype.name][0] if result.dtype.name in HALVES else LEAST
    if is_float(result.dtype):
        result = result.astype("float64")
    if result.dtype.kind != wanted.dtype.kind:
        return f"is of type {result.dtype} instead of {wanted.dtype}"
    close = _close(result, drawn, least)
    if close.all():
        return None
    at = tuple(int(index) for index in np.argwhere(~close)[0])
    count = np.count_nonzero(~close)
    return f"has {result[at]:.7g} instead of {wanted[at]:.7g} at {at}; {count} of {close.size} are wrong"


def _close(result: np.ndarray, drawn: Sequence[Value], least: float) -> np.ndarray:
    wanted = drawn[0].clean
    if wanted.dtype.kind != "f":
        return np.asarray(result == wanted)
    with np.errstate(all="ignore"):
        errors = [np.abs(value.wide - wanted) for value in drawn]
        error = np.max(np.nan_to_num(np.stack(errors)), axis=0)
        finite = np.abs(wanted[np.isfinite(wanted)])
        largest = finite.max() if finite.size else 0.0
        near = np.abs(result - wanted) <= FACTOR * error + least * largest + 1e-9
    return np.asarray(near | (result == wanted) | (np.isnan(result) & np.isnan(wanted)))
