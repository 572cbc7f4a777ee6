"""Runs a graph as the dnnl backend does: prepared, partitioned, its regions by the table interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType
from typing import Any

import numpy as np
import tvm
from tvm import relax

import annotated_region as ar
from annotated_region.backends.dnnl import installation
from annotated_region.backends.dnnl.rewriting.rewriter import verification
from annotated_region.testing.dnnl_verifier import verify
from kits.hunt.engines import LeftOutError
from kits.hunt.partitioned_engine import PartitionedEngine, Result, poisoned
from kits.hunt.table_interpreter import InterpretedRegion

__all__ = ["build"]

installation._find = cache(installation._find)  # what is installed stays so while a hunt runs


def build(mod: tvm.IRModule, options: Mapping[str, object] = MappingProxyType({})) -> PartitionedEngine:
    """A graph on dnnl with options of that target; the rewriter verifies each of its steps."""
    partitioned = ar.partition(mod, ["dnnl"])
    with verification(verify):
        return PartitionedEngine(partitioned, partial(_Region, options=options))


class _Region:
    """A region from its tables."""

    def __init__(self, func: relax.Function, names: Mapping[Any, str], options: Mapping[str, object]) -> None:
        self._region = InterpretedRegion(func, names, options)

    def __call__(self, arguments: Sequence[Any], results: Sequence[Result]) -> list[np.ndarray]:
        made = [poisoned(*result) for result in results]
        try:
            self._region([_handed(argument) for argument in arguments], made)
        except ValueError as error:
            if "which has no elements" not in str(error):
                raise
            raise LeftOutError("dnnl refuses a call with an extent of 0") from error
        return [tensor.numpy() for tensor in made]

    def __del__(self) -> None:
        if hasattr(self, "_region"):
            self._region.close()


def _handed(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return tvm.runtime.tensor(np.ascontiguousarray(argument))
    return tvm.runtime.ShapeTuple(argument)
