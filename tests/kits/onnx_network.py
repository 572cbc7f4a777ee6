"""A small writer of ONNX graphs with seeded weights, in the idioms of PyTorch's exporter."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
import onnx
from onnx import TensorProto, helper

__all__ = ["Network"]

OPSET = 17
IR_VERSION = 8  # belongs to opset 17


class Network:
    """A graph in the making: each method adds nodes and answers the name of their result.

    Every weight is drawn from a generator of its own, seeded with the network's name and the weight's, so
    that all processes and engines see the same network.
    """

    def __init__(self, name: str, seed: int = 0) -> None:
        """An empty graph called `name`."""
        self._seed = (seed, zlib.crc32(name.encode()))
        self._graph = onnx.GraphProto(name=name)
        self._constants: dict[str, str] = {}

    def input(self, name: str, shape: Sequence[int | str], *, whole: bool = False) -> str:
        """An input of floats, or of whole numbers; an extent may be a symbol."""
        kind = TensorProto.INT64 if whole else TensorProto.FLOAT
        self._graph.input.append(helper.make_tensor_value_info(name, kind, list(shape)))
        return name

    def op(self, kind: str, *inputs: str, **attributes: object) -> str:
        """A node with one result."""
        return self.ops(kind, 1, *inputs, **attributes)[0]

    def ops(self, kind: str, results: int, *inputs: str, **attributes: object) -> list[str]:
        """A node with several results."""
        number = len(self._graph.node)
        names = [f"{kind.lower()}_{number}_{index}" for index in range(results)]
        self._graph.node.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names

    def number(self, value: float) -> str:
        """A float without axes."""
        return self.constant(np.asarray(value, "float32"))

    def shape(self, *extents: int) -> str:
        """Whole numbers in a row, as ``Reshape`` and ``Slice`` take them."""
        return self.constant(np.asarray(extents, "int64"))

    def constant(self, values: np.ndarray) -> str:
        """A given array; equal ones are stored once."""
        key = f"{values.dtype}{values.shape}{zlib.crc32(values.tobytes())}"
        if key not in self._constants:
            self._constants[key] = f"constant_{len(self._constants)}"
            self._store(self._constants[key], values)
        return self._constants[key]

    def weight(self, shape: Sequence[int], deviation: float | None = None, mean: float = 0.0) -> str:
        """Normal numbers; their variance is two by the fan-in of a convolution's weight if none is given."""
        name = f"weight_{len(self._graph.initializer)}"
        generator = np.random.default_rng([*self._seed, zlib.crc32(name.encode())])
        spread = (2.0 / prod(shape[1:])) ** 0.5 if deviation is None else deviation
        values = generator.standard_normal(tuple(shape), dtype=np.float32)
        self._store(name, values * np.float32(spread) + np.float32(mean))
        return name

    def dense(self, value: str, inputs: int, outputs: int, gain: float = 1.0) -> str:
        """A linear layer with a bias, as ``MatMul`` and ``Add``."""
        product = self.op("MatMul", value, self.weight((inputs, outputs), gain / inputs**0.5))
        return self.op("Add", self.weight((outputs,), 0.02), product)

    def conv(self, value: str, shape: Sequence[int], stride: int = 1, groups: int = 1) -> str:
        """A convolution with a bias, padded to keep the extents unless it divides the image into patches."""
        window = list(shape[2:])
        pad = 0 if stride == window[0] else window[0] // 2
        return self.op(
            "Conv", value, self.weight(shape), self.weight((shape[0],), 0.02),
            kernel_shape=window, strides=[stride] * 2, pads=[pad] * 4, group=groups,
        )  # fmt: skip

    def layer_norm(self, value: str, width: int, epsilon: float = 1e-5) -> str:
        """A normalisation over the last axis."""
        scale, shift = self.weight((width,), 0.1, 1.0), self.weight((width,), 0.1)
        return self.op("LayerNormalization", value, scale, shift, axis=-1, epsilon=epsilon)

    def gelu(self, value: str) -> str:
        """GELU by the error function, in its parts."""
        error = self.op("Erf", self.op("Div", value, self.number(2**0.5)))
        inner = self.op("Mul", value, self.op("Add", error, self.number(1.0)))
        return self.op("Mul", inner, self.number(0.5))

    def gelu_tanh(self, value: str) -> str:
        """GELU by the hyperbolic tangent, in its parts."""
        cube = self.op("Mul", self.op("Pow", value, self.number(3.0)), self.number(0.044715))
        inner = self.op("Mul", self.op("Add", value, cube), self.number((2 / np.pi) ** 0.5))
        outer = self.op("Add", self.op("Tanh", inner), self.number(1.0))
        return self.op("Mul", self.op("Mul", value, self.number(0.5)), outer)

    def model(self, result: str, shape: Sequence[int]) -> onnx.ModelProto:
        """The finished model, with one output."""
        return self.model_of({result: shape})

    def model_of(self, results: Mapping[str, Sequence[int] | None]) -> onnx.ModelProto:
        """The finished model with the shapes of its outputs, floats; None where one is not told."""
        for name, shape in results.items():
            self._graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        model = onnx.ModelProto(ir_version=IR_VERSION)
        model.opset_import.append(helper.make_opsetid("", OPSET))
        model.graph.CopyFrom(self._graph)
        return model

    def _store(self, name: str, values: np.ndarray) -> None:
        kind = helper.np_dtype_to_tensor_dtype(values.dtype)
        self._graph.initializer.add(name=name, data_type=kind, dims=values.shape, raw_data=values.tobytes())
