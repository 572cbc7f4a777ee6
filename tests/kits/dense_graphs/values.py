"""Values of the reference: exact as float64 has them, beside what rounding may make of them.

Each tensor is held four times. `clean` is the answer. `wide` carries an error at random behind each op, as
large as an engine may make it: its distance from the answer tells how far rounding goes. `sharp` carries the
error of float32 where each op is rounded as well as a mathematical library rounds it: a comparison or a
rounding to whole numbers must come to the same with it, or the values are not fit to tell an error. `exact`
marks the elements that no rounding has touched, such as small whole numbers; these decide as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

__all__ = [
    "AS_FLOAT32",
    "HALVES",
    "UNIT",
    "Noise",
    "Roundings",
    "UnfitValuesError",
    "Value",
    "decided",
    "disturbed",
    "folded",
    "halved",
    "is_float",
    "moved",
    "planes_of",
    "require_apart",
    "require_numbers",
    "rounded_rows",
    "source",
]

UNIT = 2.0**-24
"""Half of the distance between 1 and the next float32: what one rounding may change of 1."""

LARGEST = float(np.finfo("float32").max)
HALVES = {"float16": (2.0**-11, 2.0**-14, 65504.0), "bfloat16": (2.0**-8, 2.0**-126, LARGEST)}
"""Of types with half the bits: what a rounding changes of 1, the least normal and the largest number."""
Array = np.ndarray


class UnfitValuesError(Exception):
    """The values of a graph are not fit to tell an error from rounding: they overflow, or lie on an edge."""


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor as the reference knows it."""

    clean: Array
    wide: Array
    sharp: Array
    exact: Array

    @property
    def is_float(self) -> bool:
        """Whether it holds numbers that may be rounded."""
        return self.clean.dtype.kind == "f"

    def planes(self, function: Callable[[Array], Array]) -> tuple[Array, Array, Array]:
        """A function of what has errors and what has none."""
        return function(self.clean), function(self.wide), function(self.sharp)

    @property
    def settled(self) -> Array:
        """What decides: the answer itself where it is exact, else with an error."""
        return np.where(self.exact, self.clean, self.sharp)


@dataclass(frozen=True, slots=True)
class Roundings:
    """What an engine rounds beside the results of its ops.

    Attributes
    ----------
    operands
        What rounding may change of an operand of a product, as a part of the largest in its row; 0 where
        products read their operands as they are.
    levels
        What rounding may change of a dequantized number, as a part of 256 scales; 0 where it is an integer
        times its scale.
    """

    operands: float = 0.0
    levels: float = 0.0


AS_FLOAT32 = Roundings()


@dataclass(frozen=True, slots=True)
class Noise:
    """Where errors come from.

    Attributes
    ----------
    rng
        What draws them.
    roundings
        What the engine rounds otherwise than float32.
    """

    rng: np.random.Generator
    roundings: Roundings = AS_FLOAT32

    def parts(self, shape: tuple[int, ...]) -> Array:
        """For each element a part of the largest error, up or down; no two errors cancel exactly."""
        return (self.rng.integers(0, 2, shape) * 2.0 - 1.0) * (0.5 + 0.5 * self.rng.random(shape))


def is_float(dtype: np.dtype) -> bool:
    """Whether elements are floating-point numbers; numpy itself does not know bfloat16."""
    return dtype.kind == "f" or dtype.name in HALVES


def source(array: Array) -> Value:
    """The value of an input or a constant."""
    clean = array.astype("float64") if is_float(array.dtype) else array
    return Value(clean, clean, clean, np.ones(clean.shape, bool))


def planes_of(function: Callable[..., Array], values: Sequence[Value]) -> tuple[Array, Array, Array]:
    """A function of several values, of what has errors and what has none."""
    return (
        np.asarray(function(*(v.clean for v in values))),
        np.asarray(function(*(v.wide for v in values))),
        np.asarray(function(*(v.sharp for v in values))),
    )


def moved(move: Callable[..., Array], values: Sequence[Value]) -> Value:
    """What only moves elements, moves all that is known of them."""
    planes = zip(*((v.clean, v.wide, v.sharp, v.exact) for v in values), strict=True)
    return Value(*(np.asarray(move(*plane)) for plane in planes))


def disturbed(
    noise: Noise,
    planes: tuple[Array, Array, Array],
    scale: Array,
    exact: Array,
    wide: float,
    sharp: float = UNIT,
) -> Value:
    """The result of an op with the errors that it may make: parts `wide` and `sharp` of `scale`."""
    clean, rough, fine = planes
    exact = np.broadcast_to(exact, clean.shape)
    _require_fit(clean[~(exact & np.isnan(clean))])
    exact = exact & ((clean == clean.astype("float32")) | np.isnan(clean))
    size = np.where(np.isfinite(scale), np.abs(scale), 0.0)
    rough = rough + wide * size * noise.parts(clean.shape)
    fine = np.where(exact, clean, _stored(fine + sharp * size * noise.parts(clean.shape)))
    return Value(clean, rough, fine, exact)


def folded(noise: Noise, value: Value, dtype: str) -> Value:
    """A constant; one of half the bits may be multiplied by others and rounded before the graph runs."""
    if dtype not in HALVES:
        return value
    size = HALVES[dtype][0] * np.where(np.isfinite(value.clean), np.abs(value.clean), 0.0)
    return Value(value.clean, value.wide + size * noise.parts(value.clean.shape), value.sharp, value.exact)


def halved(noise: Noise, value: Value, dtype: str) -> Value:
    """A value that may be rounded to a type of half the bits."""
    unit, least, largest = HALVES[dtype]
    clean = value.clean
    if np.any(np.abs(clean[np.isfinite(clean)]) > largest):
        raise UnfitValuesError("a value overflows")
    exact = value.exact & ((clean == clean.astype(dtype).astype("float64")) | np.isnan(clean))
    size = np.where(exact | ~np.isfinite(clean), 0.0, unit * np.maximum(np.abs(clean), least))
    parts = noise.parts(clean.shape)
    return Value(clean, value.wide + size * parts, value.sharp + size * parts, exact)


def rounded_rows(noise: Noise, value: Value) -> Value:
    """An operand of a product that rounds what it reads, each row by its largest number."""
    finite = np.where(np.isfinite(value.clean), np.abs(value.clean), 0.0)
    size = noise.roundings.operands * np.max(finite, axis=-1, keepdims=True, initial=0.0)
    parts = size * noise.parts(value.clean.shape)
    return Value(value.clean, value.wide + parts, value.sharp + parts, value.exact & (size == 0))


def _stored(values: Array) -> Array:
    """As float32 holds them: what comes close enough to an edge lies on it."""
    with np.errstate(over="ignore"):
        stored = values.astype("float32").astype("float64")
    return np.where(np.isfinite(stored), stored, values)


def _require_fit(clean: Array) -> None:
    if np.isnan(clean).any():
        raise UnfitValuesError("a value is undefined")
    finite = np.abs(clean[np.isfinite(clean)])
    if finite.size and finite.max() > LARGEST:
        raise UnfitValuesError("a value overflows")


def require_numbers(*planes: Array) -> None:
    """Refuse NaN where engines disagree about it."""
    if any(plane.dtype.kind == "f" and np.isnan(plane).any() for plane in planes):
        raise UnfitValuesError("NaN is ordered")


def require_apart(left: Value, right: Value) -> None:
    """Refuse different numbers that rounding may make equal: no error that is drawn is as small as that."""
    if not (left.is_float and right.is_float):
        return
    errors = [np.abs(value.sharp - value.clean) for value in (left, right)]
    gap = np.abs(left.clean - right.clean)
    most = 2 * (errors[0] + errors[1])  # half of the largest error is drawn at least
    if np.any((gap > 0) & (gap <= most)):
        raise UnfitValuesError("a decision depends on rounding")


def decided(decide: Callable[..., Array], values: Sequence[Value]) -> Value:
    """The result of an op that decides something; the same with and without errors."""
    clean = np.asarray(decide(*(value.clean for value in values)))
    if not np.array_equal(clean, decide(*(value.settled for value in values))):
        raise UnfitValuesError("a decision depends on rounding")
    return Value(clean, clean, clean, np.ones(clean.shape, bool))
