"""The tensors that a region is called with: views are copied to dense memory, and results are copied back.

DLPack's tensors have strides, which may skip memory or run backwards. A library that takes an address and a
shape sees none of that: it would read what lies between, and write beside the view or behind the buffer.
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
"""What TVM hands to a region."""

HOST = "cpu"


def check_devices(symbol: str, arguments: Sequence[Argument], known: Collection[str]) -> None:
    """Refuse tensors on devices that the region cannot reach; what is no tensor has no device.

    Raises
    ------
    ArgumentError
        There is one.
    """
    for number, argument in enumerate(arguments):
        if is_tensor(argument) and str(argument.device.type) not in known:
            raise ArgumentError(
                f"{symbol}: argument {number} lies on the device {argument.device}, which this region cannot "
                f"reach; copy it to {' or '.join(sorted(known))} before"
            )


def dense_input(symbol: str, argument: Argument, alignment: int = 1) -> tvm.runtime.Tensor:
    """The argument as a dense tensor: itself, a copy of a view, or a vector of int64 for a shape.

    Where its address is no multiple of `alignment`, it is copied as well.

    Raises
    ------
    ArgumentError
        It is a view of the memory of another device than the host.
    """
    if not is_tensor(argument):
        return tvm.runtime.tensor(np.asarray(tuple(argument), np.int64))
    if argument.is_contiguous() and argument.data_ptr() % alignment == 0:
        return argument
    dense = _empty_as(symbol, argument)
    np.copyto(bits_of(dense), bits_of(argument))
    return dense


def dense_output(symbol: str, argument: Argument) -> tuple[tvm.runtime.Tensor, Callable[[], None]]:
    """A dense tensor to write a result to, and what brings the result from there to the argument.

    Raises
    ------
    ArgumentError
        It is a view of the memory of another device than the host, or its elements share memory.
    """
    assert is_tensor(argument), "results are written to tensors"
    if argument.is_contiguous():
        return argument, lambda: None
    if any(
        extent > 1 and stride == 0 for extent, stride in zip(argument.shape, argument.strides, strict=True)
    ):
        raise ArgumentError(
            f"{symbol}: an output of strides {tuple(argument.strides)} has elements that share memory"
        )
    dense = _empty_as(symbol, argument)
    return dense, lambda: np.copyto(bits_of(argument), bits_of(dense))


def is_tensor(argument: Argument) -> TypeIs[tvm.runtime.Tensor]:
    """Whether an argument lies in memory; a shape does not."""
    return hasattr(argument, "data_ptr")


def _empty_as(symbol: str, argument: tvm.runtime.Tensor) -> tvm.runtime.Tensor:
    if argument.device.type != HOST:
        raise ArgumentError(
            f"{symbol}: a view with the strides {tuple(argument.strides)} on the device {argument.device}; "
            "make it dense before"
        )
    return tvm.runtime.empty(tuple(map(int, argument.shape)), str(argument.dtype))


def bits_of(tensor: tvm.runtime.Tensor) -> np.ndarray:
    """The elements of a tensor on the host where they lie, as mere bits: numpy has not all of their types."""
    return np.asarray(_Interface(tensor))


class _Interface:
    """What numpy asks an object whose memory it shares; strides are in bytes, the address is of element 0."""

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
