"""Compositions as exporters write them, in many spellings, each with what it computes in double precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from tvm import relax

op = relax.op
Build = Callable[[relax.Expr], relax.Expr]
Compute = Callable[[np.ndarray], np.ndarray]

__all__ = ["ACTIVATIONS", "NORMALIZED", "Spelling", "number", "reference"]


def number(value: float, dtype: str = "float32") -> relax.Expr:
    return relax.const(value, dtype)


@dataclass(frozen=True, slots=True)
class Spelling:
    """One way to write a function.

    Attributes
    ----------
    name
        Of the function and of the way.
    build
        The parts, of tensors of the given dtype.
    """

    name: str
    build: Callable[[relax.Expr, str], relax.Expr]

    @property
    def function(self) -> str:
        return self.name.split()[0]


def _gelu(x: np.ndarray) -> np.ndarray:
    return np.asarray(x * 0.5 * (1 + np.vectorize(math.erf, otypes="d")(x * math.sqrt(0.5))))


def _rms_norm(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / np.sqrt(np.mean(x**2, -1, keepdims=True) + 1e-5))


def _layer_norm(x: np.ndarray) -> np.ndarray:
    return np.asarray((x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5))


reference: dict[str, Compute] = {
    "gelu": _gelu,
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
}

_ARGUMENTS: dict[str, dict[str, Callable[[relax.Expr, str], relax.Expr]]] = {
    "gelu": {
        "divided": lambda x, t: op.erf(op.divide(x, number(math.sqrt(2), t))),
        "multiplied": lambda x, t: op.erf(op.multiply(number(math.sqrt(0.5), t), x)),
        "few digits": lambda x, t: op.erf(op.multiply(x, number(0.70711, t))),
        "two factors": lambda x, t: op.erf(
            op.multiply(op.divide(x, number(2.0, t)), number(math.sqrt(2), t))
        ),
    },
    "gelu_tanh": {
        "power": lambda x, t: _tanh(
            op.add(x, op.multiply(op.power(x, number(3.0, t)), number(0.044715, t))), t
        ),
        "products": lambda x, t: _tanh(
            op.add(op.multiply(number(0.044715, t), op.multiply(x, op.multiply(x, x))), x), t
        ),
        "square": lambda x, t: _tanh(
            op.add(x, op.multiply(op.multiply(op.square(x), x), number(0.044715, t))), t
        ),
        "factored": lambda x, t: _tanh(
            op.multiply(x, op.add(number(1.0, t), op.multiply(op.multiply(x, number(0.044715, t)), x))),
            t,
        ),
        "two terms": lambda x, t: op.tanh(
            op.add(
                op.multiply(x, number(0.7978846, t)),
                op.multiply(op.multiply(op.multiply(x, x), x), number(0.0356774, t)),
            )
        ),
    },
    "silu": {"plain": lambda x, _t: op.sigmoid(x)},
}


def _tanh(inner: relax.Expr, dtype: str) -> relax.Expr:
    return op.tanh(op.multiply(inner, number(math.sqrt(2 / math.pi), dtype)))


def _halves(x: relax.Expr, curve: relax.Expr, place: str, dtype: str) -> relax.Expr:
    """x * (1 + curve) / 2 with the half at another place."""
    half, one, two = (number(value, dtype) for value in (0.5, 1.0, 2.0))
    match place:
        case "in front":
            return op.multiply(op.multiply(half, x), op.add(one, curve))
        case "behind":
            return op.multiply(op.multiply(op.add(curve, one), x), half)
        case "divided behind":
            return op.divide(op.multiply(x, op.add(curve, one)), two)
        case "at the gate":
            return op.multiply(x, op.multiply(op.add(curve, one), half))
        case "inside the gate":
            return op.multiply(op.add(op.multiply(curve, half), half), x)
        case _:
            raise AssertionError(place)


_PLACES = ("in front", "behind", "divided behind", "at the gate", "inside the gate")


def _activations() -> Iterator[Spelling]:
    for name, place in product(("gelu", "gelu_tanh"), _PLACES):
        for argument, curve in _ARGUMENTS[name].items():
            yield Spelling(
                f"{name} {argument}, half {place}",
                lambda x, t, curve=curve, place=place: _halves(x, curve(x, t), place, t),
            )
    yield Spelling("silu right", lambda x, _t: op.multiply(x, op.sigmoid(x)))
    yield Spelling("silu left", lambda x, _t: op.multiply(op.sigmoid(x), x))
    yield Spelling(
        "silu scaled and back",
        lambda x, t: op.multiply(op.multiply(op.multiply(x, number(4.0, t)), op.sigmoid(x)), number(0.25, t)),
    )


ACTIVATIONS = tuple(_activations())

_SQUARES: dict[str, Build] = {
    "product": lambda x: op.multiply(x, x),
    "square": op.square,
    "power": lambda x: op.power(x, number(2.0)),
}
_QUOTIENTS: dict[str, Callable[[relax.Expr, relax.Expr], relax.Expr]] = {
    "sqrt": lambda x, total: op.divide(x, op.sqrt(total)),
    "rsqrt": lambda x, total: op.multiply(x, op.rsqrt(total)),
    "rsqrt left": lambda x, total: op.multiply(op.rsqrt(total), x),
    "inverse": lambda x, total: op.multiply(x, op.divide(number(1.0), op.sqrt(total))),
    "power": lambda x, total: op.multiply(x, op.power(total, number(-0.5))),
    "divided by a power": lambda x, total: op.divide(x, op.power(total, number(0.5))),
}


def _total(moment: relax.Expr) -> relax.Expr:
    return op.add(number(1e-5), moment)


def _mean(x: relax.Expr) -> relax.Expr:
    return op.mean(x, axis=[-1], keepdims=True)


def _centred(x: relax.Expr) -> relax.Expr:
    return op.subtract(x, _mean(x))


def _normalized() -> Iterator[Spelling]:
    for (how, square), (root, quotient) in product(_SQUARES.items(), _QUOTIENTS.items()):
        yield Spelling(
            f"rms_norm {how}, {root}",
            lambda x, _t, square=square, quotient=quotient: quotient(x, _total(_mean(square(x)))),
        )
        yield Spelling(
            f"layer_norm {how}, {root}",
            lambda x, _t, square=square, quotient=quotient: _of_centre(x, square, quotient),
        )
    for root, quotient in _QUOTIENTS.items():
        yield Spelling(
            f"layer_norm variance, {root}",
            lambda x, _t, quotient=quotient: quotient(
                _centred(x), _total(op.variance(x, axis=[-1], keepdims=True))
            ),
        )


def _of_centre(
    x: relax.Expr, square: Build, quotient: Callable[[relax.Expr, relax.Expr], relax.Expr]
) -> relax.Expr:
    centre = relax.BlockBuilder.current().emit(_centred(x))
    return quotient(centre, _total(_mean(square(centre))))


NORMALIZED = tuple(_normalized())
