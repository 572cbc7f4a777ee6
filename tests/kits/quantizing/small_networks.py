"""Networks small enough to be quantized many times, and the error of answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime
import tvm
from tvm import relax

import annotated_region as ar
from kits.onnx_network import Network

__all__ = ["answers", "arrays_for", "error_of", "onnxruntime_answers", "residual_network"]

SIDE = 16
WIDTHS = (16, 32, 64)
HALF = {"kernel_shape": [2, 2], "strides": [2, 2]}

Inputs = Sequence[Mapping[str, np.ndarray]]


def residual_network(classes: int = 10) -> onnx.ModelProto:
    """A ResNet of eight layers: a stem, three blocks of two convolutions, the last two pooled."""
    net = Network("residual")
    x = net.op("Relu", net.conv(net.input("image", (1, 3, SIDE, SIDE)), (WIDTHS[0], 3, 3, 3)))
    before = WIDTHS[0]
    for width in WIDTHS:
        stride = 1 if width == before else 2
        halved = x if stride == 1 else net.op("MaxPool", x, **HALF)
        inner = net.op("Relu", net.conv(halved, (width, before, 3, 3)))
        inner = net.conv(inner, (width, width, 3, 3))
        shortcut = x if stride == 1 else net.conv(net.op("AveragePool", x, **HALF), (width, before, 1, 1))
        x = net.op("Relu", net.op("Add", inner, shortcut))
        before = width
    pooled = net.op("Flatten", net.op("GlobalAveragePool", x))
    logits = net.op("Gemm", pooled, net.weight((before, classes), 0.2), net.weight((classes,), 0.1))
    return net.model(logits, (1, classes))


def arrays_for(model: onnx.ModelProto, seeds: range) -> list[dict[str, np.ndarray]]:
    """Normal numbers for a model with images."""
    shapes = {
        each.name: [dim.dim_value for dim in each.type.tensor_type.shape.dim] for each in model.graph.input
    }
    return [
        {
            name: np.random.default_rng(seed).standard_normal(shape, dtype="float32")
            for name, shape in shapes.items()
        }
        for seed in seeds
    ]


def answers(mod: tvm.IRModule, inputs: Inputs, target: str | None = None) -> list[np.ndarray]:
    """The first result of a module on a target, or on the host alone."""
    placed = mod if target is None else ar.partition(mod, [target])
    machine = relax.VirtualMachine(ar.build(placed), tvm.cpu())
    return [machine["main"](*map(tvm.runtime.tensor, each.values())).numpy() for each in inputs]


def onnxruntime_answers(model: onnx.ModelProto, inputs: Inputs) -> list[np.ndarray]:
    """The first result of a model, by ONNX Runtime."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [session.run(None, dict(each))[0] for each in inputs]


def error_of(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    """The error as a share of what is right: the root of the mean squares."""
    squares = [
        np.square(np.subtract(one, other, dtype="float64")).sum()
        for one, other in zip(found, wanted, strict=True)
    ]
    return float(np.sqrt(sum(squares) / sum(np.square(each, dtype="float64").sum() for each in wanted)))
