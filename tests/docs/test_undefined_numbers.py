"""The table of `how-to-wrong.md` that says who keeps NaN, beside what ONNX Runtime, TVM and dnnl compute."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import needs_onednn
from kits.onnx_nodes import Node, by_onnx_runtime, model_of_nodes
from tvm import relax

import annotated_region as ar

PAGE = Path(__file__).parents[2] / "docs" / "how-to-wrong.md"
NAN = np.nan
X = np.array([[NAN, 1, 2, 3], [1, NAN, -2, 3], [-1, -2, 3, NAN], [NAN, NAN, NAN, NAN]], "float32")
PLANES = X.reshape(4, 1, 1, 4)
CONSTANTS = {"one": np.array(1, "float32"), "low": np.array(-1, "float32"), "axes": np.array([1])}
OPERANDS = {
    "Max(1, x)": "one x", "Max(x, 1)": "x one", "Min(1, x)": "one x", "Min(x, 1)": "x one", "Add": "x one",
    "Mul": "x one", "PRelu": "x low", "Clip": "x low one", "ReduceSum": "x axes", "ReduceMax": "x axes",
    "ReduceMin": "x axes", "AveragePool": "planes", "MaxPool": "planes",
}  # fmt: skip
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "AveragePool": {"kernel_shape": [1, 4]},
    "MaxPool": {"kernel_shape": [1, 4]},
}
ENGINES = ("ONNX Runtime", "TVM", "dnnl")


def said() -> dict[str, tuple[str, ...]]:
    """For each operator of the table what it says about each engine."""
    rows = re.findall(r"^\| (`[A-Z].*`) \| (.*) \| (.*) \| (.*) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    return {name: tuple(row[1:]) for row in rows for name in re.findall("`(.*?)`", row[0])}


@pytest.fixture(scope="module")
def answers() -> dict[str, list[np.ndarray]]:
    """What each engine computes of rows in which NaN stands first, in the middle, last, and alone."""
    names = list(said())
    nodes = [
        Node(name.partition("(")[0], OPERANDS.get(name, "x"), f"y{place}", **ATTRIBUTES.get(name, {}))
        for place, name in enumerate(names)
    ]
    inputs = {"x": X, "planes": PLANES}
    outputs = " ".join(f"y{place}" for place in range(len(names)))
    model = model_of_nodes(nodes, inputs, CONSTANTS, outputs, opset=20)
    module = ar.from_onnx(model)
    return {
        "ONNX Runtime": by_onnx_runtime(model, inputs),
        "TVM": built(module, inputs),
        "dnnl": built(ar.partition(module, ["dnnl"]), inputs),
    }


def built(module: tvm.IRModule, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    machine = relax.VirtualMachine(ar.build(module), tvm.cpu())
    return [each.numpy() for each in machine["main"](*map(tvm.runtime.tensor, inputs.values()))]


@needs_onednn
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", said())
def test_nan_is_kept_or_lost_as_the_table_says(name, engine, answers):
    found = np.isnan(answers[engine][list(said()).index(name)])
    kept = found[np.isnan(X)] if found.size == X.size else found
    word = "keeps" if kept.all() else "in part" if kept.any() else "loses"
    assert word == said()[name][ENGINES.index(engine)]


def test_the_table_has_all_operators_that_order_numbers():
    assert {"Relu", "Max(x, 1)", "Clip", "ReduceMax", "MaxPool"} < set(said())
