"""Recurrent layers over sequences of any length, beside ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import tvm
import tvm.script
import tvm_ffi
from kits.backends.dnnl.dnnl_harness import needs_onednn
from kits.importing.recurrent_layers import (
    BATCH,
    GATES,
    HIDDEN,
    SIZE,
    WITH_NUMBERS,
    layer,
    of_any_length,
    sequences,
)
from kits.onnx_nodes import Node, by_onnx_runtime, model_of_nodes
from tvm import relax

import annotated_region as ar
from annotated_region.compilation.code_generation import external_functions
from annotated_region.errors import OpInfoError
from annotated_region.passes.raise_to_ops import RaiseToOps
from annotated_region.recurrent_loops.op import LOOP
from annotated_region.targets.op_view import OpView
from annotated_region.targets.rules import rules_of

pytestmark = needs_onednn

CLOSE = 3e-6
LARGE = 200
"""A hidden size whose weight is shared among threads by columns; the last tile of each gate is not full."""


def large_layer(
    op: str, direction: str = "forward", given: str = "", **attributes: object
) -> onnx.ModelProto:
    """A layer of `LARGE` columns; `given` are the letters of the inputs beside the weights."""
    random, count = np.random.default_rng(2), 2 if direction == "bidirectional" else 1
    columns = GATES[op] * LARGE

    def numbers(*shape: int) -> np.ndarray:
        return np.asarray(random.standard_normal((count, *shape)) / np.sqrt(LARGE), "float32")

    weights = {"W": numbers(columns, SIZE), "R": numbers(columns, LARGE)}
    if "B" in given:
        weights["B"] = numbers(2 * columns)
    if "P" in given:
        weights["P"] = numbers(3 * LARGE)
    names = [letter if letter in weights else "-" for letter in ("WRBLHCP" if "P" in given else "WRB")]
    outputs = "y h c" if op == "LSTM" else "y h"
    node = Node(
        op, " ".join(["x", *names]), outputs, "", direction=direction, hidden_size=LARGE, **attributes
    )
    return of_any_length(model_of_nodes([node], {"x": sequences((3, 2))[0]}, weights, outputs))


def machine_of(model: onnx.ModelProto) -> relax.VirtualMachine:
    """What runs a model that is one region, with nothing on the host."""
    mod = ar.partition(ar.from_onnx(model), ["dnnl"])
    assert {target: len(found) for target, found in external_functions(mod).items()} == {"dnnl": 1}
    assert not [name for name, func in mod.functions_items() if isinstance(func, tvm.tirx.PrimFunc)]
    return relax.VirtualMachine(ar.build(mod), tvm.cpu())


def require_agreement(model: onnx.ModelProto, data: list[np.ndarray]) -> None:
    machine = machine_of(model)
    for x in data:
        expected = by_onnx_runtime(model, {"x": x})
        for found, wanted in zip(machine["main"](tvm.runtime.tensor(x)), expected, strict=True):
            difference = np.abs(found.numpy() - wanted).max()
            assert difference <= CLOSE * max(1.0, np.abs(wanted).max())


@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
@pytest.mark.parametrize("op", GATES)
def test_cells_are_computed_for_any_length_and_batch(op, direction):
    model, _ = layer(op, direction)
    require_agreement(of_any_length(model), sequences((1, 1), (2, 2), (7, 3), (5, 4), (3, 9)))


@pytest.mark.parametrize(
    ("op", "given", "attributes"),
    [
        ("LSTM", "WRBLHCP", {}),
        ("GRU", "WRBLH", {"linear_before_reset": 1}),
        ("GRU", "WRBLH", {}),
        ("RNN", "WRBLH", {"activations": ["Relu"] * 2}),
    ],
)
def test_sequences_end_by_themselves_and_begin_with_states(op, given, attributes):
    model, _ = layer(op, "bidirectional", given, **attributes)
    (lengths,) = (each for each in model.graph.initializer if each.name == "L")
    lengths.raw_data = np.asarray([3, 1, 5], "int32").tobytes()
    require_agreement(of_any_length(model, batch=False), sequences((5, BATCH), (8, BATCH)))


@pytest.mark.sweep
@pytest.mark.parametrize(("op", "given", "attributes"), WITH_NUMBERS)
def test_activations_have_numbers_and_clips(op, given, attributes):
    model, _ = layer(op, "bidirectional", given.replace("L", ""), **attributes)
    require_agreement(of_any_length(model, batch=False), sequences((1, BATCH), (6, BATCH)))


@pytest.mark.parametrize(
    ("op", "given", "attributes"),
    [
        ("LSTM", "B", {"direction": "bidirectional"}),
        ("LSTM", "BP", {"direction": "reverse"}),
        ("LSTM", "", {"input_forget": 1, "clip": 0.3}),
        ("GRU", "B", {}),
        ("GRU", "B", {"linear_before_reset": 1}),
        ("RNN", "B", {}),
    ],
)
def test_a_large_weight_is_shared_by_columns(op, given, attributes):
    require_agreement(large_layer(op, given=given, **attributes), sequences((1, 1), (4, 1), (5, 2), (6, 7)))


def test_a_sequence_without_steps_leaves_the_state():
    model, _ = layer("LSTM", "forward", "WRBHC")
    machine = machine_of(of_any_length(model, batch=False))
    states = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    y, h, c = machine["main"](tvm.runtime.tensor(np.zeros((0, BATCH, SIZE), "float32")))
    assert y.shape == (0, 1, BATCH, HIDDEN)
    np.testing.assert_array_equal(h.numpy(), states["H"])
    np.testing.assert_array_equal(c.numpy(), states["C"])


def raised_loop(dtype: str = "float32") -> tuple[tvm.IRModule, relax.Call]:
    """A module with the op of a loop, and its call."""
    weights = {name: np.full(shape, 0.1, dtype) for name, shape in (("W", (1, 6, SIZE)), ("R", (1, 6, 6)))}
    node = Node("RNN", "x W R", "y h", hidden_size=6)
    model = model_of_nodes([node], {"x": np.zeros((3, 2, SIZE), dtype)}, weights, "y h")
    mod = RaiseToOps()(ar.from_onnx(of_any_length(model)))
    bindings = mod["main"].body.blocks[0].bindings
    (call,) = (
        each.value for each in bindings if getattr(getattr(each.value, "op", None), "name", "") == LOOP
    )
    return mod, call


def test_half_precision_is_declined_with_a_reason():
    _, call = raised_loop("float16")
    view = OpView.of(call)
    assert view is not None
    assert rules_of("dnnl")[LOOP](view) == "the operand gates is of type float16; only float32 is known"


def test_the_op_is_read_from_tvmscript():
    mod, _ = raised_loop()
    assert tvm_ffi.structural_equal(tvm.script.from_source(mod.script(show_meta=True)), mod)


def test_what_a_rule_refuses_is_lowered_on_the_host():
    """A region that cannot be built goes back to the host, where the op is the loop's function again."""
    mod, _ = raised_loop()
    x = np.random.default_rng(1).standard_normal((3, 2, SIZE)).astype("float32")
    results, _ = relax.VirtualMachine(ar.build(mod), tvm.cpu())["main"](tvm.runtime.tensor(x))
    state = np.zeros((2, 1))
    for step, found in zip(x, results.numpy()[:, 0], strict=True):
        state = np.tanh(0.1 * step.sum(1, keepdims=True) + 0.6 * state)  # all columns are alike
        np.testing.assert_allclose(found, np.broadcast_to(state, (2, 6)), atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden": 7}, "of 7 columns reads gates of shape .*, not"),
        ({"functions": ["tanh", "relu"], "alphas": [0.0] * 2, "betas": [0.0] * 2}, "has 1 functions, not 2"),
        ({"cell": "Mamba"}, "these are not the attributes of"),
        ({"has_bias": True}, "reads gates, weight, bias, initial_0; it has 3 operands"),
    ],
)
def test_what_does_not_fit_is_no_call_of_the_op(change, message):
    _, call = raised_loop()
    attrs = {**dict(call.attrs.items()), **change}
    wrong = relax.Call(call.op, list(call.args), tvm.ir.make_node("ir.DictAttrs", **attrs))
    with pytest.raises(OpInfoError, match=message):
        relax.BlockBuilder().normalize(wrong)


def test_operands_of_another_batch_are_no_call_of_the_op():
    _, call = raised_loop()
    states = relax.const(np.zeros((5, 6), "float32"))
    wrong = relax.Call(call.op, [*call.args[:-1], states], call.attrs)
    with pytest.raises(OpInfoError, match="reads initial_0 of shape"):
        relax.BlockBuilder().normalize(wrong)
