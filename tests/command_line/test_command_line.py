"""The program: what it prints and writes, its exit codes, never a traceback; as a process where it counts."""

import json
import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
import tvm
from kits.command_line.command_line_kit import called, program, small_model
from tvm import relax

from annotated_region.command_line.run import COMMANDS
from annotated_region.testing.registry import claim_ops, temporary_registrations

SCRIPT = """\
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        with R.dataflow():
            a = R.add(x, y)
            b = R.nn.relu(a)
            R.output(b)
        return b
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small_model(tmp_path_factory.mktemp("models"))


def assert_refused(finished, code, *texts):
    assert finished.returncode == code
    for text in texts:
        assert text in finished.stderr
    assert "Traceback" not in finished.stderr
    assert not finished.stdout


# -- what it does ----------------------------------------------------------------------------------


def test_explain_shows_regions_and_reasons(model):
    finished = program("explain", model, "--targets", "dnnl", "--ops")
    assert finished.returncode == 0, finished.stderr
    assert "Regions of main" in finished.stdout
    assert "nn.conv2d" in finished.stdout
    assert "dnnl: 4 of 4 ops in 1 region" in finished.stdout


def test_explain_prints_the_report_as_json(model):
    finished = called("explain", model, "--targets", "tensorrt,dnnl", "--json")
    (function,) = json.loads(finished.stdout)["functions"]
    assert [op["placed"] for op in function["ops"]] == ["dnnl"] * 4
    assert "tensorrt" in function["unavailable"]


def test_explain_knows_what_the_cheapest_placement_costs(model):
    finished = called("explain", model, "--targets", "dnnl", "--policy", "least-cost", "--json")
    report = json.loads(finished.stdout)
    assert 0 < report["lower_bound"] <= report["cost"]


def test_partition_writes_tvmscript(model, tmp_path):
    finished = called("partition", model, "--targets", "dnnl", "-o", tmp_path / "out.py")
    assert finished.returncode == 0, finished.stderr
    assert "1 external function" in finished.stdout
    text = (tmp_path / "out.py").read_text()
    assert '"Codegen": "dnnl"' in text


def test_partition_writes_a_library_that_computes_the_model(model, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="what to compare with")
    library = tmp_path / "small.so"
    finished = program("partition", model, "--targets", "dnnl", "-o", library, "--json")
    assert finished.returncode == 0, finished.stderr
    (external,) = json.loads(finished.stdout)["external_functions"]
    assert external["inputs"] == ["float32[1, 3, 8, 8]"]
    image = np.random.default_rng(1).standard_normal((1, 3, 8, 8), dtype=np.float32)
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cpu())
    session = onnxruntime.InferenceSession(model.read_bytes(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": image})
    np.testing.assert_allclose(
        machine["main"](tvm.runtime.tensor(image)).numpy(), expected, rtol=1e-4, atol=1e-5
    )


def test_an_op_is_pinned_banned_and_left_to_the_host(model):
    def places(*words):
        finished = called("explain", model, "--targets", "dnnl,tensorrt", "--cross-compile", "--json", *words)
        (function,) = json.loads(finished.stdout)["functions"]
        return {op["op"]: op["placed"] for op in function["ops"]}

    everywhere = places()
    assert set(everywhere.values()) == {"dnnl"}
    moved = places("--pin", "relax.tanh=host", "--ban", "relax.nn.relu=dnnl")
    assert moved == {**everywhere, "relax.tanh": "host", "relax.nn.relu": "tensorrt"}
    assert set(places("--min-work", "dnnl=1000", "--pin", "relax.tanh=host").values()) == {"tensorrt", "host"}


def test_options_of_a_code_generator_reach_it(model, tmp_path):
    words = ("partition", model, "--targets", "dnnl", "-o", tmp_path / "small.so")
    assert called(*words, "--option", "dnnl.precision=fp32").returncode == 0
    assert_refused(called(*words, "--option", "dnnl.precision=fp3"), 1, "precision", "fp3")
    assert_refused(called(*words, "--option", "dnnl.precison=fp32"), 1, "precison", "precision")
    assert_refused(called(*words, "--option", "dnn.precision=fp32"), 1, "dnn", "dnnl")


@pytest.mark.parametrize("ending", ["svg", "html"])
def test_draw_writes_one_file(model, tmp_path, monkeypatch, ending):
    pytest.importorskip("igraph", reason="the layout engine of pictures")
    monkeypatch.chdir(tmp_path)
    finished = called("draw", model, "--targets", "dnnl", "-o", f"out.{ending}")
    assert (finished.returncode, finished.stdout) == (0, f"out.{ending}\n")
    assert "dnnl, region 0: 4 ops" in (tmp_path / f"out.{ending}").read_text()
    assert_refused(called("draw", model, "--targets", "dnnl", "-o", "x.png"), 1, "x.png ends neither in .svg")


def test_bench_measures_targets_and_peers(model):
    finished = called("bench", model, "--targets", "dnnl", "--rounds", "3", "--host", "--json")
    assert finished.returncode == 0, finished.stderr
    times = json.loads(finished.stdout)
    assert {"dnnl", "TVM alone"} <= set(times)
    assert all(len(samples) == 3 and min(samples) > 0 for samples in times.values())
    assert "times the first" in called("bench", model, "--targets", "dnnl", "--rounds", "1").stdout


def test_inputs_get_shapes(model, tmp_path):
    finished = called("explain", model, "--targets", "dnnl", "--ops", "--json", "--shape", "x=2,3,?,?")
    assert "float32[2, 3, 8, 8]" in finished.stdout, finished.stderr
    (tmp_path / "module.py").write_text(SCRIPT)
    finished = called("explain", tmp_path / "module.py", "--targets", "dnnl", "--shape", "x=2,3")
    assert_refused(finished, 1, "is not an ONNX model, and only inputs of those can be given shapes")


def test_inputs_get_values(tmp_path):
    text = """<ir_version: 9, opset_import: ["" : 18]> net (float[2,3] x, bool[1] flag) => (float[2,3] y) {
        y = If (flag) <then_branch = g1 () => (float[2,3] a) { a = Relu(x) },
                       else_branch = g2 () => (float[2,3] b) { b = Exp(x) }> }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "branches.onnx")
    words = (
        "bench",
        tmp_path / "branches.onnx",
        "--targets",
        "dnnl",
        "--min-work",
        "dnnl=0",
        "--rounds",
        "1",
    )
    finished = called(*words, "--value", "flag=true", "--json")
    assert set(json.loads(finished.stdout)) == {"dnnl", "ONNX Runtime"}, finished.stderr
    assert "refused" not in finished.stdout
    finished = called(*words, "--value", "flag=2")
    assert_refused(finished, 1, "gives the input 'flag' of ", "2, which bool does not hold")
    (tmp_path / "module.py").write_text(SCRIPT)
    finished = called("explain", tmp_path / "module.py", "--targets", "dnnl", "--value", "x=1")
    assert_refused(finished, 1, "is not an ONNX model, and only inputs of those can be given values")


def test_bench_asks_what_extents_are(tmp_path):
    text = SCRIPT.replace("@I.ir_module", 'n = TypeVar("n")\n\n\n@I.ir_module').replace("(2, 3)", "(n, 3)")
    (tmp_path / "module.py").write_text(text)
    finished = called("bench", tmp_path / "module.py", "--targets", "dnnl")
    assert_refused(finished, 1, "the extents 'n' are symbolic, and their values are unknown")
    words = ("bench", tmp_path / "module.py", "--targets", "dnnl", "--min-work", "dnnl=0", "--rounds", "1")
    assert "made x float32[2, 3]: " in called(*words, "--extent", "n=2").stdout


def test_bench_takes_inputs_of_a_file(model, tmp_path):
    words = ("bench", model, "--targets", "dnnl", "--rounds", "1", "--inputs")
    np.savez(tmp_path / "x.npz", x=np.ones((1, 3, 8, 8), "float32"))
    np.savez(tmp_path / "y.npz", y=np.ones(3, "float32"))
    assert_refused(called(*words, tmp_path / "y.npz"), 1, "no parameter is called 'y'")
    finished = called(*words, tmp_path / "x.npz")
    assert finished.returncode == 0, finished.stderr
    assert "made " not in finished.stdout


def test_extract_counts_what_models_share(model, tmp_path):
    other = small_model(tmp_path, "other.onnx", channels=5)
    twin = small_model(tmp_path, "twin.onnx")
    finished = called("extract", model, other, twin, "--json", "-o", tmp_path / "zoo.json")
    statistics = json.loads(finished.stdout)
    assert statistics == json.loads((tmp_path / "zoo.json").read_text())
    assert list(statistics["models"]) == ["small", "other", "twin"]
    assert statistics["models"]["other"]["shared"] == 0
    assert statistics["shared"] == statistics["models"]["small"]["distinct"] > 0
    assert statistics["calls"] == sum(each["calls"] for each in statistics["models"].values())


def test_extract_says_the_same_with_several_processes(model, tmp_path):
    twin = small_model(tmp_path, "twin.onnx")
    one = called("extract", model, twin, "--json")
    two = called("extract", model, twin, "--json", "--jobs", "2")
    assert one.returncode == two.returncode == 0, two.stderr
    assert one.stdout == two.stdout
    assert "are shared by several models." in called("extract", model, twin).stdout


def test_a_module_as_tvmscript_is_read(tmp_path, monkeypatch):
    (tmp_path / "module.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    finished = called("explain", "module.py", "--targets", "dnnl", "--no-prepare")
    assert finished.returncode == 0, finished.stderr
    assert "dnnl: 2 of 2 ops in 1 region" in finished.stdout


# -- help ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_help_shows_examples(command):
    finished = called(command.name, "--help")
    assert finished.returncode == 0
    for example in command.examples:
        assert f"annotated-region {example}" in finished.stdout


def test_help_lists_the_commands_and_the_version_is_told():
    text = program("--help").stdout
    assert all(command.name in text for command in COMMANDS)
    assert program("--version").stdout.startswith("annotated-region ")


# -- completion in shells --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def completion(tmp_path_factory):
    finished = program("--print-completion", "bash")
    assert finished.returncode == 0, finished.stderr
    path = tmp_path_factory.mktemp("completion") / "annotated-region"
    path.write_text(finished.stdout)
    return path


def completed(completion, folder, *words):
    """What bash offers for the last of the words."""
    script = (
        'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
        '$(complete -p annotated-region | sed "s/.* -F \\([^ ]*\\) .*/\\1/") "$1" "${@: -1}" ""; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    finished = subprocess.run(
        ["bash", "-c", script, "bash", completion, "annotated-region", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return finished.stdout.split()


def test_a_shell_completes_commands_options_choices_and_files(completion, tmp_path):
    (tmp_path / "model.onnx").touch()
    assert completed(completion, tmp_path, "ex") == ["explain", "extract"]
    assert completed(completion, tmp_path, "explain", "--po") == ["--policy"]
    assert completed(completion, tmp_path, "explain", "--policy", "l") == ["least-cost"]
    assert completed(completion, tmp_path, "explain", "mod") == ["model.onnx"]
    assert completed(completion, tmp_path, "draw", "-o", "mod") == ["model.onnx"]


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
def test_other_shells_are_served(shell):
    finished = called("--print-completion", shell)
    assert finished.returncode == 0
    assert all(command.name in finished.stdout for command in COMMANDS)


# -- what it refuses -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "required: command"),
        (("frobnicate",), "invalid choice"),
        (("explain",), "required: model, --targets"),
        (("explain", "m.onnx", "--targets", "dnnl,,"), "not a comma-separated list of names"),
        (("explain", "m.onnx", "--targets", "dnnl", "--policy", "best"), "invalid choice"),
        (("explain", "m.onnx", "--targets", "dnnl", "--pin", "lv"), "'lv' is not NAME=VALUE"),
        (("explain", "m.onnx", "--targets", "dnnl", "--pin", "=dnnl"), "'=dnnl' is not NAME=VALUE"),
        (
            ("explain", "m.onnx", "--targets", "dnnl", "--ban", "lv=a,,b"),
            "not a comma-separated list of names",
        ),
        (("explain", "m.onnx", "--targets", "dnnl", "--min-work", "dnnl=nan"), "is not a number from 0"),
        (("explain", "m.onnx", "--targets", "dnnl", "--min-work", "dnnl=-1"), "is not a number from 0"),
        (("bench", "m.onnx", "--targets", "dnnl", "--option", "precision=bf16"), "is not TARGET.NAME=VALUE"),
        (("bench", "m.onnx", "--targets", "dnnl", "--option", "dnnl.precision"), "is not TARGET.NAME=VALUE"),
        (("extract",), "required: model"),
        (("extract", ""), "'' is not a file name"),
        (("extract", "m.onnx", "--jobs", "many"), "is not a number from 0"),
    ],
)
def test_arguments_that_make_no_sense(words, message):
    assert_refused(called(*words), 2, "usage:", message)


def test_arguments_that_make_no_sense_end_the_process_so():
    assert_refused(program("explain", "m.onnx"), 2, "usage:", "required: --targets")


def test_a_missing_file_is_named(tmp_path):
    assert_refused(
        program("explain", "no.onnx", "--targets", "dnnl", folder=tmp_path), 1, "no.onnx cannot be read"
    )


def test_an_unknown_ending_is_named(tmp_path):
    assert_refused(called("extract", tmp_path / "model.bin"), 1, "model.bin", ".onnx, .pt2, .py")


def test_an_unknown_target_is_named_with_the_known_ones(model):
    assert_refused(called("explain", model, "--targets", "dnl"), 1, "unknown target 'dnl'", "'dnnl'")


def test_a_pin_of_nothing_is_named_with_the_nearest_names(model):
    words = ("explain", model, "--targets", "dnnl")
    assert_refused(called(*words, "--pin", "relax.tan=host"), 1, "'relax.tan'", "'relax.tanh'")
    assert_refused(called(*words, "--pin", "relax.tanh=dnln"), 1, "'dnln'", "did you mean 'dnnl'?")


@pytest.mark.parametrize("command", ["explain", "advise"])
def test_a_cost_model_without_a_policy_that_uses_it_is_refused(model, command):
    finished = called(command, model, "--targets", "dnnl", "--cost", "measured")
    assert_refused(finished, 1, "--cost measured needs --policy least-cost")


def test_a_model_whose_ops_are_all_claimed_gets_no_table_of_advice(model):
    with temporary_registrations():
        claim_ops("greedy", "relax.nn.conv2d", "relax.nn.relu", "relax.tanh", "relax.add")
        finished = called("advise", model, "--targets", "greedy")
    assert (finished.returncode, finished.stderr) == (0, "")
    assert finished.stdout == "no claim of a declined op would improve the placement\n"


def test_an_output_of_unknown_kind_is_refused_before_any_work():
    finished = called("partition", "no.onnx", "--targets", "dnnl", "-o", "x.zip")
    assert_refused(finished, 1, "x.zip ends neither in .so nor in .py")


def test_a_file_that_cannot_be_written_is_named(model, tmp_path):
    finished = called("partition", model, "--targets", "dnnl", "-o", tmp_path / "no" / "x.py")
    assert_refused(
        finished, 1, "No such file or directory", "x.py", f"make the folder {tmp_path / 'no'} first"
    )


CORRUPT = {
    "empty.onnx": b"",
    "noise.onnx": bytes(range(256)) * 4,
    "text.onnx": b"this is no model\n",
    "empty.py": b"",
    "noise.py": b"\xff\xfe\x00",
    "broken.py": b"class Module(\n",
}


@pytest.mark.parametrize("name", CORRUPT)
def test_a_corrupt_file_is_named(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(CORRUPT[name])
    assert_refused(called("explain", path, "--targets", "dnnl"), 1, f"error: {path} ")


EVERY_COMMAND = {
    "explain": ("--targets=dnnl",),
    "partition": ("--targets=dnnl",),
    "draw": ("--targets=dnnl", "-o", "x.svg"),
    "check": ("--targets=dnnl",),
    "bench": ("--targets=dnnl",),
    "extract": (),
    "advise": ("--targets=dnnl",),
}


WITHOUT_MODELS = {"cache", "diff"}


def test_every_command_is_here():
    assert set(EVERY_COMMAND) == {command.name for command in COMMANDS} - WITHOUT_MODELS


@pytest.mark.parametrize("command", EVERY_COMMAND)
def test_every_command_names_a_corrupt_file(command, tmp_path, monkeypatch):
    (tmp_path / "noise.onnx").write_bytes(CORRUPT["noise.onnx"])
    monkeypatch.chdir(tmp_path)
    finished = called(command, *EVERY_COMMAND[command], "noise.onnx")
    assert_refused(finished, 1, "error: noise.onnx is not an ONNX model")


@pytest.mark.parametrize("command", EVERY_COMMAND)
def test_every_command_names_a_missing_file(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    finished = called(command, *EVERY_COMMAND[command], "no.onnx")
    assert_refused(finished, 1, "error: no.onnx cannot be read")


@pytest.mark.parametrize("command", EVERY_COMMAND)
def test_every_command_refuses_arguments_that_make_no_sense(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    finished = called(command, *EVERY_COMMAND[command], "m.onnx", "--frobnicate")
    assert_refused(finished, 2, "usage:", "unrecognized arguments: --frobnicate")


def test_a_truncated_model_is_named(model, tmp_path):
    (tmp_path / "half.onnx").write_bytes(model.read_bytes()[:200])
    assert_refused(called("extract", tmp_path / "half.onnx"), 1, "half.onnx")


def test_a_model_with_an_op_that_nobody_knows_is_named(model, tmp_path):
    changed = onnx.load(model)
    changed.graph.node[1].op_type = "Frobnicate"
    onnx.save(changed, tmp_path / "strange.onnx")
    finished = called("explain", tmp_path / "strange.onnx", "--targets", "dnnl")
    assert_refused(finished, 1, "cannot be imported: there is no converter for", "strange.onnx", "Frobnicate")


def test_a_traceback_is_shown_to_who_asks(tmp_path):
    finished = program("explain", "no.onnx", "--targets", "dnnl", "--traceback", folder=tmp_path)
    assert finished.returncode == 1
    assert "Traceback" in finished.stderr


def test_who_reads_the_first_line_alone_sees_no_error(model):
    command = [sys.executable, "-m", "annotated_region", "explain", str(model), "--targets", "dnnl", "--json"]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        finished = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")
