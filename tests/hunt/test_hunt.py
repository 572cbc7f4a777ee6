"""The hunt in small: graphs that were wrong once, a hundred others for each target, and the hunt itself."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import hunt
import numpy as np
import pytest
import tvm
from kits.dense_graphs.bench import Bench
from kits.dense_graphs.comparison import expectations
from kits.dense_graphs.forms import FORMS
from kits.dense_graphs.generation import generated
from kits.dense_graphs.recipe import Node, Recipe
from kits.dense_graphs.reference import OPS
from kits.dense_graphs.relax_graph import InvalidRecipeError, module_of
from kits.dense_graphs.shrinking import shrunk
from kits.dense_graphs.values import UnfitValuesError
from kits.host_machines import host_machine
from kits.hunt.checking import Kind, checked, reseeded
from kits.hunt.engines import TARGETS
from kits.hunt.graphs_kit import PINNED, TIES, failures, ready
from kits.hunt.passes_engine import compiled, raised_again
from mutations import MUTATIONS, broken_copy
from tvm import relax

import annotated_region as ar
from annotated_region.backends.dnnl.rewriting.gates import RecognizeGates
from annotated_region.backends.dnnl.rewriting.int8_channels import RequantizeChannels
from annotated_region.backends.dnnl.rewriting.int8_results import QuantizeParts, ReadInt8Residuals
from annotated_region.backends.dnnl.rewriting.joining import JoinProducts
from annotated_region.backends.dnnl.rewriting.lrn import RebuildLocalResponse
from annotated_region.backends.dnnl.rewriting.rewriter import Rewriter
from annotated_region.targets.rules import rules_of

GRAPHS = {
    "dnnl": 200,
    "onnxruntime": 120,
    "openvino": 40,
    "tensorrt": 80,
    "passes": 120,
    "host": 12,
    "dnnl_float16": 50,
    "dnnl_bfloat16": 50,
    "onnxruntime_float16": 30,
    "openvino_float16": 24,
    "dnnl_packed_int16": 60,
    "dnnl_packed_int8": 60,
    "dnnl_packed_bfloat16": 60,
}


@pytest.mark.parametrize("target", TARGETS)
def test_dense_graphs_compute_what_the_reference_computes(target, tally):
    found, counts, _ = failures(target, range(GRAPHS[target]))
    tally[f"dense graphs on {target}"] += GRAPHS[target]
    assert not found
    assert counts[Kind.RIGHT] > 0.95 * (GRAPHS[target] - counts[Kind.INVALID])
    assert counts[Kind.INVALID] == 0 or target == "dnnl_bfloat16", "Relax refuses some ops of bfloat16"


@pytest.mark.parametrize("pinned", PINNED, ids=lambda pinned: pinned["name"])
def test_a_graph_that_was_wrong_once_is_right(pinned):
    outcome = checked(Recipe.from_json(pinned["recipe"]), ready(pinned["target"]))
    assert outcome.kind is Kind.RIGHT, outcome.text


def fit_recipes(count, start=1000):
    """Recipes whose values are fit, with their modules."""
    for seed in itertools.count(start):
        recipe = generated(seed)
        try:
            mod = module_of(recipe)
            expectations(mod, recipe)
        except (InvalidRecipeError, UnfitValuesError):
            continue
        yield recipe, mod
        count -= 1
        if count == 0:
            return


def test_an_interpreted_region_computes_the_bits_of_a_built_one():
    """What the hunt runs is what users run: the tables read are the tables compiled."""
    ready("dnnl")
    pairs = list(itertools.islice((pair for pair in fit_recipes(40) if is_whole_on_dnnl(pair[1])), 8))
    assert len(pairs) == 8
    names = [f"graph{index}" for index in range(len(pairs))]
    together = tvm.IRModule(
        {
            name: mod["main"].with_attr("global_symbol", name)
            for name, (_, mod) in zip(names, pairs, strict=True)
        }
    )
    machine = relax.VirtualMachine(ar.build(ar.partition(together, ["dnnl"])), tvm.cpu())
    for name, (recipe, mod) in zip(names, pairs, strict=True):
        for expected in expectations(mod, recipe):
            interpreted = ready("dnnl")(mod, 0)["dnnl"](expected.inputs)
            built = machine[name](*map(tvm.runtime.tensor, expected.inputs))
            built = [built] if hasattr(built, "numpy") else list(built)
            for left, right in zip(interpreted, built, strict=True):
                np.testing.assert_array_equal(left, right.numpy())


def is_whole_on_dnnl(mod):
    """Whether nothing is left to the host, where TVM and the reference round differently."""
    main = ar.partition(mod, ["dnnl"])["main"]
    calls = [
        b.value.op for block in main.body.blocks for b in block.bindings if isinstance(b.value, relax.Call)
    ]
    return not any(isinstance(op, tvm.ir.Op) and op.name != "relax.call_dps_packed" for op in calls)


def test_the_reference_computes_what_tvm_computes():
    """Of the graphs that TVM can lower."""
    pairs = [pair for pair in fit_recipes(28, 5000) if raised_again(pair[1]) is not None]
    assert len(pairs) >= 25
    names = [f"graph{index}" for index in range(len(pairs))]
    together = tvm.IRModule(
        {
            name: mod["main"].with_attr("global_symbol", name)
            for name, (_, mod) in zip(names, pairs, strict=True)
        }
    )
    machine = host_machine(together)
    for name, (recipe, mod) in zip(names, pairs, strict=True):
        for expected in expectations(mod, recipe):
            answer = machine[name](*map(tvm.runtime.tensor, expected.inputs))
            answers = [answer] if hasattr(answer, "numpy") else list(answer)
            assert expected.difference([each.numpy() for each in answers]) is None, recipe


@pytest.mark.parametrize("groups", [1, 2])
def test_a_norm_over_some_axes_is_what_tvm_computes(groups):
    """Layout passes name the axes in another order: the batch then stands behind the channels."""
    nodes = (
        Node("input", (), {"kind": "normal", "key": 0}, (2, 4, 3, 1)),
        Node("constant", (), {"kind": "positive", "key": 1}, (4,)),
        Node("constant", (), {"kind": "normal", "key": 2}, (4,)),
        Node(
            "nn.group_norm",
            (0, 1, 2),
            {"num_groups": groups, "channel_axis": 1, "axes": [0, 3], "epsilon": 0.01},
            (2, 4, 3, 1),
        ),
    )
    recipe = Recipe(nodes, (3,))
    mod = module_of(recipe)
    (expected,) = expectations(mod, recipe)
    assert expected.difference(compiled(mod)(expected.inputs)) is None


def test_all_that_dnnl_claims_is_tried_and_known_to_the_reference():
    tried = {f"relax.{node.op}" for seed in range(2500) for node in generated(seed).nodes}
    claimed = rules_of("dnnl")
    assert set(claimed) - tried == set()
    assert [name for name in claimed if name.removeprefix("relax.") not in OPS] == []


def test_the_same_seed_gives_the_same_graph():
    assert generated(7) == generated(7)
    assert generated(7) != generated(8)


@pytest.mark.parametrize("seed", range(20))
def test_a_recipe_comes_back_from_json(seed):
    recipe = generated(seed)
    again = Recipe.from_json(recipe.to_json())
    assert str(again) == str(recipe)
    assert again.calls == recipe.calls


def test_shrinking_leaves_what_fails():
    """Of a large graph, an engine that cannot do `tanh` leaves `tanh`, of one element."""
    large = next(
        r for r in map(generated, range(1000)) if "tanh" in {n.op for n in r.nodes} and r.op_count > 4
    )

    def fails(recipe):
        try:
            module_of(recipe)
        except InvalidRecipeError:
            return False
        return any(node.op == "tanh" for node in recipe.nodes)

    small = shrunk(large, fails)
    assert [node.op for node in small.nodes] == ["input", "tanh"]
    assert set(small.nodes[1].shape) <= {1}


DYING = """
import faulthandler, json, os, signal, sys
faulthandler.enable()
faulthandler.register(signal.SIGUSR1)
first, count = int(sys.argv[2]), int(sys.argv[3])
for seed in range(first, first + count):
    print(json.dumps({"seed": seed}), flush=True)
    if seed == 3:
        os.abort()
    print(json.dumps({"became": "right"}), flush=True)
"""


def test_a_graph_that_ends_the_process_is_named_and_the_others_go_on(tmp_path, monkeypatch):
    worker = tmp_path / "worker.py"
    worker.write_text(DYING)
    monkeypatch.setattr(hunt, "WORKER", worker)
    chunk = hunt.run_chunk("dnnl", 0, 10)
    assert [(f["failed"], f["kind"]) for f in chunk.failures] == [(3, "crash")]
    assert "exit status -6" in chunk.failures[0]["text"]
    assert "Fatal Python error: Aborted" in chunk.failures[0]["text"]
    assert Counter(chunk.counts) == Counter({"right": 9, "crash": 1})


def test_a_silent_process_is_a_hang(tmp_path, monkeypatch):
    worker = tmp_path / "worker.py"
    worker.write_text(DYING.replace("os.abort()", "__import__('time').sleep(1000)"))
    monkeypatch.setattr(hunt, "WORKER", worker)
    monkeypatch.setattr(hunt, "SILENCE", 3)
    chunk = hunt.run_chunk("dnnl", 2, 3)
    assert [(f["failed"], f["kind"]) for f in chunk.failures] == [(3, "hang")]
    assert f'File "{worker}", line 9' in chunk.failures[0]["text"], "the stack of the sleeper"


def test_a_process_that_is_stopped_is_not_silent():
    with subprocess.Popen(["sleep", "1000"]) as process:
        assert not hunt._is_stopped(process.pid)
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        assert hunt._is_stopped(process.pid)
        process.kill()


def test_a_hunt_needs_nothing_that_its_process_has_not_loaded():
    """The interpreter of dnnl's tables finds oneDNN by itself; here the suite has loaded it long ago."""
    assert Counter(hunt.run_chunk("dnnl", 0, 2).counts) == Counter({"right": 2})


def test_a_hunt_goes_on_where_it_was_interrupted(tmp_path, monkeypatch):
    worker, state = tmp_path / "worker.py", tmp_path / "state"
    worker.write_text(DYING.replace("os.abort()", "pass"))
    monkeypatch.setattr(hunt, "WORKER", worker)
    monkeypatch.setattr(hunt, "CHUNK", 500)
    first = hunt.summary(hunt.hunted("dnnl", 0, 600, 2, state))
    monkeypatch.setattr(hunt, "run_chunk", None)
    assert hunt.summary(hunt.hunted("dnnl", 0, 600, 2, state)) == first
    assert first["graphs"] == 600


def test_each_pass_over_graphs_of_dnnl_has_a_form_that_it_changes(monkeypatch):
    """Of those that chance seldom serves."""
    steps: Counter[str] = Counter()
    run = Rewriter.run

    def counted(rewriter, rewrite):
        steps[type(rewrite).__name__] += (found := run(rewriter, rewrite))
        return found

    monkeypatch.setattr(Rewriter, "run", counted)
    for (_, idiom), seed in itertools.product(FORMS, range(12)):
        bench = Bench(np.random.default_rng(seed))
        bench.source(bench.shape(4), constant=0.0)
        result = idiom(bench)
        if result is not None:
            ready("dnnl")(module_of(bench.recipe([result], [{}], seed)), 0)
    wanted = (RecognizeGates, RequantizeChannels, QuantizeParts, ReadInt8Residuals, JoinProducts)
    assert all(steps[each.__name__] for each in (*wanted, RebuildLocalResponse)), steps


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_finds_its_line(mutation, tmp_path):
    """The table of breakages fits the backend as it is; that they are found takes `mutations.py` minutes."""
    assert broken_copy(mutation, Path(tmp_path))


@pytest.mark.parametrize("recipe", TIES, ids=lambda recipe: str(recipe.seed))
def test_a_tie_of_float32_is_no_error(recipe):
    _, outcome = reseeded(recipe, ready("dnnl"))
    assert not outcome.kind.is_failure, outcome.text


def quantized(value, scale):
    """A number that is quantized."""
    attrs = {"scale": scale, "zero": 0, "zero_dtype": "int8", "axis": 0, "out_dtype": "int8"}
    nodes = (
        Node("input", (), {"value": value, "key": 0}, (1,)),
        Node("quantize", (0,), attrs, (1,), "int8"),
    )
    return Recipe(nodes, (1,))


@pytest.mark.parametrize(
    ("value", "scale", "whole"),
    [(0.75, 0.1, 8), (0.25, 0.1, 2), (0.09375, 0.0625, 2), (0.15625, 0.0625, 2), (0.7, 0.1, 7)],
)
def test_a_quotient_in_float32_is_what_is_quantized(value, scale, whole):
    """Ties of float32 go to the even neighbour, whether the true quotient is a tie or not."""
    recipe = quantized(value, scale)
    (expected,) = expectations(module_of(recipe), recipe)
    assert expected.values[0][0].clean == [whole]


def test_a_quotient_of_rounded_numbers_on_an_edge_is_refused():
    """Three times a third of 0.35 is rounded twice: that 3.5 scales of it are a tie says nothing."""
    recipe = quantized(0.35, 0.1)
    three = Node("constant", (), {"value": 3.0, "key": 1}, (1,))
    third, again = Node("divide", (0, 1), {}, (1,)), Node("multiply", (2, 1), {}, (1,))
    nodes = (recipe.nodes[0], three, third, again, replace(recipe.nodes[1], operands=(3,)))
    inexact = replace(recipe, nodes=nodes, results=(4,))
    with pytest.raises(UnfitValuesError):
        expectations(module_of(inexact), inexact, draws=8)


def test_a_product_whose_parts_leave_the_range_is_refused():
    """Zero times what overflows is NaN in one order of the factors, and zero in another."""
    large = Node("input", (), {"value": 1e30, "key": 0}, (2,))
    zero = Node("input", (), {"value": 0.0, "key": 1}, (1,))
    joined = Node("concat", (0, 1), {"axis": 0}, (3,))
    recipe = Recipe((large, zero, joined, Node("prod", (2,), {"axis": [0], "keepdims": False}, ())), (3,))
    with pytest.raises(UnfitValuesError):
        expectations(module_of(recipe), recipe)


def test_values_on_an_edge_are_refused_unless_they_are_exact():
    """A rounded quotient that is compared with what it was made of says nothing; whole numbers do."""
    nodes = (
        Node("input", (), {"kind": "normal", "key": 0}, (4,)),
        Node("constant", (), {"value": 3.0, "key": 1}, ()),
        Node("multiply", (0, 1), {}, (4,)),
        Node("divide", (2, 1), {}, (4,)),
        Node("equal", (3, 0), {}, (4,), "bool"),
    )
    inexact = Recipe(nodes, (4,))
    with pytest.raises(UnfitValuesError):
        expectations(module_of(inexact), inexact, draws=8)
    exact = replace(inexact, nodes=(replace(nodes[0], attrs={"kind": "whole", "key": 0}), *nodes[1:]))
    (expected,) = expectations(module_of(exact), exact)
    assert expected.values[0][0].clean.all()
