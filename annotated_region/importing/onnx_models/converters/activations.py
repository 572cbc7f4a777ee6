"""The activation functions of recurrent layers, with their numbers, and the clip in front of them.

A node lists the numbers of all functions one behind the other, ``activation_alpha`` and ``activation_beta``:
each function takes as many as it has, and its defaults where the list has ended.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tvm import relax

from annotated_region.importing.onnx_models.converters.node import OnnxNode, dtype_of
from annotated_region.recurrent_loops.loop import LoopFunction

__all__ = ["Activation", "activation_of", "clip_of", "numbered_activations"]

Activation = Callable[[relax.Expr], relax.Expr]


@dataclass(frozen=True, slots=True)
class _ActivationFormula:
    """A function of a tensor.

    Attributes
    ----------
    make
        Its expression, of the node, the tensor, alpha and beta.
    alpha, beta
        The defaults; NaN if the number has to be given, None if the function has none.
    """

    make: Callable[[OnnxNode, relax.Expr, float, float], relax.Expr]
    alpha: float | None = None
    beta: float | None = None


def numbered_activations(node: OnnxNode, names: Sequence[str]) -> list[LoopFunction]:
    """The functions of these names, in any case.

    Raises
    ------
    ModelError
        A name is unknown, or a function lacks a number: ONNX has no default, or ONNX Runtime another one.
    """
    alphas, betas = (iter(node.numbers(f"activation_{each}")) for each in ("alpha", "beta"))
    made: list[LoopFunction] = []
    for name in names:
        function = _FUNCTIONS.get(name.lower())
        if function is None:
            raise node.declined(f"has the attribute 'activations' with {name!r}, which is not supported")
        alpha = 0.0 if function.alpha is None else next(alphas, function.alpha)
        beta = 0.0 if function.beta is None else next(betas, function.beta)
        node.require(
            not math.isnan(alpha + beta),
            f"has the attribute 'activations' with {name!r}, for which its attributes have no number",
        )
        made.append(LoopFunction(name.lower(), alpha, beta))
    return made


def activation_of(node: OnnxNode, function: LoopFunction, clip: float | None) -> Activation:
    """The function of a tensor; of data clipped to what is given."""

    def applied(data: relax.Expr) -> relax.Expr:
        given = node.emit(data)
        if clip is not None:
            given = node.emit(relax.op.clip(given, -clip, clip))
        return _FUNCTIONS[function.name].make(node, given, function.alpha, function.beta)

    return applied


def clip_of(node: OnnxNode) -> float | None:
    """The size to which the node clips what its functions get.

    Raises
    ------
    ModelError
        It is not a size.
    """
    if "clip" not in node.attributes:
        return None
    most = node.number("clip", 0.0)
    node.require(most > 0, f"has the attribute 'clip' of {most}")
    return most


def _affine(node: OnnxNode, data: relax.Expr, alpha: float, beta: float) -> relax.Expr:
    slope, shift = (relax.const(each, dtype_of(data)) for each in (alpha, beta))
    return relax.op.add(node.emit(relax.op.multiply(data, slope)), shift)


def _scaled_tanh(node: OnnxNode, data: relax.Expr, alpha: float, beta: float) -> relax.Expr:
    size, slope = (relax.const(each, dtype_of(data)) for each in (alpha, beta))
    inner = node.emit(relax.op.tanh(node.emit(relax.op.multiply(data, slope))))
    return relax.op.multiply(inner, size)


def _hard_sigmoid(node: OnnxNode, data: relax.Expr, alpha: float, beta: float) -> relax.Expr:
    return relax.op.clip(node.emit(_affine(node, data, alpha, beta)), 0.0, 1.0)


def _elu(node: OnnxNode, data: relax.Expr, alpha: float, _beta: float) -> relax.Expr:
    """``max(0, x) + alpha * (exp(min(0, x)) - 1)``."""
    zero, one, size = (relax.const(each, dtype_of(data)) for each in (0.0, 1.0, alpha))
    power = node.emit(relax.op.exp(node.emit(relax.op.minimum(data, zero))))
    below = node.emit(relax.op.multiply(node.emit(relax.op.subtract(power, one)), size))
    return relax.op.add(node.emit(relax.op.nn.relu(data)), below)


def _thresholded_relu(node: OnnxNode, data: relax.Expr, alpha: float, _beta: float) -> relax.Expr:
    zero, least = (relax.const(each, dtype_of(data)) for each in (0.0, alpha))
    return relax.op.where(node.emit(relax.op.greater(data, least)), data, zero)


def _softsign(node: OnnxNode, data: relax.Expr, _alpha: float, _beta: float) -> relax.Expr:
    size = node.emit(relax.op.add(node.emit(relax.op.abs(data)), relax.const(1.0, dtype_of(data))))
    return relax.op.divide(data, size)


_FUNCTIONS: Mapping[str, _ActivationFormula] = {
    "affine": _ActivationFormula(_affine, math.nan, math.nan),
    "elu": _ActivationFormula(_elu, 1.0),
    "hardsigmoid": _ActivationFormula(_hard_sigmoid, 0.2, 0.5),
    "leakyrelu": _ActivationFormula(
        lambda _node, data, alpha, _beta: relax.op.nn.leakyrelu(data, alpha), 0.01
    ),
    "relu": _ActivationFormula(lambda _node, data, _alpha, _beta: relax.op.nn.relu(data)),
    "scaledtanh": _ActivationFormula(_scaled_tanh, math.nan, math.nan),
    "sigmoid": _ActivationFormula(lambda _node, data, _alpha, _beta: relax.op.sigmoid(data)),
    "softplus": _ActivationFormula(lambda _node, data, _alpha, _beta: relax.op.nn.softplus(data)),
    "softsign": _ActivationFormula(_softsign),
    "tanh": _ActivationFormula(lambda _node, data, _alpha, _beta: relax.op.tanh(data)),
    "thresholdedrelu": _ActivationFormula(_thresholded_relu, math.nan),
}
