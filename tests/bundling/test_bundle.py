"""A bundle runs with nothing but itself and the C library, and answers as ONNX Runtime does."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from kits.family_models import family_model, inputs_of

import annotated_region as ar
from annotated_region.backends.dnnl import installation
from annotated_region.backends.onnxruntime.native import library as shared_library
from annotated_region.backends.openvino.native import libraries
from annotated_region.backends.openvino.native import needs_python as openvino_needs_python
from annotated_region.command_line.run import main

CXX = os.environ.get("CXX", "g++")
needs_dnnl = pytest.mark.skipif(
    installation.unavailable() is not None, reason=str(installation.unavailable())
)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may change the root folder")
needs_openvino = pytest.mark.skipif(
    openvino_needs_python({}) is not None, reason=str(openvino_needs_python({}))
)
OF_LIBC = ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1")
MODEL = family_model("convnext", "small")
BERT = family_model("bert", "small")


def call(*words: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [str(word) for word in words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def exported(model: onnx.ModelProto, targets: list[str], made: Path, place: Path, **options: Any) -> Path:
    """A bundle, made in one folder and moved to another, with its C++ program."""
    executable = ar.build(ar.partition(ar.from_onnx(model), targets, **options))
    assert ar.export(executable, made) == made
    made.rename(place)
    (place / "build").mkdir()
    lib = place / "lib"
    compiled = call(
        CXX, "-std=c++17", f"-I{place / 'include'}", place / "example" / "run_model.cc",
        "-o", place / "build" / "run_model",
        "-Wl,--no-as-needed", lib / "libtvm_runtime.so", lib / "libtvm_ffi.so",
        "-Xlinker", "-rpath", "-Xlinker", "$ORIGIN/../lib",
    )  # fmt: skip
    assert compiled.returncode == 0, compiled.stderr
    return place


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of a small network."""
    made = tmp_path_factory.mktemp("made") / "here"
    return exported(MODEL, ["dnnl"], made, tmp_path_factory.mktemp("elsewhere") / "bundle")


def expected(model: onnx.ModelProto = MODEL) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    answer: np.ndarray = session.run(None, inputs_of(model))[0]
    return answer


def call_alone(root: Path, model: onnx.ModelProto) -> subprocess.CompletedProcess[str]:
    """Run the bundle in ``model`` in a root with nothing but that and the C library."""
    loader = Path(call(CXX, "-print-file-name=ld-linux-x86-64.so.2").stdout.strip())
    (root / "lib64").mkdir()
    (root / "lib").mkdir()
    shutil.copy(loader.resolve(), root / "lib64" / "ld-linux-x86-64.so.2")
    for name in OF_LIBC:
        shutil.copy(Path(call(CXX, f"-print-file-name={name}").stdout.strip()).resolve(), root / "lib" / name)
    files = []
    for name, array in inputs_of(model).items():
        np.save(root / f"{name}.npy", array)
        files.append(f"/{name}.npy")
    return call(
        shutil.which("chroot"), root,
        "/model/build/run_model", "/model/lib/model.so", "/output.npy", *files,
        env={"LD_ORIGIN_PATH": "/model/build"},  # what $ORIGIN means where /proc is not mounted
    )  # fmt: skip


def run_alone(root: Path, model: onnx.ModelProto) -> np.ndarray:
    """What it answers there."""
    ran = call_alone(root, model)
    assert ran.returncode == 0, ran.stderr
    found: np.ndarray = np.load(root / "output.npy")
    return found


@needs_dnnl
@needs_root
def test_it_runs_where_nothing_but_the_c_library_is(bundle: Path, tmp_path: Path) -> None:
    shutil.copytree(bundle, tmp_path / "root" / "model")
    np.testing.assert_allclose(run_alone(tmp_path / "root", MODEL), expected(), rtol=1e-4, atol=1e-5)


@needs_dnnl
@needs_root
def test_a_model_of_several_inputs_and_regions_runs_there_too(tmp_path: Path) -> None:
    """BERT, whose inputs are whole numbers; the host runs its softmaxes, between regions."""
    root = tmp_path / "root"
    root.mkdir()
    bundle = exported(BERT, ["dnnl"], tmp_path / "made", root / "model", bans={"relax.nn.softmax": ["dnnl"]})
    assert len(json.loads((bundle / "manifest.json").read_text())["regions"]) > 1
    np.testing.assert_allclose(run_alone(root, BERT), expected(BERT), rtol=1e-4, atol=1e-5)


@needs_dnnl
def test_it_looks_for_libraries_beside_itself_and_nowhere_else(bundle: Path) -> None:
    dynamic = call("readelf", "-d", bundle / "lib" / "model.so").stdout
    assert [line.split()[-1] for line in dynamic.splitlines() if "PATH)" in line] == ["[$ORIGIN]"]
    needed = call("ldd", bundle / "lib" / "model.so").stdout
    for name in ("libdnnl.so.3", "libgomp.so.1", "libstdc++.so.6"):
        (line,) = (line for line in needed.splitlines() if line.strip().startswith(name))
        assert str(bundle) in line


@needs_dnnl
def test_its_python_program_needs_numpy_and_tvm_ffi_alone(bundle: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    for name in ("tvm", "annotated_region", "onnx"):
        (blocked / name).mkdir(parents=True)
        (blocked / name / "__init__.py").write_text(f"raise ImportError('{name} is not to be imported')\n")
    (image,) = inputs_of(MODEL).values()
    np.save(tmp_path / "input.npy", image)
    ran = call(
        sys.executable,
        bundle / "example" / "run_model.py",
        tmp_path / "output.npy",
        tmp_path / "input.npy",
        env={**os.environ, "PYTHONPATH": str(blocked)},
    )
    assert ran.returncode == 0, ran.stderr
    np.testing.assert_allclose(np.load(tmp_path / "output.npy"), expected(), rtol=1e-4, atol=1e-5)


@needs_dnnl
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "usage: run_model.py OUTPUT.npy INPUT.npy..."),
        (["out.npy", "missing.npy"], "run_model.py: [Errno 2] No such file or directory: 'missing.npy'"),
        (["out.npy"], "run_model.py: Check failed: .* main expects 1 arguments"),
    ],
)
def test_its_python_program_says_what_is_wrong(bundle: Path, words: list[str], said: str) -> None:
    ran = call(sys.executable, bundle / "example" / "run_model.py", *words)
    assert ran.returncode == 1
    assert re.match(said if ".*" in said else re.escape(said), ran.stderr)
    assert "Traceback" not in ran.stderr


@needs_dnnl
def test_the_manifest_says_what_each_file_is(bundle: Path) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert set(manifest["files"]) == {file.name for file in (bundle / "lib").iterdir()}
    for name, about in manifest["files"].items():
        assert about["sha256"] == hashlib.sha256((bundle / "lib" / name).read_bytes()).hexdigest()
    assert manifest["files"]["libdnnl.so.3"]["version"] == installation.VERSION
    assert manifest["files"]["libdnnl.so.3"]["instructions"] == "SSE4.1 on x86-64"
    assert manifest["files"]["model.so"]["instructions"] == "those of TVM's target llvm"
    assert {region["target"] for region in manifest["regions"].values()} == {"dnnl"}
    assert manifest["parameters"] == list(inputs_of(MODEL))
    for package in ("apache-tvm", "apache-tvm-ffi", installation.RUNTIME_WHEEL):
        assert any((bundle / "licenses" / package).iterdir())


@needs_dnnl
def test_cmake_builds_the_program(bundle: Path, tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    for step in (("-S", bundle / "example", "-B", tmp_path / "build"), ("--build", tmp_path / "build")):
        ran = call("cmake", *step)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    assert call(tmp_path / "build" / "run_model").stderr.startswith("usage: run_model")


@needs_dnnl
def test_what_is_there_is_not_overwritten(bundle: Path) -> None:
    executable = ar.build(ar.partition(ar.from_onnx(MODEL), ["dnnl"]))
    with pytest.raises(ar.BundleError, match="already exists and is not overwritten"):
        ar.export(executable, bundle)


def test_what_is_no_executable_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ar.UsageError, match="what annotated_region\\.build returns"):
        ar.export(object(), tmp_path / "model")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_regions_that_run_in_python_are_refused_and_nothing_is_left(tmp_path: Path) -> None:
    mod = ar.partition(ar.from_onnx(MODEL), ["onnxruntime"])
    executable = ar.build(mod, options={"onnxruntime": {"providers": ["CUDAExecutionProvider"]}})
    reason = "'onnxruntime' run in processes of Python .*CUDAExecutionProvider is accessible only from Python"
    with pytest.raises(ar.BackendUnavailableError, match=reason):
        ar.export(executable, tmp_path / "model")
    executable = ar.build(ar.partition(ar.from_onnx(MODEL), ["tensorrt"], cross_compile=True))
    with pytest.raises(ar.BackendUnavailableError, match="'tensorrt' run in processes of Python"):
        ar.export(executable, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def bert_of(targets: list[str], folder: Path) -> Path:
    """The bundle of a BERT, in a root folder of its own; several targets share its ops."""
    (folder / "root").mkdir()
    bans = {"relax.nn.softmax": ["dnnl"]} if len(targets) > 1 else {}
    bundle = exported(BERT, targets, folder / "made", folder / "root" / "model", bans=bans)
    regions = json.loads((bundle / "manifest.json").read_text())["regions"]
    assert {region["target"] for region in regions.values()} == set(targets)
    return bundle


@needs_root
@pytest.mark.skipif(shared_library() is None, reason="the wheel of ONNX Runtime holds no shared library")
@pytest.mark.parametrize("targets", [["onnxruntime"], ["dnnl", "onnxruntime"]])
def test_regions_of_onnx_runtime_run_there_too(tmp_path: Path, targets: list[str]) -> None:
    bundle = bert_of(targets, tmp_path)
    manifest = json.loads((bundle / "manifest.json").read_text())
    engine = shared_library()
    assert engine is not None
    about = manifest["files"][engine.name]
    assert (about["package"], about["version"]) == ("onnxruntime", onnxruntime.__version__)
    assert any((bundle / "licenses" / "onnxruntime").iterdir())
    np.testing.assert_allclose(run_alone(bundle.parent, BERT), expected(BERT), rtol=1e-4, atol=1e-5)


@needs_root
@needs_openvino
@pytest.mark.parametrize("targets", [["openvino"], ["dnnl", "openvino"]])
def test_regions_of_openvino_run_there_too(tmp_path: Path, targets: list[str]) -> None:
    bundle = bert_of(targets, tmp_path)
    manifest = json.loads((bundle / "manifest.json").read_text())
    for engine in libraries():
        assert manifest["files"][engine.name]["package"] == "openvino"
    assert any((bundle / "licenses" / "openvino").iterdir())
    (bundle.parent / "proc").mkdir()  # OpenVINO counts processors by this file of a mounted /proc
    shutil.copyfile("/proc/cpuinfo", bundle.parent / "proc" / "cpuinfo")
    np.testing.assert_allclose(run_alone(bundle.parent, BERT), expected(BERT), rtol=1e-4, atol=1e-5)


@needs_root
@needs_openvino
def test_openvino_without_proc_is_an_error_and_no_endless_loop(tmp_path: Path) -> None:
    model, root = family_model("mobilenet_v2", "small"), tmp_path / "root"
    root.mkdir()
    exported(model, ["openvino"], tmp_path / "made", root / "model")
    ran = call_alone(root, model)
    assert ran.returncode == 1
    assert "OpenVINO counts processors in /proc/cpuinfo, which is not readable" in ran.stderr


@needs_dnnl
def test_the_command_line_writes_one(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(MODEL.SerializeToString())
    assert main(["partition", str(model), "--targets", "dnnl", "-o", f"{tmp_path}/folder/", "--quiet"]) == 0
    assert (tmp_path / "folder" / "lib" / "model.so").is_file()
