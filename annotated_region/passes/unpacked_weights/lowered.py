"""Proves what a PrimFunc computes of packed words and scales, by running it.

A model of MLC calls ``dequantize``, a loop over words and scales, in the place of ops::

    weight = R.call_tir(cls.dequantize, (words, scales), out_ty=R.Tensor((columns, rows)))

Of a loop, the order in which bits and scales are read is hard to infer, and need not be:

1.  With ones for scales the result is the integers, less their zero point.
2.  The scales, each repeated along an axis, times these integers have to be the result with the true scales,
    element by element.

So nothing is assumed of the loop that is not checked for the very words and scales that it is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import tvm
from tvm import relax

from annotated_region.passes.preparation.tensors import static_shape
from annotated_region.passes.unpacked_weights.scaled import Scaled, is_float
from annotated_region.targets.translation import Declined, require
from annotated_region.tvm_adapter.types import expect, tensor_type

__all__ = ["LoweredUnpacking"]


class LoweredUnpacking:
    """Runs the PrimFuncs of a module; each is compiled once."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self._mod = mod
        self._compiled: dict[str, tvm.runtime.Module] = {}

    def scaled(self, call: relax.Call, arguments: Sequence[np.ndarray]) -> Scaled:
        """The result of a ``call_tir`` of integers and one tensor of scales.

        Raises
        ------
        Declined
            It is not integers times scales.
        """
        shape, dtype = static_shape(call.ty), np.dtype(str(tensor_type(call).dtype))
        floats = [number for number, each in enumerate(arguments) if each.dtype.kind == "f"]
        is_known = all(each.dtype.kind in "iuf" for each in arguments) and is_float(dtype)
        if shape is None or len(floats) != 1 or len(arguments) < 2 or not is_known:
            raise Declined("a PrimFunc has other operands than integers and scales")
        (place,) = floats
        scales = arguments[place]
        function = self._function(expect(tvm.ir.GlobalVar, call.args[0]))
        ones = [*arguments[:place], np.ones_like(scales), *arguments[place + 1 :]]
        numbers, weight = (_result(function, given, shape, dtype) for given in (ones, arguments))
        words = numbers.astype(np.int16)
        require(np.array_equal(words, numbers), "a PrimFunc makes no integers")
        for spread in _spread(scales, shape):
            if np.array_equal((numbers * spread).astype(dtype), weight):
                return Scaled.of(words, dtype).multiplied(spread, shape)
        raise Declined("the result of a PrimFunc is not integers times scales")

    def _function(self, name: tvm.ir.GlobalVar) -> tvm.runtime.Module:
        if name.name_hint not in self._compiled:
            func = self._mod[name]
            if not isinstance(func, tvm.tirx.PrimFunc) or _is_of_a_device(func):
                raise Declined("no PrimFunc of the host is called")
            module = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
            self._compiled[name.name_hint] = tvm.compile(module, "llvm").jit()
        return self._compiled[name.name_hint]


def _is_of_a_device(func: tvm.tirx.PrimFunc) -> bool:
    """Whether a loop is bound to the threads of a device, as its TVMScript says."""
    text = func.script()
    return "thread_binding" in text or "launch_thread" in text


def _result(
    function: tvm.runtime.Module, given: Sequence[np.ndarray], shape: tuple[int, ...], dtype: np.dtype
) -> np.ndarray:
    result = tvm.runtime.empty(shape, dtype.name)
    function["main"](*(tvm.runtime.tensor(each) for each in given), result)
    found: np.ndarray = result.numpy()
    return found


def _spread(scales: np.ndarray, shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    """The scales in the shape of the weight, each repeated for a run of elements along an axis."""
    for whole in (scales, scales.T):
        own = whole.shape
        if len(own) != len(shape) or any(size % each for size, each in zip(shape, own, strict=True)):
            continue
        found = whole
        for axis, size in enumerate(shape):
            found = np.repeat(found, size // own[axis], axis)
        yield found
