"""Regions of OpenVINO in processes without Python: what is its own in C++."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import onnx
import pytest
import tvm
from kits.backends import without_python as kit
from kits.backends.engine_kit import array, call
from kits.backends.relax_kit import module, var
from kits.backends.without_python import exponential, without_python
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar
from annotated_region.backends.onnx_emitter.entry import register_runtime
from annotated_region.backends.openvino import codegen, native
from annotated_region.backends.openvino.native import libraries, native_model, needs_python
from annotated_region.backends.openvino.runtime import open_region
from annotated_region.backends.openvino.settings import CompileSettings
from annotated_region.targets.backend import backend_of

executable = partial(kit.executable, "openvino")
pytestmark = pytest.mark.skipif(needs_python({}) is not None, reason=str(needs_python({})))


@pytest.fixture(autouse=True)
def natively() -> Iterator[None]:
    with without_python("openvino"):
        yield


def test_quotients_stay_quotients() -> None:
    """41 k / 41 is k, as OpenVINO computes it where the division is marked only."""
    x, divisor = var("x", (64,)), var("divisor", (64,))
    mod = module([x, divisor], lambda _: op.divide(x, divisor))
    whole = np.arange(64, dtype="float32")
    forty_one = np.full(64, 41, "float32")
    (found,) = call(relax.VirtualMachine(executable(mod), tvm.cpu()), 41 * whole, forty_one)
    np.testing.assert_array_equal(found, whole)


def test_weights_of_equal_content_share_a_place() -> None:
    x = var("x", (4, 32))
    square = array(32, 32)

    def make(builder: relax.BlockBuilder) -> relax.Expr:
        once = builder.emit(op.matmul(x, relax.const(square)))
        return op.matmul(once, relax.const(square.copy()))

    data = array(4, 32, seed=7)
    (found,) = call(relax.VirtualMachine(executable(module([x], make)), tvm.cpu()), data)
    np.testing.assert_allclose(found, data @ square @ square, rtol=1e-4, atol=1e-4)


def test_the_form_of_a_model_is_the_same_after_other_models() -> None:
    """OpenVINO numbers operators through the whole process."""
    graph = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 20]> g (float[2,3] x) => (float[2,3] y)'
        "{ h = Gelu(x) k = HardSigmoid(h) y = Add(k, h) }"
    ).SerializeToString()
    first = native_model(graph, {})
    call(relax.VirtualMachine(executable(exponential(2, 9)), tvm.cpu()), array(2, 9))
    assert native_model(graph, {}).text == first.text


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("in_python", [True, False])
def test_a_call_without_images_does_not_change_what_later_ones_give(kind: str, in_python: bool) -> None:
    """Behind one, OpenVINO 2026.4 leaves the results of a pooling as they were, so it is not called."""
    machine = pooling(kind, lambda pooled: op.clip(pooled, -4, 4), in_python)
    data, right = IMAGES, pools_of_images(kind).clip(-4, 4)
    for _ in range(2):
        np.testing.assert_allclose(call(machine, data)[0], right, rtol=1e-5, atol=1e-6)
        assert call(machine, data[:0])[0].shape == (0, 2, 2, 2)


@pytest.mark.parametrize("in_python", [True, False])
def test_a_sum_over_no_pooled_images_is_refused(in_python: bool) -> None:
    machine = pooling("max", lambda pooled: op.sum(pooled, axis=[0]), in_python)
    for _ in range(2):
        right = pools_of_images("max").sum(0)
        np.testing.assert_allclose(call(machine, IMAGES)[0], right, rtol=1e-5, atol=1e-6)
        with pytest.raises(ar.ArgumentError, match="argument 0 has no elements; after such a call"):
            call(machine, IMAGES[:0])


IMAGES = array(2, 2, 4, 4)


def pooling(kind: str, after: Callable[[relax.Expr], relax.Expr], in_python: bool) -> relax.VirtualMachine:
    """A region that pools windows of 2 x 2 of any number of images."""
    x = var("x", (tirx.Var("n", "int64"), 2, 4, 4))
    pool = {"max": op.nn.max_pool2d, "avg": op.nn.avg_pool2d}[kind]
    mod = module([x], lambda builder: after(builder.emit(pool(x, [2, 2], [2, 2]))))
    if in_python:
        register_runtime("openvino", open_region)
    return relax.VirtualMachine(executable(mod), tvm.cpu())


def pools_of_images(kind: str) -> np.ndarray:
    """The same windows of `IMAGES`."""
    windows = IMAGES.reshape(2, 2, 2, 2, 2, 2)
    pools: np.ndarray = getattr(np, {"max": "max", "avg": "mean"}[kind])(windows, axis=(3, 5))
    return pools


def test_another_release_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {**native.native_settings(CompileSettings()), "version": "2025.1"}
    monkeypatch.setattr(codegen, "native_settings", lambda _settings: settings)
    machine = relax.VirtualMachine(executable(exponential(4, 3)), tvm.cpu())
    with pytest.raises(
        ar.BackendUnavailableError, match=r"OpenVINO 20\S+ is installed; .* built for 2025\.1;"
    ):
        call(machine, array(4, 3))


def test_devices_that_only_python_reaches_are_not_exchanged_for_another() -> None:
    needs = backend_of("openvino").needs_python
    assert needs({}) is None
    assert needs({"device": "GPU"}) == "device GPU is accessible only from Python"
    assert all(each.file.is_file() for each in libraries())
