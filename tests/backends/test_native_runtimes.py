"""Regions of targets by way of ONNX in processes without Python: what every runtime in C++ does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm
import tvm_ffi
from kits.backends.engine_kit import array, call, expected_two, results_of_threads, two_results
from kits.backends.relax_kit import module, var
from kits.backends.without_python import (
    executable,
    exponential,
    region_of,
    run_alone,
    without_python,
)
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar
from annotated_region.backends.onnx_emitter import entry
from annotated_region.backends.onnx_emitter.entry import Description
from annotated_region.backends.onnxruntime import runtime as onnxruntime
from annotated_region.backends.openvino import runtime as openvino
from annotated_region.targets.backend import backend_of
from annotated_region.testing.light_models import input_of, light_model


def engine(name: str, *more: object) -> Any:
    """A parameter of the tests below, if the engine can run without Python here."""
    reason = backend_of(name).needs_python({})
    return pytest.param(name, *more, marks=pytest.mark.skipif(reason is not None, reason=str(reason)))


CALLED = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}
LIBRARIES = {"onnxruntime": "libonnxruntime.so", "openvino": "libopenvino_c.so"}
SETTINGS: Mapping[str, Mapping[str, object]] = {
    "onnxruntime": {"threads": 2, "spinning": True, "optimization": "basic"},
    "openvino": {"threads": 1, "precision": "bf16"},
}
TYPES = {
    "onnxruntime": (
        *("float32", "float16", "bfloat16", "float64", "bool"),
        *("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"),
    ),
    "openvino": ("float32", "float16", "int8", "uint8", "int32", "bool"),
}


@pytest.fixture(params=[engine(name) for name in CALLED])
def target(request: pytest.FixtureRequest) -> Iterator[str]:
    with without_python(request.param):
        yield request.param


@pytest.mark.parametrize("is_set", [False, True], ids=["default", "set"])
def test_it_answers_bit_by_bit_as_the_runtime_in_python(target: str, is_set: bool) -> None:
    model = light_model("squeezenet")
    mod = ar.partition(ar.from_onnx(model), [target])
    inputs = input_of(model).values()

    def answer() -> np.ndarray:
        built = ar.build(mod, options={target: SETTINGS[target] if is_set else {}})
        return call(relax.VirtualMachine(built, tvm.cpu()), *inputs)[0]

    natively = answer()
    opened: list[str] = []
    load = {"onnxruntime": onnxruntime.open_region, "openvino": openvino.open_region}[target]

    def noting(description: Description, *parts: Any) -> Any:
        opened.append(description.symbol)
        return load(description, *parts)

    entry.register_runtime(target, noting)
    in_python = answer()
    assert opened == [f"{target}_main_0"]
    np.testing.assert_array_equal(natively, in_python)


def test_several_results_of_different_types(target: str) -> None:
    machine = relax.VirtualMachine(executable(target, two_results()), tvm.cpu())
    data = array(4, 32, seed=1)
    found, wanted = call(machine, data), expected_two(data)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found[1], wanted[1])


def test_weights_and_any_batch(target: str) -> None:
    x = var("x", (tirx.Var("n", "int64"), 32))

    def make(builder: relax.BlockBuilder) -> tuple[relax.Expr, ...]:
        product = builder.emit(op.matmul(x, relax.const(array(32, 16))))
        return op.nn.relu(product), op.negative(product)

    machine = relax.VirtualMachine(executable(target, module([x], make)), tvm.cpu())
    for rows in (4, 1, 7, 0):
        data = array(rows, 32)
        product = data @ array(32, 16)
        found = call(machine, data)
        np.testing.assert_allclose(found[0], np.maximum(product, 0), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found[1], -product, rtol=1e-4, atol=1e-5)


def test_a_symbol_that_no_tensor_of_the_region_has_is_passed_as_a_shape(target: str) -> None:
    n = tirx.Var("n", "int64")
    x, other = var("x", (1, 3)), var("other", (n, 2))
    mod = module([x, other], lambda _: (op.exp(op.broadcast_to(x, (n, 3))), op.cumprod(other, 1)))
    machine = relax.VirtualMachine(executable(target, mod), tvm.cpu())
    for rows in (4, 1):
        found = call(machine, array(1, 3), array(rows, 2))[0]
        np.testing.assert_allclose(found, np.repeat(np.exp(array(1, 3)), rows, 0), rtol=1e-6)


def test_an_extent_of_zero_in_a_new_shape_copies_none(target: str) -> None:
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    x = var("x", (n, 4, m))
    mod = module([x], lambda _: op.reshape(op.exp(x), (4, m, n)))
    machine = relax.VirtualMachine(executable(target, mod), tvm.cpu())
    for rows, columns in ((2, 3), (0, 3), (2, 0)):
        (found,) = call(machine, array(rows, 4, columns))
        expected = np.exp(array(rows, 4, columns)).reshape(4, columns, rows)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("target", "dtype"),
    [engine(name, dtype) for name, dtypes in TYPES.items() for dtype in dtypes],
    indirect=["target"],
)
def test_tensors_of_every_type_pass_as_they_are(target: str, dtype: str) -> None:
    x = var("x", (2, 3), dtype)
    mod = module([x], lambda _: op.permute_dims(x))
    data = np.arange(6).reshape(2, 3).astype(getattr(ml_dtypes, dtype, dtype))
    (found,) = call(relax.VirtualMachine(executable(target, mod), tvm.cpu()), data)
    assert found.dtype == data.dtype
    np.testing.assert_array_equal(found.view("uint8"), np.ascontiguousarray(data.T).view("uint8"))


def test_views_are_followed_and_nothing_beside_them_is_written(target: str) -> None:
    region = region_of(target, exponential(3, 4))
    whole, room = array(6, 8), np.full((6, 8), 7, "float32")
    region(tvm_ffi.from_dlpack(whole[::-2, ::2]), tvm_ffi.from_dlpack(room[::2, ::-2]))
    np.testing.assert_allclose(room[::2, ::-2], np.exp(whole[::-2, ::2]), rtol=1e-6)
    assert (np.delete(room.reshape(-1), np.arange(48).reshape(6, 8)[::2, ::-2].reshape(-1)) == 7).all()


def test_results_whose_elements_share_memory_are_refused(target: str) -> None:
    shared = np.lib.stride_tricks.as_strided(np.zeros(3, "float32"), (4, 3), (0, 4))
    with pytest.raises(ar.ArgumentError, match="an output has overlapping elements: its stride 0 is 0"):
        region_of(target, exponential(4, 3))(tvm.runtime.tensor(array(4, 3)), tvm_ffi.from_dlpack(shared))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((array(4, 3),), "expected 2 arguments, got 1"),
        ((array(4, 3), "text"), "argument 1 is neither a tensor nor a shape"),
        ((array(4, 5), array(4, 3)), "{engine}: .*(invalid dimensions|shape)"),
        ((array(4, 3).astype("float64"), array(4, 3)), "(no tensors of type float64|data type)"),
    ],
    ids=["too few", "a text", "another shape", "another type"],
)
def test_what_does_not_fit_is_refused_with_the_name_of_the_region_which_runs_on(
    target: str, arguments: tuple[object, ...], message: str
) -> None:
    handed = [tvm.runtime.tensor(each) if isinstance(each, np.ndarray) else each for each in arguments]
    region, room = region_of(target, exponential(4, 3)), tvm.runtime.tensor(array(4, 3))
    expected = f"(?s){target}_main_0: .*{message.format(engine=CALLED[target])}"
    with pytest.raises((TypeError, RuntimeError), match=expected):
        region(*handed)
    region(tvm.runtime.tensor(array(4, 3)), room)
    np.testing.assert_allclose(room.numpy(), np.exp(array(4, 3)), rtol=1e-6)


def test_several_threads_may_call_one_region(target: str) -> None:
    loaded = executable(target, exponential(64, 64)).jit()
    for data, found in results_of_threads(loaded, 64, 64):
        np.testing.assert_allclose(found, np.exp(data), rtol=1e-5)


def test_a_library_runs_without_this_package_and_says_what_is_missing(target: str, tmp_path: Path) -> None:
    built, model = executable(target, exponential(4, 3)), tmp_path / "model.so"
    built.export_library(str(model))
    ran = run_alone(model, tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "12.0\n"), ran.stderr
    built.export_library(str(model), run_path=["$ORIGIN", "relative", ""])
    ran = run_alone(model, tmp_path)
    assert ran.returncode == 1
    assert f"{CALLED[target]}'s library {LIBRARIES[target]} is not in {tmp_path}; install" in ran.stderr
