"""Runs a graph as the dnnl backend does: prepared, partitioned, its regions by the table interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from table_interpreter import InterpretedRegion
from tvm import relax

import annotated_region as ar
from annotated_region.compilation.code_generation import _named_constants, external_functions
from annotated_region.testing.dense_graphs.reference import Evaluation, bind_extents, extent_value
from annotated_region.testing.dense_graphs.values import Noise, Value, source

__all__ = ["DnnlEngine"]


class DnnlEngine:
    """A built graph; what stays on the host the reference computes in float32.

    Attributes
    ----------
    host_ops
        How many ops the host computed in the last call.
    """

    def __init__(self, mod: tvm.IRModule) -> None:
        """Partition and translate."""
        self.mod = ar.partition(mod, ["dnnl"])
        externals = external_functions(self.mod).get("dnnl", {})
        names = _named_constants(externals)
        self.regions = {name: (InterpretedRegion(func, names), func) for name, func in externals.items()}
        self.host_ops = 0

    def __call__(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The results of one call."""
        walk = _HostWalk(self)
        result = walk.function(self.mod["main"], [source(array) for array in inputs])
        self.host_ops = walk.count
        values = list(result) if isinstance(result, tuple) else [result]
        return [_rounded(value.clean) for value in values]

    def close(self) -> None:
        """Free the regions."""
        for region, _ in self.regions.values():
            region.close()


class _HostWalk(Evaluation):
    """Walks the partitioned function; each host op is rounded to float32."""

    def __init__(self, engine: DnnlEngine) -> None:
        super().__init__(engine.mod, Noise(np.random.default_rng(0)))
        self.engine = engine
        self.count = 0

    def call(self, call: relax.Call, scope: Any) -> Any:
        result = super().call(call, scope)
        if not isinstance(call.op, tvm.ir.Op):
            return result
        self.count += 1
        if isinstance(result, tuple):
            return tuple(source(_rounded(each.clean)) for each in result)
        return source(_rounded(result.clean))

    def called(self, name: tvm.ir.GlobalVar, func: relax.Function, arguments: Sequence[Any]) -> Any:
        if name not in self.engine.regions:
            return super().called(name, func, arguments)
        region, _ = self.engine.regions[name]
        scope: dict[Any, Any] = {}
        for param, argument in zip(func.params, arguments, strict=True):
            bind_extents(param.ty, argument, scope)
        types = list(getattr(func.ret_ty, "fields", [func.ret_ty]))
        results = [poisoned([extent_value(e, scope) for e in ty.shape.values], str(ty.dtype)) for ty in types]
        region([_handed(argument) for argument in arguments], results)
        values = tuple(source(result.numpy()) for result in results)
        return values if isinstance(func.ret_ty, tvm.ir.TupleType) else values[0]


def _rounded(array: np.ndarray) -> np.ndarray:
    return array.astype("float32") if array.dtype.kind == "f" else array


def _handed(argument: Any) -> Any:
    if isinstance(argument, Value):
        return tvm.runtime.tensor(np.ascontiguousarray(_rounded(argument.clean)))
    return tvm.runtime.ShapeTuple(argument)


def poisoned(shape: Sequence[int], dtype: str) -> tvm.runtime.Tensor:
    """Memory for a result that nobody has written to: NaN, or what no answer would be."""
    array = np.full(shape, np.nan, dtype) if dtype.startswith("float") else np.ones(shape, dtype)
    if dtype != "bool" and not dtype.startswith("float"):
        array = np.full(shape, 0x55, dtype)
    return tvm.runtime.tensor(array)
