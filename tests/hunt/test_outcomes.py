"""What becomes of a graph: wrong answers, hangs, errors and forms that are left out are told apart."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import tvm
import tvm_ffi
from hunting_worker import smallest
from kits.dense_graphs.recipe import Node, Recipe
from kits.dense_graphs.relax_graph import module_of
from kits.dense_graphs.values import Roundings
from kits.hunt.checking import Kind, checked
from kits.hunt.engines import Build
from kits.hunt.graphs_kit import ready
from tvm import relax

SUM = Recipe(
    (
        Node("input", (), {"kind": "normal", "key": 0}, (2, 3)),
        Node("constant", (), {"kind": "normal", "key": 1}, (3,)),
        Node("add", (0, 1), {}, (2, 3)),
        Node("nn.relu", (2,), {}, (2, 3)),
    ),
    (2, 3),
)

PRODUCT = Recipe(
    (
        Node("input", (), {"kind": "normal", "key": 0}, (4, 16)),
        Node("constant", (), {"kind": "normal", "key": 1}, (16, 5)),
        Node("matmul", (0, 1), {}, (4, 5)),
    ),
    (2,),
)


@pytest.mark.parametrize(
    ("steps", "operands", "kind"),
    [(127, 2.0**-7, Kind.RIGHT), (127, 2.0**-15, Kind.WRONG), (3, 2.0**-7, Kind.WRONG)],
)
def test_what_a_product_may_round_of_its_operands_is_bounded(steps, operands, kind):
    """Rows in as many steps are what an engine makes of them; the same with fewer is an error."""

    def build(mod, seed):
        right = ready("passes")(mod, seed)["prepared"]
        return {"rounded": lambda inputs: right([in_steps(inputs[0], steps)])}

    assert checked(PRODUCT, Build(build, Roundings(operands))).kind is kind


def in_steps(rows, count):
    """Rows of which the largest element is so many steps."""
    step = np.abs(rows).max(axis=-1, keepdims=True) / count
    return (np.rint(rows / step) * step).astype("float32")


@pytest.mark.parametrize("part", [1e-3, 1e-4, 1e-5])
def test_a_small_error_is_an_error(part):
    """Tolerances follow rounding, which leaves the last digits of a sum in doubt, and no more."""

    def build(mod, seed):
        right = ready("passes")(mod, seed)["prepared"]
        return {"wrong": lambda inputs: [result * (1 + part) for result in right(inputs)]}

    assert checked(SUM, Build(build)).kind is Kind.WRONG


def test_memory_that_nobody_wrote_to_is_an_error():
    def build(_mod, _seed):
        return {"idle": lambda _inputs: [np.full((2, 3), np.nan, "float32")] * 2}

    assert checked(SUM, Build(build)).kind is Kind.WRONG


def test_a_build_that_does_not_end_is_a_hang():
    def build(_mod, _seed):
        while True:
            pass

    assert checked(SUM, Build(build), 0.2).kind is Kind.HANG


def test_a_build_that_does_not_end_in_a_function_that_tvm_calls_is_a_hang():
    """TVM turns what is raised there into an error of its own."""

    @tvm_ffi.register_global_func("hunt.endless", override=True)
    def endless():
        while True:
            pass

    def build(_mod, _seed):
        tvm_ffi.get_global_func("hunt.endless")()

    assert checked(SUM, Build(build), 0.2).kind is Kind.HANG


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_build_that_does_not_end_in_a_function_that_c_calls_is_a_hang():
    """Of what is raised there, Python prints a line."""

    def build(_mod, _seed):
        def endless():
            while True:
                pass

        ctypes.CFUNCTYPE(None)(endless)()
        return {}

    assert checked(SUM, Build(build), 0.2).kind is Kind.HANG


def test_what_numpy_refuses_is_an_error_of_the_reference():
    """Relax cannot tell that three elements are not two, which ended the process while a graph was shrunk."""
    nodes = (
        Node("input", (), {"kind": "normal", "key": 0}, ("n",)),
        Node("reshape", (0,), {"shape": [2]}, (2,)),
    )
    outcome = checked(Recipe(nodes, (1,), ({"n": 3},)), ready("passes"))
    assert outcome.kind is Kind.REFERENCE
    assert "cannot reshape" in outcome.text


def test_a_process_that_shrinks_is_not_silent():
    """Hundreds of tries, each of which may be compiled, take longer than a process may be silent."""

    def build(_mod, _seed):
        raise ValueError("refused")

    beats = []
    small = smallest(SUM, Build(build), Kind.ERROR, lambda: beats.append(None))
    assert len(small.nodes) == 1
    assert beats


def test_what_an_engine_raises_is_an_error():
    def build(_mod, _seed):
        raise ValueError("refused")

    outcome = checked(SUM, Build(build))
    assert outcome.kind is Kind.ERROR
    assert "refused" in outcome.text


NHWC = {
    "strides": [1, 1],
    "padding": [0, 0, 0, 0],
    "dilation": [1, 1],
    "groups": 1,
    "data_layout": "NHWC",
    "kernel_layout": "OHWI",
    "out_layout": "NCHW",
}


def test_a_form_that_is_left_out_is_counted():
    """TVM lowers no attention whose keys are as many as an expression says."""
    nodes = (
        Node("input", (), {"kind": "normal", "key": 0}, (17, "n", 3, 2)),
        Node("input", (), {"kind": "normal", "key": 1}, (17, "(n+1)", 3, 2)),
        Node("input", (), {"kind": "normal", "key": 2}, (17, "(n+1)", 3, 2)),
        Node("input", (), {"kind": "normal", "key": 3}, (17, 1, "n", "(n+1)")),
        Node("nn.attention_bias", (0, 1, 2, 3), {"scale": None, "causal_mask": "TopLeft"}, (17, "n", 3, 2)),
    )
    outcome = checked(Recipe(nodes, (4,), ({"n": 1}, {"n": 3})), ready("passes"))
    assert outcome.kind is Kind.RIGHT
    assert "raised: TVM cannot lower the graph" in outcome.left_out


def test_what_tvm_cannot_compile_either_is_left_out():
    """A convolution that TVM has in no such layout."""
    nodes = (
        Node("input", (), {"kind": "normal", "key": 0}, (1, 1, 1, 1)),
        Node("input", (), {"kind": "normal", "key": 1}, (1, 1, 1, 1)),
        Node("nn.conv2d", (0, 1), NHWC, (1, 1, 1, 1)),
    )
    outcome = checked(Recipe(nodes, (2,)), ready("passes"))
    assert outcome.kind is Kind.RIGHT
    assert "prepared, on TVM: TVM cannot compile the graph" in outcome.left_out


def test_a_form_that_alone_cannot_be_compiled_is_an_error(monkeypatch):
    def refuse(mod, _target):
        if mod is not intact:
            raise tvm.error.InternalError("this form")
        return compile_(mod, _target)

    intact, compile_ = module_of(SUM), tvm.compile
    monkeypatch.setattr(tvm, "compile", refuse)
    monkeypatch.setattr("kits.hunt.checking.module_of", lambda _recipe: intact)
    assert checked(SUM, ready("passes")).kind is Kind.ERROR


def test_what_tvm_refuses_for_another_reason_is_an_error(monkeypatch):
    def refuse(_mod):
        raise AssertionError("not this")

    monkeypatch.setattr(relax.transform, "LegalizeOps", lambda: refuse)
    assert checked(SUM, ready("passes")).kind is Kind.ERROR
