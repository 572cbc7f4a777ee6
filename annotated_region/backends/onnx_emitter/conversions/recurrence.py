"""Recurrent layers over sequences of any length: ``LSTM``, ``GRU`` and ``RNN``.

::

    recurrent.loop(add(matmul(x, W), b), R, h)    =>    LSTM(x, W, R, b, h)

ONNX's operators have the product with the input in them, so the conversion looks for it behind the gates, and
the weight of the state leaves its tiles.
"""

from __future__ import annotations

import numpy as np
import tvm

from annotated_region.backends.onnx_emitter.emission import Emission, extents_of
from annotated_region.backends.onnx_emitter.graph import Operator
from annotated_region.backends.onnx_emitter.registry import converter
from annotated_region.recurrent_loops.loop import GATES, RecurrentLoop
from annotated_region.recurrent_loops.op import LOOP, loop_of_attributes
from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import require
from annotated_region.tvm_adapter.types import expect

__all__: list[str] = []

_NAMES = {
    each.lower(): each
    for each in (
        "Affine", "Elu", "HardSigmoid", "LeakyRelu", "Relu", "ScaledTanh", "Sigmoid", "Softplus", "Softsign",
        "Tanh", "ThresholdedRelu",
    )
}  # fmt: skip
"""ONNX's names of activation functions, by their small letters."""

_FLAGS = {
    "has_lengths": "the lengths of sequences",
    "has_peepholes": "peepholes",
    "is_coupled": "that a gate is coupled",
}
_WITH_ALPHA = ("affine", "elu", "hardsigmoid", "leakyrelu", "scaledtanh", "thresholdedrelu")
_WITH_BETA = ("affine", "hardsigmoid", "scaledtanh")


@converter(LOOP, alone=False)
def _recurrent_loop(emission: Emission, op: OpView) -> tuple[str, ...]:
    loop = loop_of_attributes(op.attrs, str(op.arg_tensor(0).dtype))
    for flag in sorted(emission.graph.dialect.ignores_of_recurrences):
        require(not getattr(loop, flag), f"{emission.graph.dialect.target} ignores {_FLAGS[flag]}")
    operands = dict(zip(loop.operands, op.args, strict=True))
    data, weight, bias = _product(emission, emission.operand(operands["gates"]))
    recurrent = _constant(emission, emission.operand(operands["weight"]), "the weight of the state")
    own = np.zeros_like(bias)
    if loop.has_bias:
        own = _constant(emission, emission.operand(operands["bias"]), "the bias of the state")
    states = [_by_direction(emission, emission.operand(operands[f"initial_{n}"])) for n in range(loop.states)]
    inputs = [
        data,
        emission.graph.constant(np.ascontiguousarray(weight.T)[None]),
        emission.graph.constant(_rows(recurrent, loop)[None]),
        emission.graph.constant(np.concatenate([bias, own])[None]),
        emission.operand(operands["lengths"]) if loop.has_lengths else "",
        *states,
    ]
    if loop.has_peepholes:
        peepholes = _constant(emission, emission.operand(operands["peepholes"]), "the peepholes")
        inputs.append(emission.graph.constant(peepholes[None]))
    whole, *last = emission.nodes(loop.cell, inputs, 1 + loop.states, **_attributes(loop))
    return (
        emission.reshape_to(whole, extents_of(expect(tvm.ir.TupleType, op.out_type).fields[0])),
        *(emission.node("Squeeze", each, emission.ints([0])) for each in last),
    )


def _attributes(loop: RecurrentLoop) -> dict[str, object]:
    attrs: dict[str, object] = {
        "hidden_size": loop.hidden,
        "direction": "reverse" if loop.is_reversed else "forward",
        "activations": [_NAMES[each.name] for each in loop.functions],
    }
    alphas = [each.alpha for each in loop.functions if each.name in _WITH_ALPHA]
    betas = [each.beta for each in loop.functions if each.name in _WITH_BETA]
    if alphas:
        attrs["activation_alpha"] = alphas
    if betas:
        attrs["activation_beta"] = betas
    if loop.clip is not None:
        attrs["clip"] = loop.clip
    if loop.resets_behind:
        attrs["linear_before_reset"] = 1
    if loop.is_coupled:
        attrs["input_forget"] = 1
    return attrs


def _product(emission: Emission, gates: str) -> tuple[str, np.ndarray, np.ndarray]:
    """The input, its weight [size, gates * hidden], and the bias, of what makes the gates."""
    made, bias = _maker(emission, gates), None
    if made.kind == "Add":
        summands = [_held(emission, each) for each in made.inputs]
        places = [place for place, each in enumerate(summands) if each is not None]
        require(len(places) == 1, "the gates are no product with a constant weight")
        (place,) = places
        bias, made = summands[place], _maker(emission, made.inputs[1 - place])
    require(made.kind == "MatMul", "the gates are no product with a constant weight")
    data, weight = made.inputs
    known = _constant(emission, weight, "the weight of the input")
    require(known.ndim == 2, "the weight of the input is no matrix")
    require(bias is None or bias.size == known.shape[1], "the bias of the input is no vector")
    return data, known, np.zeros(known.shape[1], known.dtype) if bias is None else bias.reshape(-1)


def _maker(emission: Emission, value: str) -> Operator:
    made = [each for each in emission.graph.operators if value in each.outputs]
    require(bool(made), "the gates are no product with a constant weight")
    return made[0]


def _held(emission: Emission, value: str) -> np.ndarray | None:
    graph = emission.graph
    if value in graph.weights:
        return np.asarray(graph.weights[value].numpy())
    return graph.constants.get(value)


def _constant(emission: Emission, value: str, what: str) -> np.ndarray:
    known = _held(emission, value)
    require(known is not None, f"{what} is computed")
    return np.asarray(known)


def _rows(tiled: np.ndarray, loop: RecurrentLoop) -> np.ndarray:
    """A weight [gates * hidden, hidden] from its tiles [gates * tiles, hidden, lanes]."""
    gates = GATES[loop.cell]
    rows = tiled.transpose(0, 2, 1).reshape(gates, -1, loop.hidden)
    return np.ascontiguousarray(rows[:, : loop.hidden].reshape(gates * loop.hidden, loop.hidden))


def _by_direction(emission: Emission, state: str) -> str:
    return emission.node("Unsqueeze", state, emission.ints([0]))
