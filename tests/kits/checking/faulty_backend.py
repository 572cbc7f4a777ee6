"""A target that is wrong where it is told to be: it computes op by op, with faults in the values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

import annotated_region as ar
from annotated_region.testing.registry import claim_ops
from kits.checking.faults import FAULTS, Fault, spoiling
from kits.checking.op_kernels import Array, call_names, computed, unchanged

__all__ = ["FAULTS", "NAME", "Fault", "register"]

NAME = "faulty"


def register(
    ops: Iterable[str], fault: Fault | None = None, built: list[int] | None = None, **described: Any
) -> None:
    """Make the target known.

    Parameters
    ----------
    ops
        The ops that it claims.
    fault
        What it does wrong.
    built
        Gets the number of functions of each build.
    """

    def generate(
        functions: Sequence[relax.Function], _options: Mapping[str, Any], _names: Mapping[Any, str]
    ) -> list[Any]:
        if built is not None:
            built.append(len(functions))
        for function in functions:
            symbol = str(function.attrs["global_symbol"])
            tvm_ffi.register_global_func(symbol, _region(function, fault), override=True)
        return []

    ar.register_backend(NAME, **described)
    claim_ops(NAME, *ops)
    tvm_ffi.register_global_func(f"relax.ext.{NAME}", generate, override=True)


def _region(function: relax.Function, fault: Fault | None) -> Callable[..., None]:
    count = len(function.params)
    is_wrong = fault is not None and fault.is_in(list(call_names(function).values()))
    change = spoiling(fault) if fault is not None and is_wrong else unchanged

    def region(*tensors: Any) -> None:
        results, _values = computed(function, list(map(_given, tensors[:count])), change)
        for result, room in zip(results, tensors[count:], strict=True):
            room.copyfrom(np.ascontiguousarray(result))

    return region


def _given(value: Any) -> Array | tuple[int, ...]:
    return value.numpy() if isinstance(value, tvm.runtime.Tensor) else tuple(map(int, value))
