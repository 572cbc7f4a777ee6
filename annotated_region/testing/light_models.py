"""The nine classification networks that the onnx wheel ships, with seeded weights in place of constant ones.

The ``light`` models of the onnx package are the graphs of AlexNet, DenseNet-121, Inception v1 and v2,
ResNet-50, ShuffleNet, SqueezeNet, VGG-19 and ZFNet-512 without their trained weights: most weights are
``ConstantOfShape(0.02)``, so every class gets the same score and no numeric comparison can fail. Here
each weight becomes an initializer drawn from a seeded generator:

==================================  =====================================================
weight                              values
==================================  =====================================================
convolution, fully connected layer  normal, variance 2 / fan-in (He et al., 2015)
last of these                       the same, times a gain that is fixed for each model
any bias, batch norm's mean         normal, deviation 0.1
scale of a batch norm               uniform in [0.8, 1.2]; [0.3, 0.4] at the end of a branch
variance of a batch norm            uniform in [0.8, 1.2]
==================================  =====================================================

The gains keep the scores of order one and the probability of the most likely of the 1000 classes between
one and some tens of per cent, so neither a flat nor a saturated softmax hides an error, and different
images have clearly different results.

A weight depends only on the seed, the model and its own name: every process and every engine
gets the same network.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, MutableSequence
from dataclasses import dataclass
from importlib.resources import files
from math import prod

import numpy as np
import onnx
import tvm
from onnx import numpy_helper, version_converter
from tvm.relax.frontend.onnx import from_onnx

from annotated_region.errors import ModelError

__all__ = ["LIGHT_MODELS", "input_of", "light_model", "light_module"]

OPSET = 13
PATCH = 32  # side of the squares of pixels with equal coarse value
IR_VERSION = 8  # matches opset 13; since 4, initializers need not be listed among the inputs

# Name of each model: the gain of its last layer, measured so that the scores are of order one.
_GAINS = {
    "alexnet": 0.35,
    "densenet121": 0.8,
    "inception_v1": 0.3,
    "inception_v2": 0.35,
    "resnet50": 0.2,
    "shufflenet": 0.06,
    "squeezenet": 1.3,
    "vgg19": 0.6,
    "zfnet512": 1.2,
}
_FILE_NAMES = {"alexnet": "bvlc_alexnet"}

LIGHT_MODELS: tuple[str, ...] = tuple(_GAINS)


def light_model(name: str, seed: int = 0) -> onnx.ModelProto:
    """One of the nine models at opset 13, with random weights stored as initializers.

    Parameters
    ----------
    name
        One of `LIGHT_MODELS`.
    seed
        The seed of the weights.

    Returns
    -------
    onnx.ModelProto
        A model whose only input is the image.

    Raises
    ------
    ModelError
        `name` is not one of the nine, or the installed onnx package does not ship the file.
    """
    model = version_converter.convert_version(_shipped(name), OPSET)
    model.ir_version = IR_VERSION
    graph = model.graph
    uses = _uses(graph)
    shapes = _weight_shapes(graph)
    _remove_old_weights(graph, drop=shapes)
    last = _last_layer(graph, shapes)
    for weight, shape in shapes.items():
        generator = np.random.default_rng([seed, zlib.crc32(f"{name}/{weight}".encode())])
        values = _draw(generator, shape, _use_of(weight, uses), uses)
        _store(graph, weight, values * np.float32(_GAINS[name]) if weight == last else values)
    return model


def light_module(name: str, seed: int = 0) -> tvm.ir.IRModule:
    """The same model imported by TVM, with the weights as constants of ``main``."""
    return from_onnx(light_model(name, seed), keep_params_in_input=False)


def input_of(model: onnx.ModelProto, seed: int = 0) -> dict[str, np.ndarray]:
    """A seeded image for each input of `model`: coarse shapes with fine noise, deviation about one.

    White noise alone is not enough: after averaging, all such images look the same to a network.
    """
    generator = np.random.default_rng([seed, zlib.crc32(b"image")])
    return {value.name: _image(generator, _dims(value)) for value in model.graph.input}


def _shipped(name: str) -> onnx.ModelProto:
    if name not in _GAINS:
        raise ModelError(f"there is no light model {name!r}; choose one of {', '.join(LIGHT_MODELS)}")
    file = files("onnx") / "backend/test/data/light" / f"light_{_FILE_NAMES.get(name, name)}.onnx"
    if not file.is_file():
        raise ModelError(f"the installed onnx package has no {file.name}; install the wheel of onnx")
    return onnx.load_model_from_string(file.read_bytes())


@dataclass(frozen=True, slots=True)
class _Use:
    """A use of a value: a node and the operand index."""

    node: onnx.NodeProto
    position: int

    @property
    def role(self) -> tuple[str, int]:
        return self.node.op_type, self.position


_Uses = Mapping[str, list[_Use]]


def _uses(graph: onnx.GraphProto) -> _Uses:
    uses: dict[str, list[_Use]] = {}
    for node in graph.node:
        for position, source in enumerate(node.input):
            uses.setdefault(source, []).append(_Use(node, position))
    return uses


def _use_of(weight: str, uses: _Uses) -> _Use:
    """The use of `weight` by a computation, looking through reshapes."""
    use = uses[weight][0]
    while use.node.op_type in ("Reshape", "Unsqueeze"):
        use = uses[use.node.output[0]][0]
    return use


def _weight_shapes(graph: onnx.GraphProto) -> dict[str, tuple[int, ...]]:
    """Name and shape of each weight: the results of ``ConstantOfShape``, and stored floats."""
    stored = {tensor.name: tensor for tensor in graph.initializer}
    shapes = {
        node.output[0]: tuple(map(int, numpy_helper.to_array(stored[node.input[0]])))
        for node in graph.node
        if node.op_type == "ConstantOfShape"
    }
    read = {source for node in graph.node for source in node.input}
    for tensor in graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and tensor.name in read:
            shapes[tensor.name] = tuple(tensor.dims)
    return shapes


def _remove_old_weights(graph: onnx.GraphProto, drop: Mapping[str, object]) -> None:
    """Remove the weights `drop`, nodes used only by them, and the initializers among the inputs."""
    stored = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in stored]
    nodes = [node for node in graph.node if node.output[0] not in drop]
    read = {source for node in nodes for source in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in read and tensor.name not in drop]
    _replace(graph.input, inputs)
    _replace(graph.node, nodes)
    _replace(graph.initializer, kept)


def _replace(repeated: MutableSequence[object], values: list[object]) -> None:
    del repeated[:]
    repeated.extend(values)


def _last_layer(graph: onnx.GraphProto, weights: Mapping[str, object]) -> str:
    """The weight of the last convolution or fully connected layer before the output."""
    makers = {node.output[0]: node for node in graph.node}
    node = makers[graph.output[0].name]
    while node.op_type not in ("Conv", "Gemm"):
        node = makers[node.input[0]]
    weight = str(node.input[1])
    return weight if weight in weights else str(makers[weight].input[0])


def _draw(generator: np.random.Generator, shape: tuple[int, ...], use: _Use, uses: _Uses) -> np.ndarray:
    match use.role:
        case ("Conv", 1):
            return _normal(generator, shape, (2.0 / prod(shape[1:])) ** 0.5)
        case ("Gemm", 1):  # all nine models store it as (outputs, inputs)
            return _normal(generator, shape, (2.0 / shape[-1]) ** 0.5)
        case ("BatchNormalization", 1) if _is_branch(use.node, uses):
            return _uniform(generator, shape, 0.3, 0.4)  # else each of up to 16 sums doubles the variance
        case ("BatchNormalization", 1 | 4) | ("Mul", _):
            return _uniform(generator, shape, 0.8, 1.2)
        case _:
            return _normal(generator, shape, 0.1)


def _is_branch(node: onnx.NodeProto, uses: _Uses) -> bool:
    """Whether the node ends a residual branch: all sums here are branch plus shortcut."""
    return any(use.role == ("Sum", 0) for use in uses.get(node.output[0], ()))


def _normal(generator: np.random.Generator, shape: tuple[int, ...], deviation: float) -> np.ndarray:
    return generator.standard_normal(shape, dtype=np.float32) * np.float32(deviation)


def _uniform(generator: np.random.Generator, shape: tuple[int, ...], low: float, high: float) -> np.ndarray:
    return generator.random(shape, dtype=np.float32) * np.float32(high - low) + np.float32(low)


def _store(graph: onnx.GraphProto, name: str, values: np.ndarray) -> None:
    """Append an initializer in place, to avoid a copy of up to 400 MB."""
    tensor = graph.initializer.add(name=name, data_type=onnx.TensorProto.FLOAT, dims=values.shape)
    tensor.raw_data = values.astype("<f4", copy=False).tobytes()


def _dims(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    return tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)


def _image(generator: np.random.Generator, dims: tuple[int, ...]) -> np.ndarray:
    *outer, height, width = dims
    coarse = generator.standard_normal((*outer, -(-height // PATCH), -(-width // PATCH)), dtype=np.float32)
    patches: np.ndarray = np.kron(coarse, np.ones((PATCH, PATCH), dtype=np.float32))
    return np.asarray(patches[..., :height, :width] + _normal(generator, dims, 0.3))
