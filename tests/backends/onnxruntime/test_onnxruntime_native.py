"""Regions of ONNX Runtime in processes without Python: what the runtime in C++ answers, loads and refuses."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm
import tvm_ffi
from kits.backends.relax_kit import module, var
from kits.backends.without_python import without_python
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar
from annotated_region.backends.onnx_emitter.entry import Description, register_runtime
from annotated_region.backends.onnxruntime.native import library
from annotated_region.backends.onnxruntime.runtime import Runner, open_region
from annotated_region.compilation.executable import LinkedExecutable
from annotated_region.testing.light_models import input_of, light_model

pytestmark = pytest.mark.skipif(library() is None, reason="the wheel of ONNX Runtime holds no shared library")


TYPES = (
    *("float32", "float16", "bfloat16", "float64", "bool"),
    *("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"),
)


@pytest.fixture(autouse=True)
def natively() -> Iterator[None]:
    with without_python("onnxruntime"):
        yield


def array(*shape: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def executable(mod: tvm.IRModule, **options: object) -> LinkedExecutable:
    partitioned = ar.partition(mod, ["onnxruntime"], prepare=False)
    return ar.build(partitioned, options={"onnxruntime": options})


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


@pytest.mark.parametrize("settings", [{}, {"threads": 2, "spinning": True, "optimization": "basic"}])
def test_it_answers_bit_by_bit_as_the_runtime_in_python(settings: dict[str, object]) -> None:
    model = light_model("squeezenet")
    mod = ar.partition(ar.from_onnx(model), ["onnxruntime"])
    inputs = input_of(model).values()

    def answer() -> np.ndarray:
        built = ar.build(mod, options={"onnxruntime": settings})
        return answers(relax.VirtualMachine(built, tvm.cpu()), *inputs)[0]

    natively = answer()
    opened: list[str] = []

    def noting(description: Description, *parts: Any) -> Runner:
        opened.append(description.symbol)
        return open_region(description, *parts)

    register_runtime("onnxruntime", noting)
    in_python = answer()
    assert opened == ["onnxruntime_main_0"]
    np.testing.assert_array_equal(natively, in_python)


def test_two_quantizations_in_a_row_stay_two() -> None:
    """ONNX Runtime's optimizer would make one of them, and -0.4 of -0.375."""
    x = var("x", (64,))

    def rounded(value: relax.Expr, scale: float) -> relax.Expr:
        step, zero = relax.const(np.float32(scale)), relax.const(np.int8(0))
        whole = op.quantize(value, step, zero, axis=0, out_dtype="int8")
        return op.dequantize(whole, step, zero, axis=0, out_dtype="float32")

    mod = module([x], lambda _: rounded(rounded(x, 0.1), 0.125))
    data = array(64)
    once = np.rint(data / np.float32(0.1)).astype("float32") * np.float32(0.1)
    twice = np.rint(once / np.float32(0.125)).astype("float32") * np.float32(0.125)
    (found,) = answers(relax.VirtualMachine(executable(mod), tvm.cpu()), data)
    np.testing.assert_array_equal(found, twice)


def test_several_results_over_weights_of_any_batch() -> None:
    n = tirx.Var("n", "int64")
    x = var("x", (n, 32))

    def make(builder: relax.BlockBuilder) -> tuple[relax.Expr, ...]:
        product = builder.emit(op.matmul(x, relax.const(array(32, 16))))
        return op.nn.relu(product), op.argmax(product, axis=1)

    machine = relax.VirtualMachine(executable(module([x], make)), tvm.cpu())
    for rows in (4, 1, 7, 0):
        data = array(rows, 32)
        product = data @ array(32, 16)
        found = answers(machine, data)
        np.testing.assert_allclose(found[0], np.maximum(product, 0), rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(found[1], product.argmax(1))


def test_a_symbol_that_no_tensor_of_the_region_has_is_passed_as_a_shape() -> None:
    n = tirx.Var("n", "int64")
    x, other = var("x", (1, 3)), var("other", (n, 2))
    mod = module([x, other], lambda _: (op.exp(op.broadcast_to(x, (n, 3))), op.cumprod(other, 1)))
    machine = relax.VirtualMachine(executable(mod), tvm.cpu())
    for rows in (4, 1):
        found = answers(machine, array(1, 3), array(rows, 2))[0]
        np.testing.assert_allclose(found, np.repeat(np.exp(array(1, 3)), rows, 0), rtol=1e-6)


@pytest.mark.parametrize("dtype", TYPES)
def test_tensors_of_every_type_pass_as_they_are(dtype: str) -> None:
    x = var("x", (2, 3), dtype)
    mod = module([x], lambda _: op.permute_dims(x))
    data = np.arange(6).reshape(2, 3).astype(getattr(ml_dtypes, dtype, dtype))
    (found,) = answers(relax.VirtualMachine(executable(mod), tvm.cpu()), data)
    assert found.dtype == data.dtype
    np.testing.assert_array_equal(found.view("uint8"), np.ascontiguousarray(data.T).view("uint8"))


def test_views_are_followed_and_nothing_beside_them_is_written() -> None:
    region = region_of(exponential(3, 4))
    whole, room = array(6, 8), np.full((6, 8), 7, "float32")
    region(tvm_ffi.from_dlpack(whole[::-2, ::2]), tvm_ffi.from_dlpack(room[::2, ::-2]))
    np.testing.assert_allclose(room[::2, ::-2], np.exp(whole[::-2, ::2]), rtol=1e-6)
    assert (np.delete(room.reshape(-1), np.arange(48).reshape(6, 8)[::2, ::-2].reshape(-1)) == 7).all()


def test_results_whose_elements_share_memory_are_refused() -> None:
    shared = np.lib.stride_tricks.as_strided(np.zeros(3, "float32"), (4, 3), (0, 4))
    with pytest.raises(ar.ArgumentError, match="an output has elements that share memory: its stride 0 is 0"):
        region_of(exponential(4, 3))(tvm.runtime.tensor(array(4, 3)), tvm_ffi.from_dlpack(shared))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((array(4, 3),), "expected 2 arguments, got 1"),
        ((array(4, 3), "text"), "argument 1 is neither a tensor nor a shape"),
        ((array(4, 5), array(4, 3)), "ONNX Runtime: .*invalid dimensions"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_name_of_the_region(
    arguments: tuple[object, ...], message: str
) -> None:
    handed = [tvm.runtime.tensor(each) if isinstance(each, np.ndarray) else each for each in arguments]
    with pytest.raises((TypeError, RuntimeError), match=f"onnxruntime_main_0: {message}"):
        region_of(exponential(4, 3))(*handed)


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


def test_each_session_has_the_threads_that_it_is_told() -> None:
    """ONNX Runtime works in the thread that calls, and in one less than it is told besides."""
    answers(relax.VirtualMachine(executable(exponential(2, 2), threads=1), tvm.cpu()), array(2, 2))
    for count in (1, 4):
        machine = relax.VirtualMachine(executable(exponential(3, count), threads=count), tvm.cpu())
        before = len(os.listdir("/proc/self/task"))
        answers(machine, array(3, count))
        assert len(os.listdir("/proc/self/task")) - before == count - 1


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

OLD = """
extern "C" {
static const char* version() { return "1.16.3"; }
static void* functions[300];
static void* get_api(unsigned) { return functions; }
static void* base[] = {(void*)get_api, (void*)version};
void* OrtGetApiBase() { return base; }
}
"""


def run(library: Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Call a library of `exponential` in a process without TVM's compiler and without this package."""
    runtime = Path(tvm.__file__).parent / "lib" / "libtvm_runtime.so"
    return subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS, str(runtime), str(library)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": "", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def old_runtime(folder: Path) -> None:
    """A library of the right name and a version that is too old."""
    folder.mkdir()
    (folder / "old.cc").write_text(OLD)
    command = ["g++", "-shared", "-fPIC", "old.cc", "-o", "libonnxruntime.so.1.16.3"]
    subprocess.run(command, cwd=folder, check=True)


def test_the_engine_is_loaded_from_the_run_path_alone(tmp_path: Path) -> None:
    old_runtime(tmp_path / "old")
    built, model = executable(exponential(4, 3)), tmp_path / "model.so"
    built.export_library(str(model))
    engine = library()
    assert engine is not None
    for name in ("libonnxruntime.so", "libonnxruntime.so.1", engine.name):
        shutil.copy(tmp_path / "old" / "libonnxruntime.so.1.16.3", tmp_path / "old" / name)
    ran = run(model, tmp_path / "old", LD_LIBRARY_PATH=str(tmp_path / "old"))
    assert (ran.returncode, ran.stdout) == (0, "12.0\n"), ran.stderr


def test_a_library_that_is_too_old_or_missing_is_named(tmp_path: Path) -> None:
    old_runtime(tmp_path / "old")
    built, model = executable(exponential(4, 3)), tmp_path / "model.so"
    built.export_library(str(model), run_path=[str(tmp_path / "old")])
    ran = run(model, tmp_path)
    assert ran.returncode == 1
    assert "ONNX Runtime 1.16.3 is installed; regions need 1.17 or a later 1.x" in ran.stderr
    built.export_library(str(model), run_path=["$ORIGIN", "relative", ""])
    ran = run(model, tmp_path / "old")
    assert ran.returncode == 1
    assert f"ONNX Runtime's library libonnxruntime.so is not in {tmp_path}; install" in ran.stderr


def test_providers_that_only_python_reaches_are_not_exchanged_for_another() -> None:
    machine = relax.VirtualMachine(
        executable(exponential(4, 3), providers=["CUDAExecutionProvider"]), tvm.cpu()
    )
    with pytest.raises(RuntimeError, match="runs in a Python process only"):
        answers(machine, array(4, 3))
