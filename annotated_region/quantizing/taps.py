"""Functions that return intermediate values of a function, in portions that fit a memory limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tvm import relax

from annotated_region.expr_map import ExprMap, ExprSet
from annotated_region.targets.extents import size_of

__all__ = ["in_portions", "sizes_of", "tapped"]


def sizes_of(func: relax.Function, extents: Mapping[str, int]) -> ExprMap[int]:
    """The size in bytes of each value bound in a block of a function, for given symbolic extents."""
    fixed = func.bind_symbolic_vars(dict(extents)) if extents else func
    pairs = zip(func.body.blocks, fixed.body.blocks, strict=True)
    return ExprMap(
        (binding.var, size_of(other.var.ty))
        for block, others in pairs
        for binding, other in zip(block.bindings, others.bindings, strict=True)
    )


def in_portions(values: Sequence[relax.Var], sizes: ExprMap[int], limit: int) -> Iterator[list[relax.Var]]:
    """The values in order, in portions of at most `limit` bytes; a portion of one value may exceed it."""
    portion: list[relax.Var] = []
    taken = 0
    for value in values:
        size = sizes[value]
        if portion and taken + size > limit:
            yield portion
            portion, taken = [], 0
        portion.append(value)
        taken += size
    if portion:
        yield portion


def tapped(func: relax.Function, values: Sequence[relax.Var]) -> relax.Function:
    """The function with a tuple of the given values as its only result."""
    wanted = ExprSet(values)
    outside: ExprMap[relax.Var] = ExprMap()
    blocks = [_block(block, wanted, outside) for block in func.body.blocks]
    fields = [outside.get(value, value) for value in values]
    builder = relax.BlockBuilder()
    body = builder.normalize(relax.SeqExpr(blocks, builder.normalize(relax.Tuple(fields))))
    return relax.Function(func.params, body, None, func.is_pure, func.attrs, func.span)


def _block(block: relax.BindingBlock, wanted: ExprSet, outside: ExprMap[relax.Var]) -> relax.BindingBlock:
    """The block with an additional output variable for each wanted value that is local to it."""
    if not isinstance(block, relax.DataflowBlock):
        return block
    exported: list[relax.Binding] = []
    for binding in block.bindings:
        if binding.var in wanted and isinstance(binding.var, relax.DataflowVar):
            outside[binding.var] = relax.Var(f"{binding.var.name}_tap", binding.var.ty)
            exported.append(relax.VarBinding(outside[binding.var], binding.var))
    return relax.DataflowBlock([*block.bindings, *exported], block.span) if exported else block
