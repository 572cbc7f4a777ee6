"""Results on the host have the data type that the op names, also where it is not that of the operand."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from kits.backends.relax_kit import module, var
from tvm import relax
from tvm.relax import op

import annotated_region as ar

TYPES = ("float16", "float64", "int64", "int8", "bool")


def computed(result, x, given):
    built = ar.build(module([x], lambda _: result))
    return relax.VirtualMachine(built, tvm.cpu())["main"](tvm.runtime.tensor(given)).numpy()


@pytest.mark.parametrize("dtype", TYPES)
def test_ones_on_a_diagonal(dtype):
    x = var("x", (3, 4), "float32")
    found = computed(op.eye_like(x, 1, dtype), x, np.zeros((3, 4), "float32"))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.eye(3, 4, 1, dtype=dtype))


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32"])
def test_resized_images(dtype):
    """Every pixel twice; whole numbers, which all types hold."""
    image = np.random.default_rng(0).integers(-9, 9, (1, 2, 3, 4)).astype("float32")
    x = var("x", image.shape, "float32")
    for scaled in (op.image.resize2d, op.image.resize3d):
        rank = 2 if scaled is op.image.resize2d else 3
        y = x if rank == 2 else op.reshape(x, (1, 2, 1, 3, 4))
        size = (6, 8) if rank == 2 else (1, 6, 8)
        layout = "NCHW" if rank == 2 else "NCDHW"
        result = scaled(
            y, size, layout=layout, method="nearest_neighbor", coordinate_transformation_mode="asymmetric",
            rounding_method="floor", out_dtype=dtype,
        )  # fmt: skip
        found = computed(result, x, image)
        assert found.dtype == dtype
        expected = image.repeat(2, 2).repeat(2, 3).astype(dtype)
        np.testing.assert_array_equal(found.reshape(expected.shape), expected)


def test_samples_at_places_in_double_precision():
    image = np.random.default_rng(0).normal(size=(1, 2, 5, 4)).astype("float32")
    grid = np.random.default_rng(1).uniform(-1.2, 1.2, (1, 2, 3, 3))
    x, places = var("x", image.shape, "float32"), var("grid", grid.shape, "float64")
    built = ar.build(module([x, places], lambda _: op.image.grid_sample(x, places, align_corners=True)))
    given = [tvm.runtime.tensor(each) for each in (image, grid)]
    found = relax.VirtualMachine(built, tvm.cpu())["main"](*given).numpy()
    assert found.dtype == "float32"
    session = onnxruntime.InferenceSession(sampling_model(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": image, "grid": grid.transpose(0, 2, 3, 1).astype("float32")})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def sampling_model() -> bytes:
    node = onnx.helper.make_node("GridSample", ["x", "grid"], ["y"], align_corners=1)
    inputs = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in ("x", "grid")
    ]
    result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = onnx.helper.make_graph([node], "samples", inputs, [result])
    opset = onnx.helper.make_opsetid("", 17)
    return bytes(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString())
