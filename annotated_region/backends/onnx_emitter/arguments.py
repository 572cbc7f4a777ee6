"""The tensor arguments of a region: strided views are copied to dense memory, and results copied back.

DLPack tensors have strides, which may have gaps or be negative. A library that receives only an address and a
shape would read the memory in the gaps, and write outside the view or the buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import tvm

from annotated_region.errors import ArgumentError

if TYPE_CHECKING:
    from typing_extensions import TypeIs

__all__ = ["Argument", "bits_of", "check_devices", "dense_input", "dense_output", "is_tensor"]

Argument: TypeAlias = tvm.runtime.Tensor | tvm.runtime.ShapeTuple
"""The arguments that TVM passes to a region."""

HOST = "cpu"


def check_devices(symbol: str, arguments: Sequence[Argument], known: Collection[str]) -> None:
    """Reject tensors on devices that the region cannot access; arguments that are not tensors have no device.

    Raises
    ------
    ArgumentError
        A tensor is on such a device.
    """
    for number, argument in enumerate(arguments):
        if is_tensor(argument) and str(argument.device.type) not in known:
            raise ArgumentError(
                f"{symbol}: argument {number} is on the device {argument.device}, which this region cannot "
                f"access; copy it to {' or '.join(sorted(known))} first"
            )


def dense_input(symbol: str, argument: Argument, alignment: int = 1) -> tvm.runtime.Tensor:
    """The argument as a dense tensor: itself, a copy of a view, or a vector of int64 for a shape.

    A tensor whose address is not a multiple of `alignment` is copied as well.

    Raises
    ------
    ArgumentError
        The argument is a strided view in the memory of another device than the host.
    """
    if not is_tensor(argument):
        return tvm.runtime.tensor(np.asarray(tuple(argument), np.int64))
    if argument.is_contiguous() and argument.data_ptr() % alignment == 0:
        return argument
    dense = _empty_as(symbol, argument)
    np.copyto(bits_of(dense), bits_of(argument))
    return dense


def dense_output(symbol: str, argument: Argument) -> tuple[tvm.runtime.Tensor, Callable[[], None]]:
    """A dense tensor for a result, and a function that copies the result from there to the argument.

    Raises
    ------
    ArgumentError
        The argument is a strided view in the memory of another device than the host, or its elements overlap.
    """
    assert is_tensor(argument), "results are written to tensors"
    if argument.is_contiguous():
        return argument, lambda: None
    if any(
        extent > 1 and stride == 0 for extent, stride in zip(argument.shape, argument.strides, strict=True)
    ):
        raise ArgumentError(
            f"{symbol}: an output of strides {tuple(argument.strides)} has overlapping elements"
        )
    dense = _empty_as(symbol, argument)
    return dense, lambda: np.copyto(bits_of(argument), bits_of(dense))


def is_tensor(argument: Argument) -> TypeIs[tvm.runtime.Tensor]:
    """Whether an argument is a tensor; a shape is not."""
    return hasattr(argument, "data_ptr")


def _empty_as(symbol: str, argument: tvm.runtime.Tensor) -> tvm.runtime.Tensor:
    if argument.device.type != HOST:
        raise ArgumentError(
            f"{symbol}: a view with the strides {tuple(argument.strides)} on the device {argument.device}; "
            "make it contiguous first"
        )
    return tvm.runtime.empty(tuple(map(int, argument.shape)), str(argument.dtype))


def bits_of(tensor: tvm.runtime.Tensor) -> np.ndarray:
    """The elements of a host tensor as raw bits, without a copy: numpy lacks some of the data types."""
    return np.asarray(_Interface(tensor))


class _Interface:
    """The array interface that numpy reads; strides are in bytes, the address is that of element 0."""

    def __init__(self, tensor: tvm.runtime.Tensor) -> None:
        width = tvm.DataType(str(tensor.dtype)).bits // 8
        self.__array_interface__ = {
            "version": 3,
            "typestr": f"<u{width}",
            "shape": tuple(map(int, tensor.shape)),
            "strides": tuple(int(stride) * width for stride in tensor.strides),
            "data": (tensor.data_ptr(), False),
        }
        self.owner = tensor
