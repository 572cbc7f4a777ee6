"""A `Scan` over one input, with one carried value and one result of its steps."""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper

__all__ = ["scan_model"]

FLOAT = TensorProto.FLOAT


def scan_model(length: int | str, *, reverse: bool = False, axis: int = 0) -> onnx.ModelProto:
    """A model that reads `length` elements of two numbers along an axis, backwards if it is reversed."""
    extents: list[int | str] = [length, 2] if axis == 0 else [2, length]
    shapes = {name: [2] for name in ("h", "e", "g", "r", "h0")} | {"x": extents, "y": extents}
    infos = {name: helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in shapes.items()}
    nodes = [
        helper.make_node("Add", ["h", "e"], ["s"]),
        helper.make_node("Tanh", ["s"], ["g"]),
        helper.make_node("Mul", ["g", "e"], ["r"]),
    ]
    body = helper.make_graph(nodes, "body", [infos["h"], infos["e"]], [infos["g"], infos["r"]])
    directions = {f"scan_{side}_directions": [1] for side in ("input", "output")} if reverse else {}
    axes = {f"scan_{side}_axes": [axis] for side in ("input", "output")} if axis else {}
    node = helper.make_node(
        "Scan", ["h0", "x"], ["last", "y"], num_scan_inputs=1, body=body, **directions, **axes
    )
    graph = helper.make_graph([node], "scan", [infos["h0"], infos["x"]], [infos["y"]])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
