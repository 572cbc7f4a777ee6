"""The models that engines are mixed on: images, transformers, int8 variants, the zoo's networks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
import tvm
from kits.family_models import FAMILIES, family_model, inputs_of
from kits.quantized_models import IMAGE_OPS, TEXT_OPS, quantized_model
from kits.zoo.registry import ONNX_NETWORKS, onnx_network
from kits.zoo.signature import arrays

import annotated_region as ar
from annotated_region.testing.light_models import LIGHT_MODELS, input_of, light_model

__all__ = ["MODELS", "Sample", "sample_of"]

INT8 = "-int8"
QUANTIZED = {"resnet50": IMAGE_OPS, "squeezenet": IMAGE_OPS, "mobilenet_v2": IMAGE_OPS, "bert": TEXT_OPS}
"""The models with an int8 variant, and the ops that are quantized."""

FLOATING, ROUNDED = 1e-3, 0.15
"""How far answers may differ, of the largest one: of float32, and of int8."""

ZOO = tuple(name for names in ONNX_NETWORKS.values() for name in names)
MODELS = (*ZOO, *LIGHT_MODELS, *FAMILIES, *(f"{name}{INT8}" for name in QUANTIZED))


@dataclass(frozen=True, slots=True)
class Sample:
    """A model with arguments.

    Attributes
    ----------
    module
        The imported model.
    arguments
        The arguments of its main function.
    tolerance
        The largest difference between engines that counts as rounding, as part of the largest answer.
    """

    module: tvm.IRModule
    arguments: list[np.ndarray]
    tolerance: float


def sample_of(name: str) -> Sample:
    """One of `MODELS`; networks of the zoo with fixed extents."""
    if name in ZOO:
        network = onnx_network(name)
        form = network.forms[0]
        given = arrays(network.inputs, form.calls[0])
        tolerance = ROUNDED if name in ONNX_NETWORKS["quantized"] else FLOATING
        return Sample(ar.from_onnx(network.proto(form)), list(given.values()), tolerance)
    plain = name.removesuffix(INT8)
    model = light_model(plain) if plain in LIGHT_MODELS else family_model(plain)
    inputs = input_of(model) if plain in LIGHT_MODELS else inputs_of(model)
    if plain == name:
        return _sample(model, inputs, FLOATING)
    return _sample(quantized_model(model, [inputs], ops=QUANTIZED[plain]), inputs, ROUNDED)


def _sample(model: onnx.ModelProto, inputs: dict[str, np.ndarray], tolerance: float) -> Sample:
    return Sample(ar.from_onnx(model), list(inputs.values()), tolerance)
