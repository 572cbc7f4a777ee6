"""Untrusted files at the command line: each gives one line of error; nothing runs, hangs or crashes."""

import os
import subprocess
import sys
from xml.etree import ElementTree

import pytest
import tvm_ffi
from kits.command_line.command_line_kit import called, program, small_model
from onnx import TensorProto, helper
from tvm import relax

import annotated_region as ar

CANARY = "annotated_region.tests.canary_of_commands"
MODULE = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = R.call_pure_packed("{name}", R.str("/bin/true"), sinfo_args=[R.Tensor((4,), "float32")])
        return y
""".replace("sinfo_args", "ty_args")
COMMANDS = {
    "explain": [],
    "explain, measured": ["--policy", "least-cost", "--cost", "measured"],
    "bench": ["--rounds", "1"],
    "partition": [],
    "draw": ["-o", "out.svg"],
    "extract": None,
}


@pytest.fixture(scope="module")
def canary():
    heard = []
    tvm_ffi.register_global_func(CANARY, lambda *arguments: heard.append(arguments), override=True)
    yield heard
    tvm_ffi.registry.remove_global_func(CANARY)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["rpc.CreatePipeClient", "ffi.Module.load_from_file.so", CANARY])
def test_every_command_refuses_packed_functions(command, name, tmp_path, canary, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.py").write_text(MODULE.format(name=name))
    options = [] if COMMANDS[command] is None else ["--targets", "dnnl", *COMMANDS[command]]
    finished = called(command.split(",")[0], "m.py", *options)
    assert finished.returncode == 1
    assert f"in function 'main', binding 'y', it calls the packed function {name!r}" in finished.stderr
    assert not canary
    assert os.listdir(tmp_path) == ["m.py"]


def test_a_pipe_is_no_model(tmp_path):
    os.mkfifo(tmp_path / "model.onnx")
    finished = called("explain", tmp_path / "model.onnx", "--targets", "dnnl")
    assert finished.returncode == 1
    assert "is not a regular file, but a pipe" in finished.stderr


def test_names_do_not_reach_the_terminal_as_they_are(tmp_path):
    node = helper.make_node("Relu\x1b[31m\x07", ["x"], ["y"])
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    model = helper.make_model(helper.make_graph([node], "g", value[:1], value[1:]))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    finished = called("explain", tmp_path / "m.onnx", "--targets", "dnnl")
    assert finished.returncode == 1
    assert "Relu\\x1b[31m\\x07" in finished.stderr


def test_a_name_of_megabytes_makes_no_error_of_megabytes(tmp_path):
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy")
    graph = helper.make_graph([helper.make_node("n" * 3_000_000, ["x"], ["y"])], "g", [x], [y])
    (tmp_path / "m.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    finished = called("explain", tmp_path / "m.onnx", "--targets", "dnnl")
    assert finished.returncode == 1
    assert "characters ...]nnn" in finished.stderr
    assert len(finished.stderr) < 5000


def test_names_of_files_do_not_look_like_lines_of_the_program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a\nannotated-region: error: \x1b[2Jno.onnx").write_bytes(b"no model")
    finished = called("explain", "a\nannotated-region: error: \x1b[2Jno.onnx", "--targets", "dnnl")
    assert finished.returncode == 1
    first, second = finished.stderr.splitlines()
    assert first == "annotated-region: error: a"
    assert second.startswith("    annotated-region: error: \\x1b[2Jno.onnx is not an ONNX model")


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ("time=0.01s", "it takes longer than 0.01 seconds, the limit of time; see --limits"),
        ("file=1K", "the module has more than 1024 bytes, the limit of file; see --limits"),
        ("memory=1", "the limit of memory"),
    ],
)
def test_limits_are_kept(tmp_path, limits, said):
    finished = called("explain", small_model(tmp_path, channels=64), "--targets", "dnnl", "--limits", limits)
    assert finished.returncode == 1
    assert said in finished.stderr


@pytest.mark.parametrize(
    "limits", ["time", "time=never", "memory=8X", "disk=1G", "time=0", "memory=" + "9" * 400_000]
)
def test_limits_that_make_no_sense(tmp_path, limits):
    finished = called("explain", small_model(tmp_path), "--targets", "dnnl", "--limits", limits)
    assert finished.returncode == 2
    assert "limit" in finished.stderr


def test_the_program_reads_models_in_a_fork_of_itself(tmp_path):
    finished = program("explain", small_model(tmp_path), "--targets", "dnnl")
    assert finished.returncode == 0, finished.stderr


def test_a_folder_of_strangers_is_no_place_to_import_from(tmp_path):
    """A process started there must not take its onnx.py for the package."""
    model = small_model(tmp_path)
    for name in ("onnx", "numpy", "tvm", "annotated_region"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken from the folder')")
    code = f"import annotated_region as ar; print(len(ar.from_onnx({str(model)!r}, isolated=True).functions))"
    finished = run_in(tmp_path, code)
    assert (finished.returncode, finished.stdout) == (0, "1\n"), finished.stderr


def run_in(folder, code):
    return subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_threads_that_no_machine_has(tmp_path, monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", "99999")
    finished = called("explain", small_model(tmp_path), "--targets", "dnnl")
    assert finished.returncode == 1
    assert "TVM_NUM_THREADS asks for 99999 threads" in finished.stderr


@pytest.mark.parametrize("ending", ["svg", "html"])
def test_pictures_are_well_formed_whatever_names_are(tmp_path, ending):
    x = relax.Var("x", relax.TensorType((2,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        value = builder.emit(relax.op.tanh(x), name_hint="red\x1b[31m\x07</svg>")
        builder.emit_func_output(value)
    page = ar.explain(builder.get(), ["dnnl"]).draw(tmp_path / f"out.{ending}").read_text()
    assert all(character.isprintable() or character == "\n" for character in page)
    if ending == "svg":
        ElementTree.fromstring(page)
