"""ONNX models of a few nodes, and what ONNX Runtime and TVM compute with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime
import tvm
from onnx import helper, numpy_helper

import annotated_region as ar
from kits.host_machines import host_machine

__all__ = ["CONTRIBUTED", "Node", "by_onnx_runtime", "by_tvm", "compared", "model_of_nodes"]

CONTRIBUTED = "com.microsoft"
Arrays = Mapping[str, np.ndarray]


def Node(op: str, inputs: str, outputs: str = "y", domain: str = "", **attributes: object) -> onnx.NodeProto:
    """A node; names of inputs and outputs have spaces between them, ``-`` stands for one that is left out."""
    names = [["" if name == "-" else name for name in text.split()] for text in (inputs, outputs)]
    return helper.make_node(op, *names, name=f"{op}_of_{names[1][0]}", domain=domain, **attributes)


def model_of_nodes(
    nodes: Sequence[onnx.NodeProto], inputs: Arrays, constants: Arrays, outputs: str = "y", opset: int = 17
) -> onnx.ModelProto:
    """A model whose inputs have the shapes and types of these arrays."""
    graph = helper.make_graph(
        nodes,
        "nodes",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in inputs.items()
        ],
        [helper.make_empty_tensor_value_info(name) for name in outputs.split()],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    versions = [helper.make_opsetid("", opset), helper.make_opsetid(CONTRIBUTED, 1)]
    return helper.make_model(graph, opset_imports=versions, ir_version=10)


def by_onnx_runtime(model: onnx.ModelProto, inputs: Arrays) -> list[np.ndarray]:
    """What ONNX Runtime computes, without its optimizer and on one thread."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, dict(inputs)))


def by_tvm(module: tvm.IRModule, inputs: Arrays) -> list[np.ndarray]:
    """What TVM computes with an imported module."""
    machine = host_machine(module)
    result = machine["main"](*(tvm.runtime.tensor(array) for array in inputs.values()))
    return [each.numpy() for each in ([result] if hasattr(result, "numpy") else result)]


def compared(model: onnx.ModelProto, inputs: Arrays) -> list[float]:
    """The largest difference of each output, whose shape and type have to be the same."""
    expected, found = by_onnx_runtime(model, inputs), by_tvm(ar.from_onnx(model), inputs)
    assert [(each.shape, each.dtype) for each in found] == [(each.shape, each.dtype) for each in expected]
    assert all(np.isfinite(each).all() for each in expected)
    return [
        float(np.abs(left.astype("float64") - right.astype("float64")).max(initial=0))
        for left, right in zip(found, expected, strict=True)
    ]
