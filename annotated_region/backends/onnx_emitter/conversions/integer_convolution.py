"""Convolutions of bytes in int32: ``ConvInteger``, which reads the bytes and their zero point.

::

    conv2d(subtract(astype(x, int32), astype(zero, int32)), kernel)    =>    ConvInteger(x, kernel, zero)

ONNX has no other convolution of integers, so the conversion looks for the bytes behind its data.
"""

from __future__ import annotations

import numpy as np

from annotated_region.backends.onnx_emitter.emission import Emission
from annotated_region.backends.onnx_emitter.graph import Operator
from annotated_region.targets.translation import require

__all__ = ["operands_in_bytes"]

_BYTE = np.iinfo("uint8").max


def operands_in_bytes(emission: Emission, data: str, kernel: str) -> tuple[str, str, str, str]:
    """The operands of ``ConvInteger``: bytes and kernel, and the zero points of both.

    Raises
    ------
    Declined
        The data are not bytes minus a zero point, or the kernel is not a constant of bytes minus another one.
    """
    what = "the data is int32, and not bytes minus a zero point"
    difference = _made_by(emission, data, "Sub", what)
    numbers, zero = (_byte(emission, each, what) for each in difference.inputs)
    require(numbers not in emission.graph.constants, what)
    return numbers, *_kernel(emission, kernel, zero)


def _kernel(emission: Emission, kernel: str, zero: str) -> tuple[str, str, str]:
    graph = emission.graph
    require(kernel in graph.constants or kernel in graph.weights, "the kernel is int32, and not constant")
    held = graph.constants[kernel] if kernel in graph.constants else graph.weights[kernel].numpy()
    least = min(int(held.min(initial=0)), 0)
    require(int(held.max(initial=0)) - least <= _BYTE, "the kernel is int32, and its numbers no bytes")
    shifted = graph.constant((held - least).astype("uint8"))
    return shifted, zero, graph.constant(np.array(-least, "uint8"))


def _byte(emission: Emission, value: str, what: str) -> str:
    """The bytes that a value is cast from."""
    constant = emission.graph.constants.get(value)
    if constant is not None:
        require(constant.size == 1 and 0 <= int(constant.item()) <= _BYTE, what)
        return emission.graph.constant(constant.reshape(()).astype("uint8"))
    (source,) = _made_by(emission, value, "Cast", what).inputs
    require(emission.dtype(source) == "uint8", what)
    return source


def _made_by(emission: Emission, value: str, kind: str, what: str) -> Operator:
    made = [each for each in emission.graph.operators if value in each.outputs and each.kind == kind]
    require(bool(made), what)
    return made[0]
