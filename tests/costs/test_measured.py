"""MeasuredCost: measures each distinct unit once, resumes, and tells what a target refuses."""

import io
import math
import shutil
import subprocess
import sys

import numpy as np
import pytest
import toy_backend
import tvm
import tvm_ffi
from rich.console import Console
from tvm import relax

import annotated_region as ar
from annotated_region.costs import HOST, CostUnit, measured
from annotated_region.dataflow.walk import read_dataflow
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
        return [float(len(unit.func.body.blocks[0].bindings)) for unit in units]

    monkeypatch.setattr(measured, "time_together", times)
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


def units_of(graph, count):
    return [CostUnit.of(graph, (number,)) for number in range(count)]


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


def test_weights_with_other_content_are_another_unit(timed, tmp_path):
    model = ar.MeasuredCost(tmp_path / "costs", progress=False)
    for value in (1.0, 2.0, 1.0):
        weight = relax.const(np.full((4, 4), value, "float32"))
        graph = graph_of(lambda x, weight=weight: relax.op.add(x, weight))
        model.prepare([(HOST, unit) for unit in units_of(graph, 1)])
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
    monkeypatch.setattr(measured, "Console", screen)
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


PROGRAM = """
import sys
import annotated_region as ar
from annotated_region.costs import HOST, CostUnit
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


def test_regions_are_timed_as_wholes_and_together(timed, tmp_path):
    for target in ("near", "far"):
        claim_ops(target, "relax.nn.relu", "relax.tanh")
    graph = graph_of(relax.op.nn.relu, relax.op.tanh)
    both, first = vars_of(graph)[:2], vars_of(graph)[:1]
    claims = {"near": [both], "far": [first, both]}
    regions = ar.AnnotatedRegionSet.from_claims(graph.func, claims)
    model = ar.MeasuredCost(tmp_path / "costs", progress=False)
    seconds = model.time_regions(graph, list(regions.members.values()))
    assert sorted(seconds) == sorted(float(len(member.nodes)) for member in regions.members.values())
    assert [len(batch) for batch in timed] == [3]


def vars_of(graph):
    return [binding.var for binding in graph.func.body.blocks[0].bindings]
