"""The deployment example: an exported library runs from C++ with ONNX Runtime's results."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import onnxruntime
import pytest
from kits.example_files import EXAMPLES, example_module
from kits.family_models import family_model, inputs_of
from kits.onnx_nodes import CONTRIBUTED, Node, by_onnx_runtime, model_of_nodes

from annotated_region.backends.dnnl import installation

EXAMPLE = EXAMPLES / "deploy_cpp"


def script(name: str) -> ModuleType:
    return example_module(f"deploy_cpp/{name}.py")


@cache
def missing() -> str | None:
    """What this machine lacks for the example, or None."""
    folders = script("where").folders()
    needed = {
        "headers of TVM's runtime": folders["ffi_include"] / "tvm" / "ffi" / "function.h",
        "TVM's runtime library": folders["runtime_lib"] / "libtvm_runtime.so",
        "TVM's FFI library": folders["ffi_lib"] / "libtvm_ffi.so",
    }
    absent = [what for what, file in needed.items() if not file.exists()]
    absent += [program for program in ("make", "g++", "ldd") if shutil.which(program) is None]
    return f"missing: {', '.join(absent)}" if absent else installation.unavailable()


def call(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of the example, for any library."""
    folder = tmp_path_factory.mktemp("program")
    built = call("make", "-C", EXAMPLE, f"OUT={folder}", f"PYTHON={sys.executable}")
    assert built.returncode == 0, built.stderr
    return folder / "run_model"


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_a_library_runs_without_python(program: Path, tmp_path: Path) -> None:
    model = family_model("convnext", "small")
    (image,) = inputs_of(model).values()
    library, data, result = (tmp_path / name for name in ("model.so", "input.npy", "output.npy"))
    script("export_model").export(model, library)
    np.save(data, image)

    for binary in (library, program):
        assert not [
            line for line in call("ldd", binary).stdout.splitlines() if "python" in line.split("=>")[0]
        ]
    assert "libtvm_compiler" not in call("ldd", program).stdout

    ran = call(program, library, result, data)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.endswith(" ms\n")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, inputs_of(model))
    np.testing.assert_allclose(np.load(result), expected, rtol=1e-4, atol=1e-5)

    cut = tmp_path / "cut.npy"
    cut.write_bytes(data.read_bytes()[:-1])
    refused = call(program, library, result, cut)
    assert (refused.returncode, refused.stderr) == (1, f"{cut} does not hold 49152 bytes of numbers\n")
    np.save(cut, image.reshape(1, 3, 32, 128))
    refused = call(program, library, result, cut)
    assert refused.returncode == 1
    assert "shape" in refused.stderr.lower()


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_weights_of_four_bits_run_without_python(program: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    depth, columns, size = 512, 1000, 32
    x = rng.standard_normal((1, depth)).astype("float32")
    constants = {
        "w": rng.integers(0, 256, (columns, depth // size, size // 2), "uint8"),
        "s": rng.random(columns * depth // size).astype("float32") / 16,
    }
    node = Node("MatMulNBits", "x w s", "y", CONTRIBUTED, K=depth, N=columns, bits=4, block_size=size)
    model = model_of_nodes([node], {"x": x}, constants)
    library, data, result = (tmp_path / name for name in ("model.so", "input.npy", "output.npy"))
    script("export_model").export(model, library)
    np.save(data, x)
    ran = call(program, library, result, data)
    assert ran.returncode == 0, ran.stderr
    (expected,) = by_onnx_runtime(model, {"x": x})
    np.testing.assert_allclose(np.load(result), expected, rtol=1e-4, atol=1e-3)
