"""The light models: the same network everywhere, and one whose answers can tell right from wrong."""

import os
import subprocess
import sys
import zlib

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import numpy_helper

from annotated_region.errors import ModelError
from annotated_region.testing.light_models import LIGHT_MODELS, input_of, light_model, light_module

CHEAP = "squeezenet"


class Network:
    """A model, and what ONNX Runtime answers; made once a module, as VGG-19 takes seconds to load."""

    def __init__(self, name: str, seed: int = 0) -> None:
        self.name = name
        self.model = light_model(name, seed)
        serialized = self.model.SerializeToString()
        self.session = onnxruntime.InferenceSession(serialized, providers=["CPUExecutionProvider"])

    def probabilities(self, image: int = 0) -> np.ndarray:
        (answer,) = self.session.run(None, input_of(self.model, image))
        return (
            softmax(answer) if self.name == "densenet121" else np.asarray(answer)
        )  # it ends in plain scores


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max())
    return np.asarray(powers / powers.sum())


@pytest.fixture(scope="module", params=LIGHT_MODELS)
def network(request: pytest.FixtureRequest) -> Network:
    return Network(request.param)


def test_there_are_nine_models() -> None:
    assert len(LIGHT_MODELS) == 9
    assert "resnet50" in LIGHT_MODELS


def test_a_model_is_valid_and_asks_for_one_image(network: Network) -> None:
    model = network.model
    onnx.checker.check_model(model)
    assert [entry.version for entry in model.opset_import if entry.domain == ""] == [13]
    assert [array.shape for array in input_of(model).values()] == [(1, 3, 224, 224)]
    assert "ConstantOfShape" not in {node.op_type for node in model.graph.node}


def test_no_initializer_is_left_over_or_constant(network: Network) -> None:
    read = {source for node in network.model.graph.node for source in node.input}
    for tensor in network.model.graph.initializer:
        assert tensor.name in read
        if tensor.data_type == onnx.TensorProto.FLOAT:
            assert np.ptp(numpy_helper.to_array(tensor)) > 0, tensor.name


def test_the_answer_is_neither_flat_nor_saturated(network: Network) -> None:
    probabilities = network.probabilities()
    assert 0.01 < probabilities.max() < 0.9
    assert 0.5 < np.log(probabilities).std() < 4


def test_another_image_gets_another_answer(network: Network) -> None:
    # ten times the tolerance with which engines are compared: rtol 1e-3, atol 1e-4
    one, other = network.probabilities(image=0), network.probabilities(image=1)
    assert (np.abs(one - other) > 1e-3 + 1e-2 * one).any()


@pytest.mark.parametrize("name", ["densenet121", "resnet50", "shufflenet", "squeezenet"])
def test_another_seed_gets_another_answer(name: str) -> None:
    one, other = Network(name, seed=1).probabilities(), Network(name, seed=2).probabilities()
    assert np.abs(one - other).max() > 0.01


def test_weights_follow_the_table_of_the_module() -> None:
    model = light_model("resnet50")
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Conv":
            weight = weights[node.input[1]]
            expected = np.sqrt(2 / np.prod(weight.shape[1:]))
            np.testing.assert_allclose(weight.std(), expected, rtol=0.05)
        if node.op_type == "BatchNormalization":
            _, scale, _, _, variance = (weights.get(source) for source in node.input)
            assert scale is not None
            assert variance is not None
            assert 0.3 <= scale.min() <= scale.max() <= 1.2
            assert 0.8 <= variance.min() <= variance.max() <= 1.2


def checksum(name: str) -> str:
    model = light_model(name)
    arrays = [numpy_helper.to_array(tensor) for tensor in model.graph.initializer]
    arrays += input_of(model).values()
    names = ",".join(tensor.name for tensor in model.graph.initializer)
    return f"{zlib.crc32(b''.join(array.tobytes() for array in arrays))} {zlib.crc32(names.encode())}"


def test_every_process_draws_the_same_weights() -> None:
    program = f"from tests.testing.test_light_models import checksum; print(checksum({CHEAP!r}))"
    environment = {**os.environ, "PYTHONHASHSEED": "123"}
    run = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.split("\n")[0] == checksum(CHEAP)


def test_tvm_reads_the_same_weights() -> None:
    module = light_module(CHEAP, seed=3)
    weights = [numpy_helper.to_array(tensor) for tensor in light_model(CHEAP, seed=3).graph.initializer]
    constants: list[np.ndarray] = []

    def visit(expr: tvm.relax.Expr) -> None:
        if isinstance(expr, tvm.ir.GenericConst):
            constants.append(expr.value.numpy())

    tvm.relax.analysis.post_order_visit(module["main"], visit)
    assert {array.tobytes() for array in weights} <= {array.tobytes() for array in constants}


def test_an_unknown_name_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ModelError, match=r"no light model 'resnet51'; choose one of alexnet, .*resnet50"):
        light_model("resnet51")
