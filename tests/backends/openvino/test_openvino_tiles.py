"""Convolutions of bytes and of bfloat16, which OpenVINO computes in tiles where there is AMX."""

from __future__ import annotations

import numpy as np
import pytest
from kits.backends.openvino_convolutions import drawn, in_bytes, require_right
from kits.backends.openvino_kit import needs_openvino
from kits.onnx_nodes import Node, model_of_nodes
from onnx import helper, numpy_helper

from annotated_region.backends.onnx_emitter.graph import Graph
from annotated_region.backends.openvino.kernels import DIALECT
from annotated_region.backends.openvino.repairs.repairing import repair


@needs_openvino
@pytest.mark.parametrize("zero", [0, 128])
@pytest.mark.parametrize(
    ("extents", "kernel", "strides"),
    [
        ((64, 8, 3), (32, 64, 1, 3), (1, 2)),
        ((64, 10, 3), (32, 64, 3, 2), (1, 2)),
        ((320, 19, 3), (16, 80, 1, 3), (3, 3)),
        ((80, 14, 7, 3), (4, 80, 2, 3, 2), (3, 3, 3)),
    ],
)
def test_a_convolution_of_bytes_to_a_single_column_has_all_rows(extents, kernel, strides, zero):
    """OpenVINO 2026.4 computes the first row only, if the processor has AMX."""
    data, weight = drawn((1, *extents), kernel)
    model = in_bytes(data, weight, zero, strides=strides, group=extents[0] // kernel[1])
    require_right(model, data)


@needs_openvino
@pytest.mark.parametrize("columns", [3, 4, 5, 8])
def test_a_width_that_a_call_chooses_may_give_a_single_column(columns):
    data, weight = drawn((1, 64, 10, columns), (32, 64, 3, 3))
    model = in_bytes(data, weight, 3, strides=[2, 2], pads=[1, 0, 1, 0])
    model.graph.input[0].type.tensor_type.shape.dim[3].dim_param = "columns"
    require_right(model, data)


@needs_openvino
@pytest.mark.parametrize("columns", [3, "columns"])
def test_a_single_column_of_bfloat16_has_all_rows(columns):
    data, weight = drawn((1, 64, 10, 3), (32, 64, 3, 3))
    nodes, kernel = [Node("Conv", "x w", strides=[1, 2])], weight.astype("float32") / 100
    model = model_of_nodes(nodes, {"x": data}, {"w": kernel})
    if columns == "columns":
        model.graph.input[0].type.tensor_type.shape.dim[3].dim_param = columns
    require_right(model, data, precision="bf16")


@needs_openvino
@pytest.mark.parametrize(("groups", "channels"), [(2, 72), (2, 80), (4, 96), (4, 160)])
def test_groups_of_bytes_with_a_rest_of_channels(groups, channels):
    """OpenVINO 2026.4 is wrong for kernels of one pixel, if the processor has AMX."""
    data, weight = drawn((1, groups * channels, 4, 4), (groups * 16, channels, 1, 1))
    require_right(in_bytes(data, weight, 0, group=groups), data)


@needs_openvino
@pytest.mark.parametrize("stride", [1, 3])
@pytest.mark.parametrize(
    ("channels", "made", "kernel", "pads"),
    [
        (16, 64, (1, 5), (0, 2, 0, 2)),
        (16, 48, (5, 5), (2, 0, 2, 0)),
        (1, 64, (1, 5), (0, 2, 0, 2)),
        (28, 33, (1, 5), (0, 2, 0, 2)),
        (8, 64, (9,), (4, 4)),
        (16, 48, (1, 5), (0, 0, 0, 0)),
        (31, 65, (3, 3), (0, 0, 0, 0)),
        (2, 130, (1, 5), (0, 0, 0, 0)),
        (15, 96, (2, 2), (0, 0, 0, 0)),
    ],
)
def test_groups_of_bytes_with_a_zero_point(channels, made, kernel, pads, stride):
    """OpenVINO 2026.4 has blocks of channels wrong, if the processor has AMX."""
    extents = [14] * len(kernel)
    data, weight = drawn((1, 2 * channels, *extents), (2 * made, channels, *kernel))
    require_right(in_bytes(data, weight, 128, group=2, pads=pads, strides=[stride] * len(kernel)), data)


@needs_openvino
@pytest.mark.parametrize("function", ["Sigmoid", "Tanh", "Gelu", "Clip"])
@pytest.mark.parametrize(
    ("extents", "stride", "is_biased"), [((2, 6, 6), 2, True), ((1, 5), 2, True), ((16, 5), 1, False)]
)
def test_a_function_of_a_transposed_convolution_of_bytes_to_one_channel(extents, stride, is_biased, function):
    """OpenVINO 2026.4 fuses it wrongly behind a bias or a summand, if the processor has AMX."""
    channels, *pixels = extents
    data, weight = drawn((1, *extents), (channels, 1, *[3] * len(pixels)))
    model = in_bytes(data, weight, 0)
    del model.graph.node[-1], model.graph.output[:]
    strides, pads = [stride] * len(pixels), [1] * 2 * len(pixels)
    bounds = " low high" if function == "Clip" else ""
    model.graph.node.extend(
        [
            Node("ConvTranspose", "d k b" if is_biased else "d k", "t", strides=strides, pads=pads),
            *([] if is_biased else [Node("Add", "t b", "sum")]),
            Node(function, ("t" if is_biased else "sum") + bounds),
        ]
    )
    constants = {"b": np.full(1, 0.7, "float32"), "low": np.float32(-1), "high": np.float32(2)}
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items())
    model.graph.output.append(helper.make_empty_tensor_value_info("y"))
    model.opset_import[0].version = 20
    require_right(model, data)


@pytest.mark.parametrize(
    ("channels", "precision", "is_wider"),
    [(64, "f32", False), (64, "bf16", True), (64, "f16", True), (1, "f32", True)],
)
def test_floats_of_many_channels_need_no_other_column(channels, precision, is_wider):
    graph = Graph("columns", DIALECT)
    graph.declare("x", "float32")
    weight = graph.constant(np.ones((32, channels, 1, 3), "float32"))
    attrs = {"strides": [1, 2], "pads": [0] * 4, "dilations": [1, 1], "group": 1}
    graph.single_columns.update(graph.add("Conv", ("x", weight), 1, attrs))
    repair(graph, precision)
    kinds = [each.kind for each in graph.operators]
    assert kinds == (["Conv", "Slice"] if is_wider else ["Conv"])
    assert graph.operators[0].attrs["pads"] == [0, 0, 0, 2 if is_wider else 0]
