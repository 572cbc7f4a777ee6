"""Counts the transposes that a module executes, original or planned."""

from __future__ import annotations

import tvm
from tvm import relax

from annotated_region.functions.modules import functions_to_partition
from annotated_region.layout_plan.described_call import described
from annotated_region.layout_plan.plan import Cost
from annotated_region.layout_plan.reading import Names, bytes_of, read_block

__all__ = ["transposes_in", "transposes_of"]

_TRANSPOSING = ("relax.permute_dims", "relax.layout_transform")


def transposes_of(mod: tvm.IRModule) -> Cost:
    """The transposes in the top-level blocks of a module, and the bytes that they move.

    A ``permute_dims`` or ``layout_transform`` counts, lowered or not, unless it only moves axes of extent one
    or its operand is computed from constants.
    """
    total = Cost()
    for _, func in functions_to_partition(mod):
        for block in func.body.blocks:
            total += transposes_in(block, mod)
    return total


def transposes_in(block: relax.BindingBlock, mod: tvm.IRModule) -> Cost:
    """The transposes in one block."""
    names = Names()
    read_block(block, mod, names)
    total = Cost()
    for binding in block.bindings:
        call = described(binding.value, mod, names.inlined) if isinstance(binding.value, relax.Call) else None
        if call is None or call.info.name not in _TRANSPOSING:
            continue
        source, result = names.view(call.operands[0]), names.view(binding.var)
        if source is None or result is None or source.root.is_constant:
            continue
        if source.root != result.root or source.storage() != result.storage():
            total += Cost(bytes_of(result.root), 1)
    return total
