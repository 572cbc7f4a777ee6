"""The functions that can be processed in parts: single dataflow blocks of ops with static shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tvm
import tvm_ffi
from tvm import relax

from annotated_region.annotations import annotation_of
from annotated_region.functions.modules import functions_to_partition
from annotated_region.tvm_adapter.types import shape_vars_of

__all__ = ["Source", "reason_against_bindings", "source_of"]

_ATTRIBUTES = frozenset({"global_symbol", "num_input"})

# Ops that depend on the whole function: their types change with all their readers, equal ones are merged
# across parts, or they write to their operands.
_GLOBAL_OPS = frozenset(
    f"relax.{name}"
    for name in (
        *("cumsum", "cumprod", "arange", "full", "zeros", "ones"),
        *("call_tir", "call_tir_inplace", "call_inplace_packed", "call_dps_packed"),
    )
)


@dataclass(frozen=True, slots=True)
class Source:
    """An input function.

    Attributes
    ----------
    name
        Its name.
    func
        The function.
    bindings
        Its bindings.
    """

    name: tvm.ir.GlobalVar
    func: relax.Function
    bindings: Sequence[relax.Binding]

    def frame_equals(self, other: Source) -> bool:
        """Whether two functions differ only in bindings: equal name, parameters, result and attributes."""
        mine, theirs = list(self.func.params), list(other.func.params)
        return (
            self.name.name_hint == other.name.name_hint
            and len(mine) == len(theirs)
            and all(left.same_as(right) for left, right in zip(mine, theirs, strict=True))
            and self.func.body.body.same_as(other.func.body.body)
            and self.func.is_pure == other.func.is_pure
            and bool(tvm_ffi.structural_equal(self.func.attrs, other.func.attrs))
        )


def source_of(mod: tvm.IRModule) -> Source | str:
    """The only function of a module, or the reason why the module cannot be processed in parts."""
    functions = list(functions_to_partition(mod))
    if len(functions) != 1 or len(mod.functions) != 1:
        return "the module has several functions"
    name, func = functions[0]
    blocks = list(func.body.blocks)
    if len(blocks) != 1 or not isinstance(blocks[0], relax.DataflowBlock):
        return "the function is not one dataflow block"
    if not isinstance(func.body.body, relax.Var):
        return "the result of the function is not a variable"
    if func.attrs and not _ATTRIBUTES.issuperset(func.attrs.keys()):
        return "the function has further attributes"
    if any(shape_vars_of(param.ty) or isinstance(param.ty, tvm.ir.PrimType) for param in func.params):
        return "shapes are not static"
    return Source(name, func, blocks[0].bindings[:])


def reason_against_bindings(bindings: Sequence[relax.Binding]) -> str:
    """The reason why a function with these bindings cannot be processed in parts; empty if it can."""
    for binding in bindings:
        value = binding.value
        if not isinstance(binding, relax.VarBinding):
            return f"{binding.var.name!r} is a cast"
        if isinstance(value, relax.Call):
            if not isinstance(value.op, tvm.ir.Op) or annotation_of(value) is not None:
                return f"{binding.var.name!r} is not a call of an op"
            if value.op.name in _GLOBAL_OPS:
                return f"{binding.var.name!r} is {value.op.name}, which depends on the whole function"
        elif not isinstance(value, relax.Var | relax.Tuple | relax.TupleGetItem):
            return f"{binding.var.name!r} is not an op, tuple, field or alias"
    return ""
