"""MeasuredCost: measures each distinct unit once, resumes, and reports units that a target rejects."""

import io
import math
import shutil
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from kits import toy_backend
from rich.console import Console
from tvm import relax
from tvm.relax.dpl import is_op, wildcard

import annotated_region as ar
from annotated_region.cost_units import CostUnit
from annotated_region.costs import HOST
from annotated_region.dataflow.walk import read_dataflow
from annotated_region.ids import NodeId
from annotated_region.measuring import identity, measured, timing
from annotated_region.measuring.timing import Time
from annotated_region.testing.registry import claim_ops, temporary_registrations


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        yield


@pytest.fixture
def timed(monkeypatch):
    """What was handed over to be timed; a unit takes as many seconds as its function has bindings."""
    batches = []

    def times(units, _rounds):
        batches.append([unit.target for unit in units])
        return [Time(float(len(unit.func.body.blocks[0].bindings)), 0.0) for unit in units]

    monkeypatch.setattr(measured, "time_together", times)
    monkeypatch.setattr(measured, "time_call", lambda _count, _rounds: Time(0.0, 0.0))
    return batches


def graph_of(*ops, shape=(4, 4)):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for op in ops:
                value = builder.emit(op(value))
            out = builder.emit_output(value)
        builder.emit_func_output(out)
    return read_dataflow(builder.get()["main"])


def two_inputs(op):
    builder = relax.BlockBuilder()
    x, y = (relax.Var(name, relax.TensorType((4, 4), "float32")) for name in "xy")
    with builder.function("main", [x, y]):
        with builder.dataflow():
            out = builder.emit_output(builder.emit(op(x, y)))
        builder.emit_func_output(out)
    return read_dataflow(builder.get()["main"])


def units_of(graph, count):
    return [CostUnit.of(graph, (NodeId(number),)) for number in range(count)]


def test_a_unit_is_measured_once_for_each_target_and_shape(timed, tmp_path):
    model = ar.MeasuredCost(tmp_path / "costs", progress=False)
    graph = graph_of(relax.op.nn.relu, relax.op.tanh, relax.op.nn.relu)
    questions = [(HOST, unit) for unit in units_of(graph, 3)]
    model.prepare(questions)
    assert timed == [[HOST, HOST]]
    model.prepare(questions)
    assert [model.compute(HOST, unit) for unit in units_of(graph, 3)] == [1.0, 1.0, 1.0]
    assert len(timed) == 1
    model.prepare([(HOST, unit) for unit in units_of(graph_of(relax.op.nn.relu, shape=(4, 5)), 1)])
    assert timed[1:] == [[HOST]]


@pytest.mark.usefixtures("timed")
def test_a_host_op_is_priced_without_the_call_from_python(tmp_path, monkeypatch):
    """A call with `n` arguments takes `n` quarters of a second, a unit one second, whatever it takes."""
    monkeypatch.setattr(measured, "time_call", lambda count, _rounds: Time(count / 4, 0.0))
    model = ar.MeasuredCost(tmp_path / "costs", progress=False)
    (unary,) = units_of(graph_of(relax.op.nn.relu), 1)
    (binary,) = units_of(two_inputs(relax.op.add), 1)
    assert [model.compute(HOST, unit) for unit in (unary, binary)] == [0.75, 0.5]
    monkeypatch.setattr(measured, "time_call", lambda _count, _rounds: Time(2.0, 0.0))
    slow = ar.MeasuredCost(tmp_path / "others", progress=False)
    assert slow.compute(HOST, unary) == 0.05


@pytest.mark.usefixtures("timed")
def test_a_launch_is_priced_without_the_call_from_python_and_a_call_is_not_charged_twice(
    tmp_path, monkeypatch
):
    """So a region of one op costs what it takes alone, less the call."""
    ar.register_backend("toy", build_options=toy_backend.build_options)
    monkeypatch.setattr(measured, "time_call", lambda count, _rounds: Time(count / 8, 0.0))
    monkeypatch.setattr(measured, "time_copy", lambda _size: Time(1 / 64, 0.0))
    model = ar.MeasuredCost(tmp_path / "costs", progress=False)
    assert model.launch("toy") == 1.875  # the smallest region has two bindings
    (unit,) = units_of(graph_of(*[relax.op.nn.relu] * 4), 1)
    monkeypatch.setattr(measured, "time_together", lambda units, _rounds: [Time(4.0, 0.0) for _ in units])
    crossing = 2 * model.transfer(64, HOST, "toy")
    assert math.isclose(model.compute("toy", unit) + model.launch("toy") + crossing, 4.0 - 0.125)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_call_from_python_takes_time(count):
    assert timing.time_call(count, 1).seconds > 0


def test_weights_with_other_content_are_another_unit(timed, tmp_path):
    model = ar.MeasuredCost(tmp_path / "costs", progress=False)
    for value in (1.0, 2.0, 1.0):
        weight = relax.const(np.full((4, 4), value, "float32"))
        graph = graph_of(lambda x, weight=weight: relax.op.add(x, weight))
        model.prepare([(HOST, unit) for unit in units_of(graph, 1)])
    assert timed == [[HOST], [HOST]]


def test_another_version_of_the_package_measures_again(timed, tmp_path, monkeypatch):
    """Its code, or what it has TVM compile, may be faster."""
    unit = units_of(graph_of(relax.op.nn.relu), 1)[0]
    for version in ("1", "2", "2"):
        monkeypatch.setattr(identity, "__version__", version)
        ar.MeasuredCost(tmp_path / "costs", progress=False).prepare([(HOST, unit)])
    assert timed == [[HOST], [HOST]]


def test_an_interrupted_measurement_resumes_where_it_was(timed, tmp_path, monkeypatch):
    monkeypatch.setattr(measured, "_BATCH", 2)
    ops = [relax.op.nn.relu, relax.op.tanh, relax.op.exp, relax.op.abs, relax.op.negative]
    questions = [(HOST, unit) for unit in units_of(graph_of(*ops), 5)]
    real = measured.time_together

    def interrupted(units, rounds):
        if len(timed) == 2:
            raise KeyboardInterrupt
        return real(units, rounds)

    monkeypatch.setattr(measured, "time_together", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ar.MeasuredCost(tmp_path / "costs", progress=False).prepare(questions)
    assert [len(batch) for batch in timed] == [2, 2]
    monkeypatch.setattr(measured, "time_together", real)
    ar.MeasuredCost(tmp_path / "costs", progress=False).prepare(questions)
    assert [len(batch) for batch in timed] == [2, 2, 1]


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_shown_on_a_terminal_while_there_is_something_to_do(
    timed, tmp_path, monkeypatch, terminal
):
    def screen(stderr):
        assert stderr
        return Console(file=shown, force_terminal=terminal, width=80)

    shown = io.StringIO()
    monkeypatch.setattr("rich.console.Console", screen)
    questions = [(HOST, unit) for unit in units_of(graph_of(relax.op.nn.relu), 1)]
    model = ar.MeasuredCost(tmp_path / "costs")
    model.prepare(questions)
    assert ("measuring units" in shown.getvalue()) is terminal
    before = shown.getvalue()
    model.prepare(questions)
    assert shown.getvalue() == before


@pytest.fixture
def picky():
    """A target that claims two ops, and whose code generator refuses one of them."""
    ar.register_backend("picky", build_options=toy_backend.build_options)
    claim_ops("picky", "relax.nn.relu", "relax.tanh")

    def generate(functions, options, names):
        for func in functions:
            if "relax.tanh" in str(func) or "R.tanh" in func.script():
                raise ar.RegionRejectedError("no tanh here", str(func.attrs["global_symbol"]))
        return toy_backend.generate(functions, options, names)

    tvm.register_global_func("relax.ext.picky", generate, override=True)
    yield "picky"
    tvm_ffi.registry.remove_global_func("relax.ext.picky")


needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")


@needs_compiler
def test_what_a_target_refuses_is_infinitely_dear_and_the_rest_of_its_batch_is_measured(picky, tmp_path):
    model = ar.MeasuredCost(tmp_path / "costs", rounds=1, progress=False)
    relu, tanh = units_of(graph_of(relax.op.nn.relu, relax.op.tanh), 2)
    model.prepare([(picky, relu), (picky, tanh)])
    assert model.compute(picky, tanh) == math.inf
    assert model.compute(picky, relu) < 1.0
    mod = tvm.IRModule({"main": graph_of(relax.op.nn.relu, relax.op.tanh).func})
    placed = ar.explain(mod, [picky], ar.LeastCost(model), prepare=False).to_dict()["functions"][0]["ops"]
    assert "picky" not in [op["placed"] for op in placed if op["op"] == "relax.tanh"]


@pytest.fixture
def composing():
    """A target that takes composites alone, whose code generator knows no single op."""
    ar.register_backend("composing", build_options=toy_backend.build_options)
    pair = is_op("relax.negative")(is_op("relax.nn.relu")(wildcard()))
    ar.register_pattern("composing", "composing.pair", pair)

    def generate(functions, options, names):
        if any("Composite" not in func.script() for func in functions):
            raise ar.CodegenError("no composite")
        return toy_backend.generate(functions, options, names)

    tvm.register_global_func("relax.ext.composing", generate, override=True)
    yield "composing"
    tvm_ffi.registry.remove_global_func("relax.ext.composing")


@needs_compiler
def test_a_target_that_takes_composites_alone_has_a_launch_and_can_win(composing, tmp_path):
    model = ar.MeasuredCost(tmp_path / "costs", rounds=1, progress=False)
    graph = graph_of(relax.op.nn.relu, relax.op.negative)
    mod = tvm.IRModule({"main": graph.func})
    ar.partition(mod, [composing], ar.LeastCost(model), prepare=False)
    pair = CostUnit.of(graph, (NodeId(0), NodeId(1)), "composing.pair")
    assert 0 < model.launch(composing) < 1.0
    assert 0 < model.compute(composing, pair) < 1.0
    # It belongs to the units that were measured, so it is not kept for others.
    with pytest.raises(ar.CodegenError, match="no composite"):
        ar.MeasuredCost(tmp_path / "costs", rounds=1, progress=False).launch(composing)


@needs_compiler
def test_a_target_that_refuses_all_has_no_launch(picky, tmp_path):
    def refuse(functions, _options, _names):
        raise ar.RegionRejectedError("never", str(functions[0].attrs["global_symbol"]))

    tvm.register_global_func("relax.ext.picky", refuse, override=True)
    mod = tvm.IRModule({"main": graph_of(relax.op.nn.relu, relax.op.tanh).func})
    model = ar.LeastCost(ar.MeasuredCost(tmp_path / "costs", rounds=1, progress=False))
    placed = ar.explain(mod, [picky], model, prepare=False).to_dict()["functions"][0]["ops"]
    assert {op["placed"] for op in placed} == {"host"}


PROGRAM = """
import sys
from typing import Any
import annotated_region as ar
from annotated_region.costs import HOST
from annotated_region.cost_units import CostUnit
from annotated_region.measuring import timing
from annotated_region.dataflow.walk import read_dataflow
from tvm import relax
builder = relax.BlockBuilder()
x = relax.Var("x", relax.TensorType((4, 4), "float32"))
with builder.function("main", [x]):
    with builder.dataflow():
        value = x
        for op in (relax.op.nn.relu, relax.op.tanh, relax.op.exp):
            value = builder.emit(op(value))
        out = builder.emit_output(value)
    builder.emit_func_output(out)
timing.WIDEST_SPREAD = 9e9  # on a busy machine, too, all is kept
graph = read_dataflow(builder.get()["main"])
model = ar.MeasuredCost(sys.argv[1], rounds=1, progress=False)
units = [CostUnit.of(graph, (number,)) for number in range(3)]
model.prepare([(HOST, unit) for unit in units])
print([model.compute(HOST, unit) for unit in units])
"""


def test_processes_that_measure_at_once_agree_afterwards(tmp_path):
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "costs")]
    at_once = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [process.wait() for process in at_once] == [0, 0]
    later = [
        subprocess.run(command, check=True, capture_output=True, text=True, env={"PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    ]
    assert later[0].stdout == later[1].stdout
    assert all(seconds > 0 for seconds in map(float, later[0].stdout.strip("[]\n").split(",")))


# -- what is not kept --------------------------------------------------------------------------------


class BrokenCompiler:
    """A compiler that works when `works` says so of the text that it is given."""

    def __init__(self, folder):
        self.path = folder / "compiler"
        self.repair()

    def breaks_on(self, word):
        self.path.write_text(f'#!/bin/sh\ngrep -qs -e "{word}" -- "$@" && exit 1\nexec g++ "$@"\n')
        self.path.chmod(0o755)

    def repair(self):
        self.breaks_on("no text holds this")

    def fail(self):
        self.path.write_text("#!/bin/sh\nexit 1\n")


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    made = BrokenCompiler(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tvm.support.cc, "get_cc", lambda: str(made.path))
    return made


@pytest.fixture
def toy():
    toy_backend.register()
    return "toy"


@needs_compiler
def test_a_compiler_that_fails_is_an_error_and_poisons_nothing(toy, compiler, tmp_path):
    unit, *_ = units_of(graph_of(relax.op.nn.relu), 1)
    compiler.fail()
    broken = ar.MeasuredCost(tmp_path / "costs", rounds=1, progress=False)
    for ask in (lambda: broken.prepare([(toy, unit)]), lambda: broken.launch(toy)):
        with pytest.raises(ar.BuildError, match="could not build the external functions"):
            ask()
    compiler.repair()
    for model in (broken, ar.MeasuredCost(tmp_path / "costs", rounds=1, progress=False)):
        assert model.compute(toy, unit) < 1.0
        assert model.launch(toy) < 1.0


@needs_compiler
def test_a_unit_that_the_compiler_refuses_is_told_and_asked_again_by_the_next(toy, compiler, tmp_path):
    bad, good = units_of(graph_of(lambda x: relax.op.maximum(x, x), relax.op.nn.relu), 2)
    compiler.breaks_on("std::max(a, b)")
    model = ar.MeasuredCost(tmp_path / "costs", rounds=1, progress=False)
    with pytest.warns(
        ar.MeasurementWarning, match="a unit of target 'toy' could not be measured.*treated as rejected"
    ):
        model.prepare([(toy, bad), (toy, good)])
    assert model.compute(toy, bad) == math.inf
    assert model.compute(toy, good) < 1.0
    compiler.repair()
    assert ar.MeasuredCost(tmp_path / "costs", rounds=1, progress=False).compute(toy, bad) < 1.0


def test_the_least_counts_and_its_spread_is_that_of_the_lower_quartile():
    assert Time.of([3.0, 1.0, 9.0, 1.25, 7.0]) == Time(1.0, 0.25)
    assert Time.of([2.0]) == Time(2.0, 0.0)
    assert Time.of([1.0, 1.1, *[5.0] * 6]) == Time(1.0, 4.0)
    assert not Time.of([1.0, 1.3]).is_steady


@pytest.fixture
def samples(monkeypatch):
    """What the clock will say, run by run."""
    told = {"calm": [], "busy": []}
    monkeypatch.setattr(timing, "sample", lambda run: told[run].pop(0))
    return told


def test_what_is_unsteady_is_measured_in_more_rounds_until_it_is_steady(samples):
    samples["calm"] = [1.0, 1.1, 1.0]
    samples["busy"] = [4.0, 9.0, 6.0, 2.0, 7.0, 2.1]
    runs: list[Any] = ["calm", "busy"]
    calm, busy = timing._times(runs, 3)
    assert calm == Time(1.0, 0.0)
    assert busy.seconds == 2.0
    assert busy.spread == pytest.approx(0.05)
    assert samples == {"calm": [], "busy": []}


def test_what_stays_unsteady_is_used_told_and_not_kept(timed, tmp_path, monkeypatch):
    monkeypatch.setattr(measured, "time_together", lambda units, _rounds: [Time(1.0, 9.0) for _ in units])
    (unit,) = units_of(graph_of(relax.op.nn.relu), 1)
    model = ar.MeasuredCost(tmp_path / "costs", progress=False)
    with pytest.warns(
        ar.MeasurementWarning, match="times of 1 of 1 units differ by more than 25% from run to run"
    ):
        assert model.compute(HOST, unit) == 1.0
    assert model.compute(HOST, unit) == 1.0
    monkeypatch.setattr(measured, "time_together", lambda units, _rounds: [Time(2.0, 0.0) for _ in units])
    assert ar.MeasuredCost(tmp_path / "costs", progress=False).compute(HOST, unit) == 2.0


def test_a_database_that_cannot_be_written_costs_the_next_process_time_alone(timed, tmp_path, monkeypatch):
    model = ar.MeasuredCost(tmp_path / "costs", progress=False)
    (unit,) = units_of(graph_of(relax.op.nn.relu), 1)

    def read_only(_measured):
        raise ar.ModelError("the cost database cannot be used now: attempt to write a readonly database")

    monkeypatch.setattr(model.store, "put", read_only)
    with pytest.warns(ar.MeasurementWarning, match="times of 1 units are used but not stored: .*readonly"):
        assert model.compute(HOST, unit) == 1.0


def vars_of(graph):
    return [binding.var for binding in graph.func.body.blocks[0].bindings]


def _equal_counts():
    """Which places have passed as many positive elements: TVM cannot compile the counts alone."""
    x = relax.Var("x", relax.TensorType((2, 8), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            positive = builder.emit(relax.op.greater(relax.op.nn.relu(x), relax.const(0.0, "float32")))
            count = builder.emit(relax.op.cumsum(positive, axis=1))
            same = relax.op.equal(relax.op.expand_dims(count, 2), relax.op.expand_dims(count, 1))
            result = builder.emit_output(same)
        builder.emit_func_output(result)
    return builder.get()


def test_what_the_host_runs_is_measured_as_it_is_built(tmp_path):
    """`build` repairs counts of truth values together with what reads them; alone they have no time."""
    mod = _equal_counts()
    model = ar.MeasuredCost(tmp_path / "costs", rounds=1, progress=False)
    graph = read_dataflow(mod["main"])
    counts = next(number for number, node in enumerate(graph.nodes) if "cumsum" in str(node.value))
    unit = CostUnit.of(graph, (NodeId(counts),))
    assert model.compute(HOST, unit) == ar.RooflineCost().compute(HOST, unit)
    whole = model.first_of_fastest(graph, [[], []])
    assert all(0 < seconds < 1 for seconds in whole.seconds)
    placed = ar.partition(mod, ["onnxruntime"], ar.LeastCost(model), prepare=False)
    x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(8, 2).T.copy()
    found = relax.VirtualMachine(ar.build(placed), tvm.cpu())["main"](tvm.runtime.tensor(x))
    wanted = (x > 0).cumsum(axis=1)
    np.testing.assert_array_equal(found.numpy(), wanted[:, :, None] == wanted[:, None, :])
