"""Mixtures of experts in dense form, as ONNX graphs: all experts run, weights of zero drop most of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kits.onnx_network import Network
from kits.zoo.onnx_blocks import project, rms_norm, sigmoid_linear, sliced
from kits.zoo.onnx_model import OnnxModel
from kits.zoo.signature import Input, forms_of

__all__ = ["MODELS"]

WIDTH, HIDDEN, EXPERTS, CHOSEN = 16, 24, 4, 2


def _soft(net: Network) -> Sequence[str]:
    """All experts as one batched product, weighted by a softmax."""
    n = rms_norm(net, "x", WIDTH)
    gates = net.op("Softmax", project(net, n, WIDTH, EXPERTS), axis=-1)
    each = net.op("Unsqueeze", n, net.shape(1))
    hidden = sigmoid_linear(net, net.op("MatMul", each, net.weight((EXPERTS, WIDTH, HIDDEN), WIDTH**-0.5)))
    inner = net.op("Mul", hidden, net.op("MatMul", each, net.weight((EXPERTS, WIDTH, HIDDEN), WIDTH**-0.5)))
    said = net.op("MatMul", inner, net.weight((EXPERTS, HIDDEN, WIDTH), HIDDEN**-0.5))
    weights = net.op("Unsqueeze", net.op("Transpose", gates, perm=(0, 2, 1)), net.shape(3))
    mixed = net.op("ReduceSum", net.op("Mul", said, weights), net.shape(1), keepdims=0)
    return [net.op("Add", "x", mixed), gates]


def _best_two(net: Network, scores: str) -> str:
    """A weight for each expert, zero but for the two best: (batch, length, expert)."""
    best, which = net.ops("TopK", 2, scores, net.shape(CHOSEN), axis=-1)
    weights = net.op("Unsqueeze", net.op("Softmax", best, axis=-1), net.shape(3))
    numbers = net.constant(np.arange(EXPERTS).reshape(1, 1, 1, EXPERTS))
    is_it = net.op("Cast", net.op("Equal", net.op("Unsqueeze", which, net.shape(3)), numbers), to=1)
    return net.op("ReduceSum", net.op("Mul", weights, is_it), net.shape(2), keepdims=0)


def _mixtral(net: Network) -> Sequence[str]:
    """The experts one by one, each with its column of the weights, and an expert that all share."""
    n = rms_norm(net, "x", WIDTH)
    weights = _best_two(net, project(net, n, WIDTH, EXPERTS))
    total = ""
    for expert in range(EXPERTS + 1):
        gate = sigmoid_linear(net, project(net, n, WIDTH, HIDDEN))
        said = project(net, net.op("Mul", gate, project(net, n, WIDTH, HIDDEN)), HIDDEN, WIDTH)
        if expert < EXPERTS:
            said = net.op("Mul", said, sliced(net, weights, expert, expert + 1, 2))
        total = net.op("Add", total, said) if total else said
    return [net.op("Add", "x", total)]


X = Input("x", ("batch", "length", WIDTH))
FORMS = forms_of(
    {"batch": 1, "length": 1}, {"batch": 3, "length": 5}, {"batch": 1, "length": 7}, {"batch": 2, "length": 1}
)

MODELS = (OnnxModel("soft_experts", (X,), _soft, FORMS), OnnxModel("mixtral_experts", (X,), _mixtral, FORMS))
