"""Failures of the environment give a message and a status, and leave no partial files."""

from __future__ import annotations

import ctypes
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import traceback
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
import tvm_ffi
from interrupt_campaign import interrupted_run
from kits.command_line.command_line_kit import called, small_model
from tvm import relax

import annotated_region as ar
from annotated_region._loading import is_program
from annotated_region.command_line import bench, extract
from annotated_region.command_line.supervision import ended_in_child
from annotated_region.testing.registry import claim_ops, temporary_registrations

BUG = "internal error"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small_model(tmp_path_factory.mktemp("models"))


@pytest.fixture(autouse=True, scope="module")
def _signals():
    """Processes hear interrupts and hangups, even if the suite runs behind `nohup` or in the background."""
    before = [(each, signal.signal(each, signal.SIG_DFL)) for each in (signal.SIGHUP, signal.SIGINT)]
    yield
    for each, handler in before:
        signal.signal(each, handler)


def assert_says(finished, code, *texts):
    assert finished.returncode == code, finished.stderr
    for text in texts:
        assert text in finished.stderr
    assert BUG not in finished.stderr
    assert "Traceback" not in finished.stderr


def environment(**changed):
    return {**os.environ, **{name: str(value) for name, value in changed.items()}}


def run(words, **options):
    return subprocess.run(
        [sys.executable, "-m", "annotated_region", *map(str, words)],
        stderr=subprocess.PIPE, text=True, timeout=300, check=False, **options,
    )  # fmt: skip


# -- a target that is not here -------------------------------------------------------------------------


@pytest.fixture
def absent():
    """A target that claims everything of the small model and cannot run here."""
    with temporary_registrations():
        ar.register_backend("absent", unavailable=lambda: "its library is not installed; pip install it")
        claim_ops("absent", "relax.nn.conv2d", "relax.nn.relu", "relax.tanh", "relax.add")
        yield "absent"


@pytest.mark.parametrize("targets", ["absent", "absent,dnnl", "dnnl,absent"])
def test_nothing_is_measured_of_a_target_that_cannot_run(model, absent, targets):
    finished = called("bench", model, "--targets", targets, "--rounds", "1")
    assert_says(finished, 1, "target 'absent' cannot run here: its library is not installed; pip install it")
    assert not finished.stdout


def test_no_library_of_the_host_alone_is_written_for_a_target_that_cannot_run(model, absent, tmp_path):
    library = tmp_path / "x.so"
    finished = called("partition", model, "--targets", "absent", "-o", library)
    assert_says(finished, 1, "its library is not installed", "build for another machine with --cross-compile")
    assert not library.exists()


def test_other_commands_say_why_a_target_gets_nothing(model, absent, tmp_path):
    for words in (("partition",), ("partition", "-o", tmp_path / "x.py"), ("draw", "-o", tmp_path / "x.svg")):
        finished = called(words[0], model, "--targets", "absent", *words[1:])
        assert_says(finished, 0, "note: target 'absent' gets nothing: its library is not installed")


def test_a_benchmark_of_nothing_is_none(model):
    with temporary_registrations():
        ar.register_backend("idle")
        finished = called("bench", model, "--targets", "idle")
    assert_says(finished, 1, "idle would run nothing of this model, so there is nothing to measure")


# -- bench -----------------------------------------------------------------------------------------------


def changed_model(model, path, change):
    proto = onnx.load(model)
    change(proto)
    path.write_bytes(proto.SerializeToString())
    return path


def test_what_onnx_runtime_refuses_is_a_row_with_the_reason(model, tmp_path):
    pytest.importorskip("onnxruntime", reason="the reason is that of ONNX Runtime")

    def from_the_future(proto):
        proto.ir_version = 99

    path = changed_model(model, tmp_path / "newest.onnx", from_the_future)
    finished = called("bench", path, "--targets", "dnnl", "--rounds", "1", "--json")
    assert_says(finished, 0)
    outcomes = json.loads(finished.stdout)
    assert len(outcomes["dnnl"]) == 1
    assert "IR version" in outcomes["ONNX Runtime"]["refused"]
    table = called("bench", path, "--targets", "dnnl", "--rounds", "1").stdout
    assert "ONNX Runtime: " in table


def test_onnx_runtime_is_left_out_with_a_word(model, tmp_path, monkeypatch):
    words = ("--targets", "dnnl", "--rounds", "1", "--json")
    (tmp_path / "module.py").write_text(HUGE.replace("1000000", "8"))
    finished = called("bench", tmp_path / "module.py", *words, "--no-prepare")
    assert finished.stderr.strip() == "note: ONNX Runtime is left out, because module.py is not an ONNX file"
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # as if it were not installed
    finished = called("bench", model, *words)
    assert finished.stderr.strip() == (
        "note: ONNX Runtime is left out, because it is not installed; pip install "
        "'annotated-region[onnxruntime]'"
    )
    assert set(json.loads(finished.stdout)) == {"dnnl"}


def test_what_tvm_cannot_compile_is_a_row_with_the_reason(model, monkeypatch):
    def refuse(_mod):
        raise ar.BuildError("TVM cannot compile what the host runs: ...")

    real, built = bench.build, list[object]()

    def build_once(mod, options=None):
        built.append(mod)
        return real(mod, options=options) if len(built) == 1 else refuse(mod)

    monkeypatch.setattr(bench, "build", build_once)
    finished = called("bench", model, "--targets", "dnnl", "--rounds", "1", "--host", "--json")
    assert_says(finished, 0)
    assert json.loads(finished.stdout)["TVM alone"]["refused"].startswith("TVM cannot compile")


HUGE = """\
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1000000, 1000000), "float32")) -> R.Tensor((1000000, 1000000), "float32"):
        with R.dataflow():
            b = R.nn.relu(x)
            R.output(b)
        return b
"""


def test_shapes_that_no_machine_can_hold_are_named(tmp_path):
    (tmp_path / "huge.py").write_text(HUGE)
    finished = called("bench", tmp_path / "huge.py", "--targets", "dnnl", "--no-prepare")
    assert_says(finished, 1, "parameter 'x' of shape (1000000, 1000000) takes 8.0e+12 bytes")


def test_memory_that_is_not_enough_is_named(model, monkeypatch):
    def refuse(*_arguments):
        raise MemoryError

    monkeypatch.setattr(bench, "_inputs", refuse)
    finished = called("bench", model, "--targets", "dnnl")
    assert_says(finished, 1, "this machine has not enough memory")


@pytest.mark.parametrize(
    "number", ["1" + 21 * "0", "9" * 400_000, "-3", "ten", "1.5"], ids=lambda text: text[:6]
)
@pytest.mark.parametrize(
    "words", [("bench", "--targets=dnnl", "--rounds"), ("extract", "--jobs"), ("extract", "--top")]
)
def test_numbers_that_make_no_sense_are_refused_in_a_line(model, words, number):
    finished = called(words[0], model, *words[1:-1], f"{words[-1]}={number}")
    assert_says(finished, 2, "is not a number from 0 to 1000000")
    assert max(map(len, finished.stderr.splitlines())) < 200


@pytest.mark.parametrize(
    "words",
    [("explain", "a\0b.onnx"), ("partition", "m.onnx", "-o", "a\0b.so"), ("draw", "m.onnx", "-o", "")],
)
def test_a_name_that_no_file_can_have_is_refused(words):
    assert_says(called(*words, "--targets", "dnnl"), 2, "is not a file name")


@pytest.mark.parametrize("name", ["m.onnx", "link.onnx", "./m.onnx"])
def test_an_output_does_not_take_the_place_of_a_model(model, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    content = Path(model).read_bytes()
    Path("m.onnx").write_bytes(content)
    Path("link.onnx").symlink_to("m.onnx")
    assert_says(called("extract", model, "m.onnx", "-o", name), 1, "is one of the models to read")
    assert Path("m.onnx").read_bytes() == content


def test_a_link_that_leads_to_itself_is_no_output(model, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    finished = called("partition", model, "--targets", "dnnl", "-o", tmp_path / "loop" / "x.so")
    assert_says(finished, 1, "Too many levels of symbolic links")


# -- surroundings ------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
@pytest.mark.parametrize("compiler", ["/bin/false", "/no/such/compiler"])
def test_a_compiler_that_fails_is_named(model, tmp_path, compiler):
    library = tmp_path / "x.so"
    finished = run(["partition", model, "--targets", "dnnl", "-o", library], env=environment(CXX=compiler))
    assert_says(finished, 1, compiler)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_called_as_the_database_is_named(model, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "annotated-region" / "costs.sqlite3").mkdir(parents=True)
    finished = called("explain", model, "--targets", "dnnl", "--policy", "least-cost", "--cost", "measured")
    assert_says(finished, 1, "costs.sqlite3 is a folder")


def test_who_closes_the_streams_gets_no_complaint(model):
    command = f'exec "{sys.executable}" -m annotated_region explain "{model}" --targets dnnl >&- 2>&-'
    assert subprocess.run(["sh", "-c", command], timeout=300, check=False).returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_behind_the_output_is_told_once(model):
    with open("/dev/full", "w", encoding="utf-8") as full:
        finished = run(["explain", model, "--targets", "dnnl", "--json"], stdout=full)
    assert_says(finished, 1, "No space left on device")
    assert len(finished.stderr.splitlines()) == 1


def test_a_picture_that_cannot_be_written_leaves_no_file(model, tmp_path, monkeypatch):
    def full(_self, *_arguments, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", full)
    finished = called("draw", model, "--targets", "dnnl", "-o", tmp_path / "x.svg")
    assert_says(finished, 1, "No space left on device")
    assert list(tmp_path.iterdir()) == []


# -- Ctrl-C --------------------------------------------------------------------------------------------------


def interrupt(*_arguments, **_options):
    raise KeyboardInterrupt


@pytest.fixture
def interrupted_generator():
    with temporary_registrations():
        ar.register_backend("interrupted")
        claim_ops("interrupted", "relax.nn.conv2d")
        tvm.register_global_func("relax.ext.interrupted", interrupt, override=True)
        yield "interrupted"
        tvm_ffi.registry.remove_global_func("relax.ext.interrupted")


def test_an_interrupt_inside_a_code_generator_stays_one(model, tmp_path, interrupted_generator):
    library = tmp_path / "x.so"
    finished = called("partition", model, "--targets", interrupted_generator, "-o", library)
    assert (finished.returncode, finished.stderr, list(tmp_path.iterdir())) == (130, "", [])


def test_an_interrupt_inside_a_pass_or_a_visitor_stays_one():
    mod = tvm.IRModule(
        {"main": relax.Function([], relax.const(np.float32(1)), relax.TensorType((), "float32"))}
    )

    @tvm.transform.module_pass(opt_level=0)
    def interrupted(mod, context):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tvm.transform.Sequential([interrupted])(mod)
    with pytest.raises(KeyboardInterrupt):
        relax.analysis.post_order_visit(mod["main"], interrupt)


@pytest.mark.parametrize("wholly", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_an_interrupt_at_any_moment_ends_with_130_and_leaves_nothing(tmp_path, seed, wholly):
    """With more moments: ``python tests/command_line/interrupt_campaign.py``."""
    moment = random.Random(f"{seed} {wholly}").uniform(0.0, 4.0)
    ending = interrupted_run(small_model(tmp_path), tmp_path / "out", moment, wholly=wholly)
    assert ending in ("interrupted", "done")


def test_an_interrupt_while_the_package_loads_says_nothing(tmp_path):
    assert interrupted_run(small_model(tmp_path), tmp_path / "out", 0.0) == "interrupted"


@pytest.mark.parametrize(
    ("words", "name", "expected"),
    [
        (["python", "/usr/bin/annotated-region", "explain"], "/usr/bin/annotated-region", True),
        (["python", "-m", "annotated_region", "explain"], "-m", True),
        (["python", "-m", "pytest", "-m", "annotated_region"], "-m", False),
        (["python", "server.py"], "server.py", False),
        (["python", "-c", "import annotated_region"], "-c", False),
        (["python"], "", False),
    ],
)
def test_only_the_program_changes_what_an_interrupt_does(words, name, expected):
    assert is_program(words, name) is expected


# -- crashes -------------------------------------------------------------------------------------------------


def supervised(work, before=lambda: None):
    """How some work ends that the program hands to its child: exit code or signal, and what it says."""
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            os.dup2(writer, 2)
            before()
            code = ended_in_child(work, lambda number: os.write(2, str(number).encode()) and 7)
        except BaseException:
            traceback.print_exc()
            code = 99
        finally:
            os._exit(code)  # whatever happened: a second process must not go on with the tests
    os.close(writer)
    with os.fdopen(reader) as errors:
        said = errors.read()
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), said


@pytest.mark.parametrize("ending", [signal.SIGSEGV, signal.SIGFPE, signal.SIGKILL, signal.SIGABRT])
def test_what_ends_the_child_is_told(ending):
    assert supervised(lambda: os.kill(os.getpid(), ending)) == (7, str(int(ending)))


def test_the_exit_code_is_that_of_the_child():
    assert supervised(lambda: 5) == (5, "")


def test_signals_that_end_programs_end_both():
    def work():
        os.kill(os.getppid(), signal.SIGTERM)
        time.sleep(60)

    assert supervised(work) == (-signal.SIGTERM, "")


LATE = """\
#include <signal.h>
#include <sys/wait.h>
extern "C" int late(int child, int* status, int options) {
  static bool raised = raise(SIGTERM) == 0;
  return raised ? waitpid(child, status, options) : -1;
}
"""


def test_a_signal_just_before_the_program_waits_ends_both(tmp_path, monkeypatch):
    """Python has looked for signals already, and the system call has not begun."""
    (tmp_path / "late.cc").write_text(LATE)
    subprocess.run(["g++", "-shared", "-fPIC", "-o", "late.so", "late.cc"], cwd=tmp_path, check=True)
    late = ctypes.CDLL(str(tmp_path / "late.so")).late

    def waitpid(child, options):
        status = ctypes.c_int()
        return late(child, ctypes.byref(status), options), status.value

    def work():
        time.sleep(4)
        return 5

    assert supervised(work, lambda: monkeypatch.setattr(os, "waitpid", waitpid)) == (-signal.SIGTERM, "")


def test_what_the_caller_ignores_stays_ignored():
    def work():
        os.kill(os.getppid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGHUP)
        return 5

    assert supervised(work, lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) == (5, "")


def test_a_second_interrupt_kills_what_does_not_hear_the_first():
    def work():
        for _ in range(3):
            try:
                os.kill(os.getppid(), signal.SIGINT)
                time.sleep(60 if _ == 2 else 1.5)
            except KeyboardInterrupt:
                time.sleep(1.5)
        return 5

    assert supervised(work) == (130, "")


# The inputs of `bench` are fractions between 0 and 1, which are 0 as integers.
DIVISION = """\
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "int64"), y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "int64"):
        with R.dataflow():
            a = R.floor_divide(R.const(-9223372036854775808, "int64"), R.subtract(x, R.const(1, "int64")))
            b = R.nn.relu(y)
            c = R.add(a, R.astype(b, "int64"))
            R.output(c)
        return c
"""


def test_a_model_that_crashes_when_it_runs_is_an_error_line(tmp_path):
    """The smallest integer by -1 has no result, and the processor says so."""
    (tmp_path / "m.py").write_text(DIVISION)
    finished = run(["bench", "m.py", "--targets", "dnnl", "--rounds", "1"], cwd=tmp_path)
    assert_says(finished, 1, "the process that worked on m.py ended with SIGFPE", "the running model crashed")


def test_a_model_that_crashes_one_of_several_processes_is_an_error_line(model, monkeypatch):
    def broken(*_arguments, **_options):
        raise BrokenProcessPool("A process in the process pool was terminated abruptly")

    monkeypatch.setattr(extract, "extract_hashed_functions", broken)
    assert_says(called("extract", model), 1, "a model crashed its process", "--jobs")


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", 1),
        ("os.kill(os.getppid(), signal.SIGTERM); time.sleep(60)", -signal.SIGTERM),
        ("os.kill(os.getppid(), signal.SIGHUP); time.sleep(60)", -signal.SIGHUP),
        ("ignore_an_interrupt(); os.kill(os.getppid(), signal.SIGINT); time.sleep(60)", 130),
    ],
    ids=["SIGSEGV", "SIGTERM", "SIGHUP", "second Ctrl-C"],
)
def test_nothing_half_written_is_left_by_a_crash_or_a_signal(tmp_path, ending, code):
    program = f"""
import os, signal, sys, time
from annotated_region.__main__ import program
from annotated_region.command_line import partition
from annotated_region.files import whole_file
def ignore_an_interrupt():
    try:
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(60)
    except KeyboardInterrupt:
        time.sleep(1.5)
def crash(_mod, options):
    with whole_file(options.output) as unfinished:
        unfinished.write_text("half")
        {ending}
partition._write = crash
model = {str(small_model(tmp_path))!r}
sys.argv = ["annotated-region", "partition", model, "--targets", "dnnl", "-o", "x.so"]
sys.exit(program())
"""
    (tmp_path / "out").mkdir()
    finished = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path / "out", stderr=subprocess.PIPE, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert_says(finished, code, *(["small.onnx ended with SIGSEGV"] if code == 1 else []))
    assert list((tmp_path / "out").iterdir()) == []
