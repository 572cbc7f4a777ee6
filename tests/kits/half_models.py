"""ONNX networks of float16, made of those of float32 as exporters of half models write them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

__all__ = ["in_float16"]

LARGEST = float(np.finfo("float16").max)
"""What stands for minus infinity in a mask is the least number of the type."""


def in_float16(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same network with weights, inputs and results of float16; whole numbers and truth values stay."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for tensor in _tensors(made.graph):
        if tensor.data_type == TensorProto.FLOAT:
            values = numpy_helper.to_array(tensor).clip(-LARGEST, LARGEST).astype("float16")
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    for value in (*made.graph.input, *made.graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16
    for node in made.graph.node:
        for attribute in node.attribute if node.op_type == "Cast" else ():
            attribute.i = TensorProto.FLOAT16 if attribute.i == TensorProto.FLOAT else attribute.i
    return made


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        yield from (each.t for each in node.attribute if each.HasField("t"))
