"""The values of a recipe's inputs and constants, made from its seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import ml_dtypes  # noqa: F401  (numpy then knows the name of bfloat16)
import numpy as np

from kits.dense_graphs.recipe import Recipe, extent_of

__all__ = ["KINDS", "constant_value", "input_values"]

LARGEST_HALF = float(np.finfo("float16").max)
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


def _mixed(ordinary: Draw, *others: float, part: float = 0.3) -> Draw:
    """Some numbers among others."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        values = np.asarray(ordinary(rng, shape))
        return np.where(rng.random(shape) < part, rng.choice(others, shape), values)

    return draw


def _sunk(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers and minus infinity, but not in the first place of a row."""
    return np.asarray(rng.standard_normal(shape) + _visible(-np.inf)(rng, shape))


def _bits(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Of any whole number, of which a type keeps the low bits; often the largest or least of a type."""
    values = rng.integers(-(2**63), 2**63 - 1, shape, "int64", endpoint=True)
    edges = [2**power + more for power in (0, 7, 8, 31, 53, 62) for more in (-1, 0, 1)]
    edges += [2**63 - 1, -(2**63), -(2**31), -(2**53) - 1, -128, -1]
    return np.where(rng.random(shape) < 0.4, rng.choice(np.array(edges, "int64"), shape), values)


def _among(*numbers: float) -> Draw:
    return lambda rng, shape: rng.choice(numbers, shape)


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
    "infinite": _mixed(lambda rng, shape: rng.standard_normal(shape), np.inf, -np.inf),
    "undefined": _mixed(lambda rng, shape: rng.standard_normal(shape), np.nan),
    "sunk": _sunk,
    "zeros": _among(0.0, -0.0, 0.4, -0.4, 1.0, -1.0),
    "tenths": lambda rng, shape: rng.integers(-30, 31, shape) / 10,
    "rising": lambda rng, shape: np.sort(rng.integers(-30, 31, shape) / 10),
    "few": lambda rng, shape: rng.integers(0, 3, shape),
    "bits": _bits,
    "to_int32": _among(2.0**31 - 128, -(2.0**31), 2.0**24 + 2, 0.9, -0.9, 255.5, -1.5),
    "to_int64": _among(2.0**63 - 2.0**39, -(2.0**63), 2.0**31, 2.0**53, 0.9, -0.9, -(2.0**40)),
    "to_int8": _among(127.9, -128.0, -128.9, 0.9, -0.9, -1.0, 64.5),
    "to_uint8": _among(255.9, 128.0, 127.5, 0.9, 0.0, -0.0, -0.9),
}
"""What a source may hold, by the name of the kind."""


def _value(recipe: Recipe, number: int, call: int) -> np.ndarray:
    node = recipe.nodes[number]
    with np.errstate(over="ignore"):  # masks are infinite where a type has no number as low
        if "value" in node.attrs:
            return np.full([extent_of(d, {}) for d in node.shape], node.attrs["value"], node.dtype)
        shape = tuple(extent_of(dim, recipe.calls[call]) for dim in node.shape)
        rng = np.random.default_rng([recipe.seed, node.attrs["key"], call])
        values = np.asarray(KINDS[node.attrs["kind"]](rng, shape))
        if node.dtype == "float16" and node.attrs["kind"].startswith(
            "to_"
        ):  # casts of infinity are undefined
            values = values.clip(-LARGEST_HALF, LARGEST_HALF)
        return values.astype(node.dtype)


def constant_value(recipe: Recipe, number: int) -> np.ndarray:
    """The content of a constant."""
    return _value(recipe, number, 0)


def input_values(recipe: Recipe, call: int) -> list[np.ndarray]:
    """What the graph is called with."""
    return [_value(recipe, number, call) for number, node in enumerate(recipe.nodes) if node.op == "input"]
