"""Runs a partitioned graph: its regions on a backend, what stays on the host by the reference in float32."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import tvm
from tvm import relax

from annotated_region.compilation.code_generation import _named_constants, external_functions
from kits.dense_graphs.reference import Evaluation, bind_extents, extent_value
from kits.dense_graphs.values import Noise, Value, is_float, source

__all__ = ["MakeRegion", "PartitionedEngine", "Region", "Result", "poisoned", "rounded"]

Result = tuple[tuple[int, ...], str]
"""The extents and the type of the elements of a result."""


class Region(Protocol):
    """An external function, ready to run."""

    def __call__(self, arguments: Sequence[Any], results: Sequence[Result]) -> list[np.ndarray]:
        """Its results; arguments are arrays, and tuples of numbers for shapes."""


MakeRegion = Callable[[relax.Function, Mapping[Any, str]], Region]


class PartitionedEngine:
    """A partitioned module whose regions are ready.

    Attributes
    ----------
    host_ops
        How many ops the host computed in the last call.
    """

    def __init__(self, mod: tvm.IRModule, make: MakeRegion) -> None:
        """Make the regions of `mod`."""
        self.mod = mod
        functions = [pair for each in external_functions(mod).values() for pair in each.items()]
        names = _named_constants(dict(functions))
        self.regions = {name: make(func, names) for name, func in functions}
        self.host_ops = 0

    def __call__(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The results of one call."""
        walk = _HostWalk(self.mod, self.regions)
        with np.errstate(all="ignore"):  # infinities are computed with
            result = walk.function(self.mod["main"], [source(array) for array in inputs])
        self.host_ops = walk.count
        values = list(result) if isinstance(result, tuple) else [result]
        return [
            rounded(value.clean, dtype) for value, dtype in zip(values, _types(self.mod["main"]), strict=True)
        ]


class _HostWalk(Evaluation):
    """Walks the partitioned function; each host op is rounded to float32."""

    def __init__(self, mod: tvm.IRModule, regions: Mapping[tvm.ir.GlobalVar, Region]) -> None:
        super().__init__(mod, Noise(np.random.default_rng(0)))
        self.regions = regions
        self.count = 0

    def call(self, call: relax.Call, scope: Any) -> Any:
        result = super().call(call, scope)
        if not isinstance(call.op, tvm.ir.Op):
            return result
        self.count += 1
        if isinstance(result, tuple):
            fields = zip(result, call.ty.fields, strict=True)
            return tuple(source(rounded(each.clean, str(field.dtype))) for each, field in fields)
        return source(rounded(result.clean, str(call.ty.dtype)))

    def called(self, name: tvm.ir.GlobalVar, func: relax.Function, arguments: Sequence[Any]) -> Any:
        if name not in self.regions:
            return super().called(name, func, arguments)
        scope: dict[Any, Any] = {}
        for param, argument in zip(func.params, arguments, strict=True):
            bind_extents(param.ty, argument, scope)
        is_tuple = isinstance(func.ret_ty, tvm.ir.TupleType)
        types = list(func.ret_ty.fields) if is_tuple else [func.ret_ty]
        wanted = [(tuple(extent_value(e, scope) for e in ty.shape.values), str(ty.dtype)) for ty in types]
        given = [
            rounded(each.clean, str(param.ty.dtype)) if isinstance(each, Value) else each
            for param, each in zip(func.params, arguments, strict=True)
        ]
        values = tuple(source(result) for result in self.regions[name](given, wanted))
        return values if is_tuple else values[0]


def _types(func: relax.Function) -> list[str]:
    """Of the elements of each result."""
    is_tuple = isinstance(func.ret_ty, tvm.ir.TupleType)
    return [str(ty.dtype) for ty in (func.ret_ty.fields if is_tuple else [func.ret_ty])]


def rounded(array: np.ndarray, dtype: str = "float32") -> np.ndarray:
    """As an engine holds it: floats in as many bits as their type has."""
    with np.errstate(over="ignore"):
        return array.astype(dtype) if is_float(array.dtype) else array


def poisoned(shape: Sequence[int], dtype: str) -> tvm.runtime.Tensor:
    """Memory for a result that nobody has written to: NaN, or what no answer would be."""
    filling = np.nan if is_float(np.dtype(dtype)) else {"b": True}.get(np.dtype(dtype).kind, 0x55)
    return tvm.runtime.tensor(np.full(shape, filling, dtype))
