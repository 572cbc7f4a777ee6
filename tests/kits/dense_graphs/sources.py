"""The values of a recipe's inputs and constants, made from its seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import ml_dtypes  # noqa: F401  (numpy then knows the name of bfloat16)
import numpy as np

from kits.dense_graphs.recipe import Recipe, extent_of

__all__ = ["KINDS", "constant_value", "input_values"]

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def _mask(low: float) -> Draw:
    return lambda rng, shape: np.where(rng.random(shape) < 0.4, low, 0.0)


def _visible(low: float) -> Draw:
    """As a mask, but the first of a row is never hidden."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        mask = np.where(rng.random(shape) < 0.4, low, 0.0)
        mask[..., :1] = 0.0
        return mask

    return draw


def _seen(shape: tuple[int, ...], window: int) -> np.ndarray:
    """What a row of the latest positions may look at: itself, and before it as far as the window goes."""
    shift = shape[-1] - shape[-2]
    seen = np.tri(shape[-2], shape[-1], shift, dtype=bool)
    if window:
        seen &= ~np.tri(shape[-2], shape[-1], shift - window, dtype=bool)
    return seen & np.ones(shape, bool)


KINDS: Mapping[str, Draw] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "positive": lambda rng, shape: 0.25 + 2.0 * rng.random(shape),
    "unit": lambda rng, shape: 2.0 * rng.random(shape) - 1.0,
    "whole": lambda rng, shape: rng.integers(-4, 5, shape),
    "counting": lambda rng, shape: rng.integers(1, 10, shape),
    "power": lambda rng, shape: 2.0 ** rng.integers(0, 6, shape),
    "square": lambda rng, shape: rng.integers(1, 10, shape) ** 2,
    "zero": lambda _rng, shape: np.zeros(shape),
    "one": lambda _rng, shape: np.ones(shape),
    "truth": lambda rng, shape: rng.random(shape) < 0.6,
    "causal": lambda _rng, shape: _seen(shape, 0),
    "window": lambda _rng, shape: _seen(shape, 2),
    "bytes": lambda rng, shape: rng.integers(0, 100, shape),
    "signed": lambda rng, shape: rng.integers(-100, 100, shape),
    "hidden": _mask(-np.inf),
    "visible": _visible(-np.inf),
    "lowered": _mask(-1e9),
    "lowest": _visible(float(np.finfo("float32").min)),
}
"""What a source may hold, by the name of the kind."""


def _value(recipe: Recipe, number: int, call: int) -> np.ndarray:
    node = recipe.nodes[number]
    with np.errstate(over="ignore"):  # masks are infinite where a type has no number as low
        if "value" in node.attrs:
            return np.full([extent_of(d, {}) for d in node.shape], node.attrs["value"], node.dtype)
        shape = tuple(extent_of(dim, recipe.calls[call]) for dim in node.shape)
        rng = np.random.default_rng([recipe.seed, node.attrs["key"], call])
        return np.asarray(KINDS[node.attrs["kind"]](rng, shape)).astype(node.dtype)


def constant_value(recipe: Recipe, number: int) -> np.ndarray:
    """The content of a constant."""
    return _value(recipe, number, 0)


def input_values(recipe: Recipe, call: int) -> list[np.ndarray]:
    """What the graph is called with."""
    return [_value(recipe, number, call) for number, node in enumerate(recipe.nodes) if node.op == "input"]
