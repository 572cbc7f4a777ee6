"""The models of `everyday_shapes` with bytes for operands, as quantizers write them.

Kernels in bytes take other code where channels are many, too: with AMX, those in tiles of 64.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kits.importing.everyday_shapes import everyday_model
from kits.onnx_nodes import by_onnx_runtime

__all__ = ["everyday_model_of_bytes"]

OUTPUT_CHANNELS = {"Conv": 0, "MatMul": 1}
PRODUCTS = ("Conv", "ConvTranspose", "MatMul")
OTHERS = ("Add", "AveragePool", "Concat", "MaxPool", "Mul", "Sub")
LARGEST = 127


@dataclass
class _Rounded:
    """A model in the making, and the values of the one that it rounds."""

    rng: np.random.Generator
    values: dict[str, np.ndarray]
    constants: dict[str, np.ndarray]
    signed: bool
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    rounded: dict[str, str] = field(default_factory=dict)

    def constant(self, value: np.ndarray) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name

    def in_bytes(self, name: str) -> str:
        """A value as bytes, and back; the same bytes for all readers."""
        if name in self.rounded:
            return self.rounded[name]
        low, high = min(float(self.values[name].min()), 0.0), max(float(self.values[name].max()), 1e-3)
        if self.signed:
            step, zero, dtype = max(-low, high) / LARGEST, 0, "int8"
        else:
            step, dtype = (high - low) / 255, str(self.rng.choice(["uint8", "int8"]))
            zero = int(np.rint(-low / step)) - (128 if dtype == "int8" else 0)
        scale = self.constant(np.array(step * self.rng.uniform(0.9, 1.1), "float32"))
        point = self.constant(np.array(zero, dtype))
        number = len(self.nodes)
        self.nodes.append(helper.make_node("QuantizeLinear", [name, scale, point], [f"q{number}"]))
        self.nodes.append(helper.make_node("DequantizeLinear", [f"q{number}", scale, point], [f"d{number}"]))
        self.rounded[name] = f"d{number}"
        return f"d{number}"

    def weight_in_bytes(self, name: str, axis: int | None) -> str:
        """A weight, with a scale for each channel of an axis or a single one."""
        weight = self.constants[name]
        attrs, shape = {}, [1] * weight.ndim
        if axis is not None and self.rng.random() < 0.6:
            attrs["axis"], shape[axis] = axis, -1
            others = tuple(each for each in range(weight.ndim) if each != axis)
            scale = (np.maximum(np.abs(weight).max(others), 1e-3) / LARGEST).astype("float32")
        else:
            scale = np.array(np.abs(weight).max() / LARGEST, "float32")
        steps = scale.reshape(shape) if attrs else scale
        whole = np.rint(weight / steps).clip(-LARGEST, LARGEST).astype("int8")
        operands = [self.constant(each) for each in (whole, scale, np.zeros(scale.shape, "int8"))]
        made = f"w{len(self.nodes)}"
        self.nodes.append(helper.make_node("DequantizeLinear", operands, [made], **attrs))
        return made

    def add(self, node: onnx.NodeProto) -> None:
        """The node with most of its operands in bytes."""
        rounded = onnx.NodeProto()
        rounded.CopyFrom(node)
        if node.op_type in PRODUCTS and self.rng.random() < 0.93:
            rounded.input[0] = self.in_bytes(node.input[0])
            rounded.input[1] = self.weight_in_bytes(node.input[1], OUTPUT_CHANNELS.get(node.op_type))
        elif node.op_type in OTHERS and self.rng.random() < 0.35:
            for place, name in enumerate(node.input):
                if name not in self.constants:
                    rounded.input[place] = self.in_bytes(name)
        self.nodes.append(rounded)


def everyday_model_of_bytes(seed: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The model of a seed, and inputs for it; a few have no nodes, because no product was small enough."""
    model, inputs = everyday_model(seed)
    if not model.graph.node:
        return model, inputs
    rng = np.random.default_rng([seed, 1])
    constants = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    making = _Rounded(rng, _values(model, inputs), constants, bool(rng.random() < 0.3))
    for node in model.graph.node:
        making.add(node)
    result = model.graph.output[0].name
    if rng.random() < 0.6:
        result = making.in_bytes(result)
    read = {name for node in making.nodes for name in node.input}
    kept = [numpy_helper.from_array(each, name) for name, each in making.constants.items() if name in read]
    results = [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)]
    graph = helper.make_graph(making.nodes, f"bytes_{seed}", model.graph.input, results, kept)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), inputs


def _values(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every value of a model, by name."""
    told = onnx.ModelProto()
    told.CopyFrom(model)
    names = [name for node in model.graph.node for name in node.output]
    del told.graph.output[:]
    told.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    return {**inputs, **dict(zip(names, by_onnx_runtime(told, inputs), strict=True))}
