"""Quantized networks: ONNX models with quantization around their ops, made by ONNX Runtime."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process

__all__ = ["IMAGE_OPS", "TEXT_OPS", "dynamically_quantized_model", "quantized_model"]

IMAGE_OPS = (
    *("Conv", "Relu", "Clip", "Add", "MaxPool", "AveragePool", "GlobalAveragePool"),
    *("Flatten", "Reshape", "Gemm"),
)
"""What is usually quantized of a network for images: all but the probabilities at its end."""

TEXT_OPS = ("MatMul", "Gemm")
"""What is usually quantized of a transformer: its products."""

Inputs = Mapping[str, np.ndarray]

METHODS = {"minmax": CalibrationMethod.MinMax, "entropy": CalibrationMethod.Entropy}
TYPES = {"uint8": QuantType.QUInt8, "int8": QuantType.QInt8}


class _Samples(CalibrationDataReader):  # type: ignore[misc]
    """What the network is calibrated with."""

    def __init__(self, samples: Sequence[Inputs]) -> None:
        self._rest: Iterator[Inputs] = iter(samples)

    def get_next(self) -> Inputs | None:
        """The next sample; None after the last."""
        return next(self._rest, None)


def quantized_model(
    model: onnx.ModelProto,
    samples: Sequence[Inputs],
    *,
    per_channel: bool = True,
    activations: str = "uint8",
    ops: Sequence[str] | None = None,
    ranges: str = "minmax",
) -> onnx.ModelProto:
    """A model with ``QuantizeLinear`` and ``DequantizeLinear`` around its ops (the format QDQ).

    A ``Sum`` of two becomes an ``Add`` before, because ONNX Runtime has int8 for that only.

    Parameters
    ----------
    model
        A model of float32.
    samples
        Inputs that the ranges of all tensors are measured with.
    per_channel
        Whether weights get a scale for each channel.
    activations
        The type of what is no weight: ``"uint8"`` or ``"int8"``; weights are int8.
    ops
        The types of the ops that are quantized; all that ONNX Runtime knows if left out.
    ranges
        ``"minmax"`` or ``"entropy"``.
    """
    prepared = onnx.ModelProto()
    prepared.CopyFrom(model)
    for node in prepared.graph.node:
        if node.op_type == "Sum" and len(node.input) == 2:
            node.op_type = "Add"
    with tempfile.TemporaryDirectory() as folder:
        given, optimized, result = (
            Path(folder) / f"{name}.onnx" for name in ("given", "optimized", "result")
        )
        onnx.save(prepared, str(given))
        quant_pre_process(str(given), str(optimized), skip_symbolic_shape=True)
        quantize_static(
            str(optimized),
            str(result),
            _Samples(samples),
            quant_format=QuantFormat.QDQ,
            per_channel=per_channel,
            activation_type=TYPES[activations],
            weight_type=QuantType.QInt8,
            calibrate_method=METHODS[ranges],
            op_types_to_quantize=None if ops is None else list(ops),
        )
        return onnx.load(str(result))


def dynamically_quantized_model(model: onnx.ModelProto, *, weights: str = "int8") -> onnx.ModelProto:
    """A model whose products are of bytes, with scales that are measured in each call.

    Parameters
    ----------
    model
        A model of float32.
    weights
        The type of the weights: ``"uint8"`` or ``"int8"``, with one scale for all of a weight.
    """
    with tempfile.TemporaryDirectory() as folder:
        given, optimized, result = (
            Path(folder) / f"{name}.onnx" for name in ("given", "optimized", "result")
        )
        onnx.save(model, str(given))
        quant_pre_process(str(given), str(optimized), skip_symbolic_shape=True)
        quantize_dynamic(str(optimized), str(result), weight_type=TYPES[weights])
        return onnx.load(str(result))
