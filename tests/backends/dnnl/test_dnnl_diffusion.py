"""Networks with group norm on oneDNN: one region each, no slow primitive, and the answer of ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import Offloaded, external_functions, needs_onednn, offload, run, single
from kits.diffusion_models import DIFFUSION_MODELS, diffusion_model
from kits.family_models import inputs_of
from tvm import relax
from tvm.relax import op
from tvm.relax.frontend.onnx import from_onnx

import annotated_region as ar


@needs_onednn
@pytest.mark.parametrize("name", DIFFUSION_MODELS)
def test_a_network_with_group_norm(name: str) -> None:
    model = diffusion_model(name, "small")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = np.asarray(session.run(None, inputs_of(model))[0])
    module = ar.partition(from_onnx(model), ["dnnl"])
    library = ar.build(module).jit()
    (answer,) = run(relax.VirtualMachine(library, tvm.cpu()), "main", list(inputs_of(model).values()))
    np.testing.assert_allclose(answer, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())
    (symbol,) = external_functions(module)
    plan = str(library.get_function(f"{symbol}__plan", query_imports=True)()).splitlines()
    assert [line for line in plan if line.startswith("group_norm") and line.endswith("+eltwise")]
    assert not [line for line in plan if " ref" in line]


def reduced(shape: tuple[int, ...], axes: list[int], order: list[int]) -> Offloaded:
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    names = (op.mean, op.sum, op.max, op.min)
    view = op.permute_dims(x, order)
    results = [each(view, axes, keepdims=True) for each in names]
    return offload(single([x], op.concat(results, 0)))


@needs_onednn
@pytest.mark.parametrize(
    ("shape", "axes", "order"),
    [
        ((3, 70, 5, 7), [1, 3], [0, 1, 2, 3]),
        ((3, 70, 5, 7), [0, 2], [0, 2, 3, 1]),
        ((2, 5000), [1], [0, 1]),
        ((5000, 3), [0], [0, 1]),
        ((4, 3, 2, 5, 3), [0, 2, 4], [4, 2, 0, 1, 3]),
        ((1, 3000, 2), [1], [0, 2, 1]),
    ],
)
def test_reductions_along_any_axes(shape: tuple[int, ...], axes: list[int], order: list[int]) -> None:
    """Sums are right to the last place or two, also of numbers far from zero."""
    data = (np.random.default_rng(3).standard_normal(shape) + 100).astype("float32")
    wide = data.astype("float64").transpose(order)
    expected = [make(wide, axis=tuple(axes), keepdims=True) for make in (np.mean, np.sum, np.max, np.min)]
    offloaded = reduced(shape, axes, order)
    np.testing.assert_allclose(offloaded.call("main", data)[0], np.concatenate(expected, 0), rtol=2.5e-7)


@needs_onednn
@pytest.mark.parametrize(("groups", "offset"), [(4, 0.0), (8, 300.0), (1, -50.0)])
def test_a_norm_of_what_is_far_from_zero(groups: int, offset: float) -> None:
    """The variance does not cancel, with channels first and, behind a convolution, with channels last."""
    rng = np.random.default_rng(4)
    scale, shift = (relax.const(rng.standard_normal(8).astype("float32")) for _ in range(2))
    kernel = np.zeros((8, 8, 1, 1), "float32")
    kernel[np.arange(8), np.arange(8)] = 1
    x = relax.Var("x", relax.TensorType((2, 8, 9, 7), "float32"))
    behind = op.nn.conv2d(x, relax.const(kernel))
    norms = [op.nn.group_norm(each, scale, shift, groups, 1, [2, 3]) for each in (x, behind)]
    offloaded = offload(single([x], op.concat(norms, 0)))
    data = (rng.standard_normal((2, 8, 9, 7)) + offset).astype("float32")
    wide = data.astype("float64").reshape(2, groups, -1)
    centred = wide - wide.mean(2, keepdims=True)
    normal = (centred / np.sqrt((centred**2).mean(2, keepdims=True) + 1e-5)).reshape(data.shape)
    factors, terms = (each.value.numpy().reshape(1, 8, 1, 1) for each in (scale, shift))
    expected = normal * factors + terms
    tolerance = 2e-6 * max(1.0, abs(offset))
    np.testing.assert_allclose(
        offloaded.call("main", data)[0], np.concatenate([expected] * 2), rtol=1e-5, atol=tolerance
    )
