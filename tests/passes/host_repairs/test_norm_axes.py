"""Norms over any axes, in any order, compute what numpy does."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

import annotated_region as ar

SHAPE = (2, 3, 4)
AXES = ((0,), (1,), (2,), (0, 1), (1, 0), (2, 0), (2, 1), (0, 1, 2), (2, 0, 1))
TARGETS: list[list[str]] = [[], ["dnnl"], ["onnxruntime"]]


@pytest.mark.sweep
@pytest.mark.parametrize("targets", TARGETS, ids=["host", "dnnl", "onnxruntime"])
@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_a_norm_over_some_axes(name: str, axes: tuple[int, ...], targets: list[str]) -> None:
    rng = np.random.default_rng(4)
    extents = [SHAPE[axis] for axis in axes]
    x, *parameters = (rng.standard_normal(each).astype("float32") for each in (SHAPE, extents, extents))
    if name == "rms_norm":
        del parameters[1]
    data = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [data]):
        with builder.dataflow():
            given = [data, *map(relax.const, parameters)]
            op = getattr(relax.op.nn, name)
            result = builder.emit_output(op(*given, axes=[axis - 3 for axis in axes], epsilon=1e-2))
        builder.emit_func_output(result)
    mod = builder.get()
    machine = relax.VirtualMachine(ar.build(ar.partition(mod, targets) if targets else mod), tvm.cpu())
    found = machine["main"](tvm.runtime.tensor(x)).numpy()
    np.testing.assert_allclose(found, expected(name, x, axes, parameters), rtol=1e-5, atol=1e-5)


def expected(name: str, x: np.ndarray, axes: tuple[int, ...], parameters: list[np.ndarray]) -> np.ndarray:
    """In float64; the axes of the parameters are those of the norm, in its order."""
    wide = x.astype("float64")
    spread = [SHAPE[axis] if axis in axes else 1 for axis in range(3)]
    scale, *shift = (each.transpose(np.argsort(axes)).reshape(spread) for each in parameters)
    if name == "rms_norm":
        return np.asarray(wide / np.sqrt((wide**2).mean(axes, keepdims=True) + 1e-2) * scale)
    centred = wide - wide.mean(axes, keepdims=True)
    return np.asarray(centred / np.sqrt(wide.var(axes, keepdims=True) + 1e-2) * scale + shift[0])
