"""Regions of OpenVINO in processes without Python: what the runtime in C++ answers, loads and refuses."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
import tvm_ffi
from kits.backends.relax_kit import module, var
from kits.backends.without_python import without_python
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar
from annotated_region.backends.onnx_emitter.entry import Description, register_runtime
from annotated_region.backends.openvino import codegen, native
from annotated_region.backends.openvino.native import libraries, native_model, needs_python
from annotated_region.backends.openvino.runtime import RequestRunner, open_region
from annotated_region.backends.openvino.settings import CompileSettings
from annotated_region.compilation.executable import LinkedExecutable
from annotated_region.targets.backend import backend_of
from annotated_region.testing.light_models import input_of, light_model

pytestmark = pytest.mark.skipif(needs_python({}) is not None, reason=str(needs_python({})))


@pytest.fixture(autouse=True)
def natively() -> Iterator[None]:
    with without_python("openvino"):
        yield


def array(*shape: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def executable(mod: tvm.IRModule, **options: object) -> LinkedExecutable:
    partitioned = ar.partition(mod, ["openvino"], prepare=False)
    assert "openvino" in partitioned.script()
    return ar.build(partitioned, options={"openvino": options})


def answers(machine: relax.VirtualMachine, *arrays: np.ndarray) -> list[np.ndarray]:
    result = machine["main"](*map(tvm.runtime.tensor, arrays))
    return [part.numpy() for part in ([result] if hasattr(result, "numpy") else result)]


def region_of(mod: tvm.IRModule) -> tvm_ffi.Function:
    """The function of the only region."""
    built = executable(mod)
    (symbol,) = built.regions
    return built.jit().get_function(symbol, query_imports=True)


def exponential(*shape: int) -> tvm.IRModule:
    x = var("x", shape)
    return module([x], lambda _: op.exp(x))


@pytest.mark.parametrize("settings", [{}, {"threads": 1, "precision": "bf16"}])
@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_it_answers_bit_by_bit_as_the_runtime_in_python(name: str, settings: dict[str, object]) -> None:
    model = light_model(name)
    mod = ar.partition(ar.from_onnx(model), ["openvino"])
    inputs = input_of(model).values()

    def answer() -> np.ndarray:
        built = ar.build(mod, options={"openvino": settings})
        return answers(relax.VirtualMachine(built, tvm.cpu()), *inputs)[0]

    natively = answer()
    opened: list[str] = []

    def noting(description: Description, *parts: Any) -> RequestRunner:
        opened.append(description.symbol)
        return open_region(description, *parts)

    register_runtime("openvino", noting)
    in_python = answer()
    assert opened == ["openvino_main_0"]
    np.testing.assert_array_equal(natively, in_python)


def test_quotients_stay_quotients() -> None:
    """41 k / 41 is k, as OpenVINO computes it where the division is marked only."""
    x, divisor = var("x", (64,)), var("divisor", (64,))
    mod = module([x, divisor], lambda _: op.divide(x, divisor))
    whole = np.arange(64, dtype="float32")
    forty_one = np.full(64, 41, "float32")
    (found,) = answers(relax.VirtualMachine(executable(mod), tvm.cpu()), 41 * whole, forty_one)
    np.testing.assert_array_equal(found, whole)


def test_several_results_over_weights_of_any_batch() -> None:
    n = tirx.Var("n", "int64")
    x = var("x", (n, 32))

    def make(builder: relax.BlockBuilder) -> tuple[relax.Expr, ...]:
        product = builder.emit(op.matmul(x, relax.const(array(32, 16))))
        return op.nn.relu(product), op.negative(product)

    machine = relax.VirtualMachine(executable(module([x], make)), tvm.cpu())
    for rows in (4, 1, 7, 0):
        data = array(rows, 32)
        product = data @ array(32, 16)
        found = answers(machine, data)
        np.testing.assert_allclose(found[0], np.maximum(product, 0), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found[1], -product, rtol=1e-4, atol=1e-5)


def test_inputs_that_no_operator_reads_are_passed_over() -> None:
    n = tirx.Var("n", "int64")
    x, other = var("x", (1, 3)), var("other", (n, 2))
    mod = module([x, other], lambda _: (op.exp(op.broadcast_to(x, (n, 3))), op.cumprod(other, 1)))
    machine = relax.VirtualMachine(executable(mod), tvm.cpu())
    for rows in (4, 1):
        found = answers(machine, array(1, 3), array(rows, 2))[0]
        np.testing.assert_allclose(found, np.repeat(np.exp(array(1, 3)), rows, 0), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint8", "int32", "bool"])
def test_tensors_of_every_type_pass_as_they_are(dtype: str) -> None:
    x = var("x", (2, 3), dtype)
    mod = module([x], lambda _: op.permute_dims(x))
    data = np.arange(6).reshape(2, 3).astype(dtype)
    (found,) = answers(relax.VirtualMachine(executable(mod), tvm.cpu()), data)
    assert found.dtype == data.dtype
    np.testing.assert_array_equal(found, data.T)


def test_weights_of_equal_content_share_a_place() -> None:
    x = var("x", (4, 32))
    square = array(32, 32)

    def make(builder: relax.BlockBuilder) -> relax.Expr:
        once = builder.emit(op.matmul(x, relax.const(square)))
        return op.matmul(once, relax.const(square.copy()))

    data = array(4, 32, seed=7)
    (found,) = answers(relax.VirtualMachine(executable(module([x], make)), tvm.cpu()), data)
    np.testing.assert_allclose(found, data @ square @ square, rtol=1e-4, atol=1e-4)


def test_views_are_followed_and_nothing_beside_them_is_written() -> None:
    region = region_of(exponential(3, 4))
    whole, room = array(6, 8), np.full((6, 8), 7, "float32")
    region(tvm_ffi.from_dlpack(whole[::-2, ::2]), tvm_ffi.from_dlpack(room[::2, ::-2]))
    np.testing.assert_allclose(room[::2, ::-2], np.exp(whole[::-2, ::2]), rtol=1e-6)
    assert (np.delete(room.reshape(-1), np.arange(48).reshape(6, 8)[::2, ::-2].reshape(-1)) == 7).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((array(4, 3),), "expected 2 arguments, got 1"),
        ((array(4, 3), "text"), "argument 1 is neither a tensor nor a shape"),
        ((array(4, 5), array(4, 3)), "OpenVINO: .*shape"),
        ((array(4, 3).astype("float64"), array(4, 3)), "no tensors of type float64"),
    ],
)
def test_what_does_not_fit_is_refused_and_the_region_runs_on(
    arguments: tuple[object, ...], message: str
) -> None:
    handed = [tvm.runtime.tensor(each) if isinstance(each, np.ndarray) else each for each in arguments]
    region, room = region_of(exponential(4, 3)), tvm.runtime.tensor(array(4, 3))
    with pytest.raises((TypeError, RuntimeError), match=f"(?s)openvino_main_0: .*{message}"):
        region(*handed)
    region(tvm.runtime.tensor(array(4, 3)), room)
    np.testing.assert_allclose(room.numpy(), np.exp(array(4, 3)), rtol=1e-6)


def test_several_threads_may_call_one_region() -> None:
    loaded = executable(exponential(64, 64)).jit()
    machines, results = [relax.VirtualMachine(loaded, tvm.cpu()) for _ in range(2)], {}

    def work(seed: int) -> None:
        data = array(64, 64, seed=seed)
        results[seed] = [answers(machines[seed], data)[0] for _ in range(20)]

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in range(2):
        for found in results[seed]:
            np.testing.assert_allclose(found, np.exp(array(64, 64, seed=seed)), rtol=1e-5)


def test_the_form_of_a_model_is_the_same_after_other_models() -> None:
    """OpenVINO numbers operators through the whole process."""
    graph = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 20]> g (float[2,3] x) => (float[2,3] y)'
        "{ h = Gelu(x) k = HardSigmoid(h) y = Add(k, h) }"
    ).SerializeToString()
    first = native_model(graph, {})
    answers(relax.VirtualMachine(executable(exponential(2, 9)), tvm.cpu()), array(2, 9))
    assert native_model(graph, {}).text == first.text


# --- what is loaded

IN_A_PROCESS = """
import sys
import numpy as np
import tvm_ffi
import ctypes
runtime, library = sys.argv[1:]
ctypes.CDLL(runtime, ctypes.RTLD_GLOBAL)
machine = tvm_ffi.load_module(library)["vm_load_executable"]()
machine["vm_initialization"](1, 0, 2)
room = np.zeros(64 + 12, "float32")
start = -room.ctypes.data % 64 // 4
print(np.from_dlpack(machine["main"](tvm_ffi.from_dlpack(room[start : start + 12].reshape(4, 3)))).sum())
"""


def run(library: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Call a library of `exponential` in a process without TVM's compiler and without this package."""
    runtime = Path(tvm.__file__).parent / "lib" / "libtvm_runtime.so"
    return subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS, str(runtime), str(library)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_library_runs_without_this_package_and_says_what_is_missing(tmp_path: Path) -> None:
    built, model = executable(exponential(4, 3)), tmp_path / "model.so"
    built.export_library(str(model))
    ran = run(model, tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "12.0\n"), ran.stderr
    built.export_library(str(model), run_path=["$ORIGIN"])
    ran = run(model, tmp_path)
    assert ran.returncode == 1
    assert f"OpenVINO's library libopenvino_c.so is not in {tmp_path}; install" in ran.stderr


def test_another_release_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {**native.native_settings(CompileSettings()), "version": "2025.1"}
    monkeypatch.setattr(codegen, "native_settings", lambda _settings: settings)
    machine = relax.VirtualMachine(executable(exponential(4, 3)), tvm.cpu())
    with pytest.raises(
        ar.BackendUnavailableError, match=r"OpenVINO 20\S+ is installed; .* built for 2025\.1;"
    ):
        answers(machine, array(4, 3))


def test_devices_that_only_python_reaches_are_not_exchanged_for_another() -> None:
    needs = backend_of("openvino").needs_python
    assert needs({}) is None
    assert needs({"device": "GPU"}) == "device GPU is reached from Python alone"
    assert all(each.file.is_file() for each in libraries())
