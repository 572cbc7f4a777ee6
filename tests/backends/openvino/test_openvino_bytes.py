"""Bytes that are joined, and bounds of numbers that were bytes, on OpenVINO."""

from __future__ import annotations

import numpy as np
import pytest
from kits.backends.engine_kit import built, call
from kits.backends.openvino_kit import needs_openvino
from kits.backends.relax_kit import module, var
from tvm import relax
from tvm.relax import op

from annotated_region.backends.onnx_emitter.graph import Graph
from annotated_region.backends.openvino.kernels import DIALECT
from annotated_region.backends.openvino.repairs.repairing import repair

STEP = 0.0625


def _number(value, dtype="float32"):
    return relax.const(np.asarray(value, dtype))


@needs_openvino
@pytest.mark.parametrize("view", [False, True])
@pytest.mark.parametrize("zeros", [(0, 128), (128, 0), (0, 5), (5, 5)])
def test_joined_bytes_are_quantized_for_several_readers(zeros, view):
    """OpenVINO 2026.4 passes the bytes of another zero point on as they are."""
    params = [var(name, (1, 1, 2, 2), "uint8") for name in "xy"]

    def made(builder):
        numbers = [
            builder.emit(op.dequantize(x, _number(STEP), _number(zero, "uint8"), axis=1))
            for x, zero in zip(params, zeros, strict=True)
        ]
        joined = builder.emit(op.concat(numbers, axis=1))
        if view:
            joined = builder.emit(op.reshape(joined, (1, 2, 4)))
        quantized = builder.emit(
            op.quantize(joined, _number(STEP), _number(0, "uint8"), axis=1, out_dtype="uint8")
        )
        whole = builder.emit(op.dequantize(quantized, _number(STEP), _number(0, "uint8"), axis=1))
        return quantized, whole

    arrays = np.random.default_rng(0).integers(0, 256, (2, 1, 1, 2, 2)).astype("uint8")
    whole = [array.astype(int) - zero for array, zero in zip(arrays, zeros, strict=True)]
    wanted = np.clip(np.concatenate(whole, 1), 0, 255)
    quantized, numbers = call(built("openvino", module(params, made)), *arrays)
    np.testing.assert_array_equal(quantized.reshape(wanted.shape), wanted)
    np.testing.assert_array_equal(numbers.reshape(wanted.shape), wanted * np.float32(STEP))


@needs_openvino
@pytest.mark.parametrize("axes", [None, [2, 0, 1]])
def test_bounds_of_numbers_that_were_bytes(axes):
    """OpenVINO 2026.4 clips -2 to -0.4."""
    x = var("x", (1, 2, 2))

    def made(builder):
        scale, zero = _number(0.1), _number(3, "int8")
        quantized = builder.emit(op.quantize(x, scale, zero, axis=1, out_dtype="int8"))
        numbers = builder.emit(op.dequantize(quantized, scale, zero, axis=1))
        if axes is not None:
            numbers = builder.emit(op.permute_dims(numbers, axes))
        return op.clip(numbers, -0.5, 0.5)

    data = np.array([[[-2, -0.5], [0.3, 2]]], "float32")
    wanted = np.clip(np.rint(data / np.float32(0.1)) * np.float32(0.1), -0.5, 0.5)
    (found,) = call(built("openvino", module([x], made)), data)
    np.testing.assert_allclose(found, wanted if axes is None else wanted.transpose(axes), rtol=1e-6)


@needs_openvino
@pytest.mark.parametrize("factor", [None, 2.0])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_joined_numbers_are_quantized_twice(dtype, factor):
    """The compilation of OpenVINO 2026.4 ends the process."""
    params = [var(name, (1, 2, 3)) for name in "xy"]
    steps = [(0.25, 16, "uint8"), (0.5, 5, dtype)]

    def made(builder):
        numbers = builder.emit(op.concat(params, axis=2))
        for step, place, kind in steps:
            scale, zero = _number(step), _number(place, kind)
            quantized = builder.emit(op.quantize(numbers, scale, zero, axis=1, out_dtype=kind))
            numbers = builder.emit(op.dequantize(quantized, scale, zero, axis=1))
            if factor is not None and kind == "uint8":
                numbers = builder.emit(op.multiply(numbers, _number(factor)))
        return quantized

    # Whole steps of both quantizations, within the range of the first.
    arrays = np.random.default_rng(0).integers(-8, 9, (2, 1, 2, 3)).astype("float32") / 2
    joined = np.concatenate(list(arrays), 2) * (factor or 1)
    bounds = (-128, 127) if dtype == "int8" else (0, 255)
    (found,) = call(built("openvino", module(params, made)), *arrays)
    np.testing.assert_array_equal(found, np.clip(joined / 0.5 + 5, *bounds))


@pytest.mark.parametrize("shape", ["known", "computed"])
def test_joined_numbers_are_found_behind_views_of_any_shape(shape):
    graph = Graph("graph", DIALECT)
    graph.constants |= {"s": np.array(0.5, "float32"), "a": np.array(0, "int8"), "b": np.array(5, "int8")}
    for name, dtype in (("s", "float32"), ("a", "int8"), ("b", "int8"), ("x", "int8"), ("y", "int8")):
        graph.declare(name, dtype)
    parts = [graph.add("DequantizeLinear", (x, "s", zero), 1, {})[0] for x, zero in ("xa", "yb")]
    target = graph.constant(np.array([-1])) if shape == "known" else graph.declare("extents", "int64")
    (joined,) = graph.add("Concat", parts, 1, {"axis": 0})
    (viewed,) = graph.add("Reshape", (joined, target), 1, {})
    graph.add("QuantizeLinear", (viewed, "s", "a"), 1, {})
    repair(graph)
    assert graph.operators[-1].inputs[0] != viewed
