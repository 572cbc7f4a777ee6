"""Regions of ONNX Runtime in processes without Python: what is its own in C++."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tvm
from kits.backends import without_python as kit
from kits.backends.engine_kit import array, call
from kits.backends.relax_kit import module, var
from kits.backends.without_python import exponential, run_alone, without_python
from tvm import relax
from tvm.relax import op

from annotated_region.backends.onnxruntime.native import library

executable = partial(kit.executable, "onnxruntime")
pytestmark = pytest.mark.skipif(library() is None, reason="the wheel of ONNX Runtime holds no shared library")


@pytest.fixture(autouse=True)
def natively() -> Iterator[None]:
    with without_python("onnxruntime"):
        yield


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
    (found,) = call(relax.VirtualMachine(executable(mod), tvm.cpu()), data)
    np.testing.assert_array_equal(found, twice)


def test_each_session_has_the_threads_that_it_is_told() -> None:
    """ONNX Runtime works in the thread that calls, and in one less than it is told besides."""
    call(relax.VirtualMachine(executable(exponential(2, 2), threads=1), tvm.cpu()), array(2, 2))
    for count in (1, 4):
        machine = relax.VirtualMachine(executable(exponential(3, count), threads=count), tvm.cpu())
        before = len(os.listdir("/proc/self/task"))
        call(machine, array(3, count))
        assert len(os.listdir("/proc/self/task")) - before == count - 1


# --- what is loaded

OLD = """
extern "C" {
static const char* version() { return "1.16.3"; }
static void* functions[300];
static void* get_api(unsigned) { return functions; }
static void* base[] = {(void*)get_api, (void*)version};
void* OrtGetApiBase() { return base; }
}
"""


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
    ran = run_alone(model, tmp_path / "old", LD_LIBRARY_PATH=str(tmp_path / "old"))
    assert (ran.returncode, ran.stdout) == (0, "12.0\n"), ran.stderr


def test_a_library_that_is_too_old_is_named(tmp_path: Path) -> None:
    old_runtime(tmp_path / "old")
    built, model = executable(exponential(4, 3)), tmp_path / "model.so"
    built.export_library(str(model), run_path=[str(tmp_path / "old")])
    ran = run_alone(model, tmp_path)
    assert ran.returncode == 1
    assert "ONNX Runtime 1.16.3 is installed; regions need 1.17 or a later 1.x" in ran.stderr


def test_providers_that_only_python_reaches_are_not_exchanged_for_another() -> None:
    machine = relax.VirtualMachine(
        executable(exponential(4, 3), providers=["CUDAExecutionProvider"]), tvm.cpu()
    )
    with pytest.raises(RuntimeError, match="runs in a Python process only"):
        call(machine, array(4, 3))
