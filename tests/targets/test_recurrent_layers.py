"""Recurrent layers of any length on targets that read ONNX: their own operators again, one region each."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import tvm
from kits.importing.recurrent_layers import BATCH, GATES, WITH_NUMBERS, layer, of_any_length, sequences
from kits.onnx_nodes import Node, by_onnx_runtime, model_of_nodes
from tvm import relax

import annotated_region as ar
from annotated_region.compilation.code_generation import external_functions

TARGETS = ("onnxruntime", "openvino")
CLOSE = 2e-6


def loops_on_host(mod: tvm.IRModule) -> int:
    return sum(isinstance(func, tvm.tirx.PrimFunc) for _, func in mod.functions_items())


def require_agreement(
    model: onnx.ModelProto, target: str, data: list[np.ndarray], loops: int = 0, builds: int = 1
) -> None:
    """One region, or so many loops on the host; a second build reads what the first one stored."""
    mod = ar.partition(ar.from_onnx(model), [target])
    assert loops_on_host(mod) == loops
    assert loops or len(external_functions(mod)[target]) == 1
    for _ in range(builds):
        machine = relax.VirtualMachine(ar.build(mod), tvm.cpu())
        for x in data:
            answers = zip(
                machine["main"](tvm.runtime.tensor(x)), by_onnx_runtime(model, {"x": x}), strict=True
            )
            for found, wanted in answers:
                difference = np.abs(found.numpy() - wanted).max()
                assert difference <= CLOSE * max(1.0, np.abs(wanted).max())


@pytest.mark.sweep
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("op", GATES)
def test_layers_are_regions(op, direction, target):
    model, _ = layer(op, direction)
    require_agreement(of_any_length(model), target, sequences((4, BATCH), (1, 2), (6, 1)), builds=2)


@pytest.mark.sweep
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("op", "given", "attributes"), WITH_NUMBERS)
def test_activations_have_numbers_and_clips(op, given, attributes, target):
    model, _ = layer(op, "bidirectional", given, **attributes)
    others = {*attributes.get("activations", ())} - {"Relu", "Sigmoid", "Tanh"}
    loops = 2 if target == "openvino" and ("P" in given or others) else 0
    require_agreement(of_any_length(model, batch=False), target, sequences((4, BATCH)), loops)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("op", "given", "attributes"),
    [("LSTM", "WRBLHC", {}), ("GRU", "WRBLH", {"linear_before_reset": 1}), ("LSTM", "WRBHCP", {})],
)
def test_what_openvino_ignores_is_a_loop_on_the_host(op, given, attributes, target):
    model, _ = layer(op, "bidirectional", given, **attributes)
    for each in model.graph.initializer:
        if each.name == "L":
            each.raw_data = np.asarray([3, 1, 4], "int32").tobytes()
    loops = 2 if target == "openvino" else 0
    require_agreement(of_any_length(model, batch=False), target, sequences((4, BATCH)), loops)


@pytest.mark.parametrize("target", TARGETS)
def test_layers_behind_each_other_and_other_readers_of_the_data(target):
    first, _ = layer("LSTM", "bidirectional")
    random = np.random.default_rng(3)
    weights = {each.name: onnx.numpy_helper.to_array(each) for each in first.graph.initializer}
    weights["W2"] = (random.standard_normal((1, 18, 12)) / 4).astype("float32")
    weights["R2"] = (random.standard_normal((1, 18, 6)) / 4).astype("float32")
    weights["shape"] = np.array([0, 0, -1])
    nodes = [
        Node("LSTM", "x W R B", "y", direction="bidirectional", hidden_size=6),
        Node("Transpose", "y", "turned", perm=[0, 2, 1, 3]),
        Node("Reshape", "turned shape", "rows"),
        Node("GRU", "rows W2 R2", "z", hidden_size=6, direction="reverse"),
        Node("Transpose", "x", "batches", perm=[1, 0, 2]),
        Node("Relu", "batches", "r"),
    ]
    model = model_of_nodes(nodes, {"x": sequences((4, BATCH))[0]}, weights, "z r")
    require_agreement(of_any_length(model), target, sequences((4, BATCH), (2, 5)))


def test_tensorrt_claims_them_but_for_coupled_gates():
    for is_coupled in (0, 1):
        model, _ = layer("LSTM", "forward", input_forget=is_coupled)
        mod = ar.partition(ar.from_onnx(of_any_length(model)), ["tensorrt"])
        assert loops_on_host(mod) == is_coupled
