"""Convolutions of bytes on OpenVINO, and their answers beside those of ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import tvm
from tvm import relax

import annotated_region as ar
from annotated_region.host_targets import UNOPTIMIZED
from kits.backends.engine_kit import call
from kits.onnx_nodes import Node, by_onnx_runtime, model_of_nodes

__all__ = ["drawn", "in_bytes", "require_right"]

STEP = np.float32(0.02)


def in_bytes(data, kernel, zero, **attrs):
    """A convolution of bytes by bytes."""
    constants = {"s": STEP, "z": np.uint8(zero), "w": kernel, "ws": np.float32(0.01), "wz": np.int8(0)}
    nodes = [
        Node("QuantizeLinear", "x s z", "q"),
        Node("DequantizeLinear", "q s z", "d"),
        Node("DequantizeLinear", "w ws wz", "k"),
        Node("Conv", "d k", **attrs),
    ]
    return model_of_nodes(nodes, {"x": data}, {name: np.asarray(each) for name, each in constants.items()})


def answer(model: onnx.ModelProto, *arrays, **options):
    partitioned = ar.partition(ar.from_onnx(model), ["openvino"])
    built = ar.build(partitioned, UNOPTIMIZED, options={"openvino": options})
    return call(relax.VirtualMachine(built, tvm.cpu()), *arrays)[0]


def drawn(shape, kernel):
    """Data far from the ties of their quantization, and a kernel of bytes."""
    rng = np.random.default_rng(0)
    data = (rng.integers(-120, 120, shape) + np.float32(0.25)).astype("float32") * STEP
    return data, rng.integers(-100, 100, kernel).astype("int8")


def require_right(model: onnx.ModelProto, data: np.ndarray, **options) -> None:
    (right,) = by_onnx_runtime(model, {"x": data})
    found = answer(model, data, **options)
    bound = 3e-2 if options else 1e-4
    np.testing.assert_allclose(found, right, atol=bound * np.abs(right).max())
