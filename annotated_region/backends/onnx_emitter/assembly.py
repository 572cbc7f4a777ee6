"""Recombines a model with its weights, which a built library stores separately."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import numpy as np
import tvm

from annotated_region.backends.onnx_emitter.arguments import bits_of

__all__ = ["LARGEST_MESSAGE", "array_of", "assemble", "assemble_file", "assembled", "digest_of"]

LARGEST_MESSAGE = (1 << 31) - (1 << 24)
"""The weights limit for a model in one protobuf message (2 GiB), in bytes, with room for the rest."""


def array_of(tensor: tvm.runtime.Tensor) -> np.ndarray:
    """A host tensor as an array that shares its memory; bfloat16 has the type of `ml_dtypes`."""
    if str(tensor.dtype) == "bfloat16":
        return bits_of(tensor).view(import_module("ml_dtypes").bfloat16)
    array: np.ndarray = np.from_dlpack(tensor)
    return array


def digest_of(model: bytes, weights: Mapping[str, np.ndarray]) -> str:
    """A digest of the content of a model."""
    digest = hashlib.sha256(model)
    for name, array in weights.items():
        digest.update(f"{name} {array.dtype} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def assemble(model: bytes, weights: Mapping[str, np.ndarray]) -> bytes:
    """The model including its weights, which must fit into one message."""
    onnx = import_module("onnx")
    proto = onnx.load_model_from_string(model)
    for tensor in proto.graph.initializer:
        if tensor.name in weights:
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            tensor.raw_data = np.ascontiguousarray(weights[tensor.name]).tobytes()
    return bytes(proto.SerializeToString())


def assemble_file(model: bytes, weights: Mapping[str, np.ndarray], file: Path) -> None:
    """Write the model to a file, and its weights to another file beside it."""
    onnx = import_module("onnx")
    proto = onnx.load_model_from_string(model)
    location = f"{file.name}.data"
    with (file.parent / location).open("wb") as data:
        for tensor in proto.graph.initializer:
            if tensor.name in weights:
                entries = {"location": location, "offset": data.tell(), "length": weights[tensor.name].nbytes}
                data.write(np.ascontiguousarray(weights[tensor.name]).reshape(-1).view(np.uint8).data)
                tensor.ClearField("external_data")
                for key, value in entries.items():
                    tensor.external_data.add(key=key, value=str(value))
    file.write_bytes(proto.SerializeToString())


def assembled(model: bytes, weights: Mapping[str, np.ndarray], folder: Path) -> bytes | Path:
    """The model including its weights; a file in `folder` if it is too large for one message."""
    if sum(array.nbytes for array in weights.values()) <= LARGEST_MESSAGE:
        return assemble(model, weights)
    file = folder / "region.onnx"
    assemble_file(model, weights, file)
    return file
