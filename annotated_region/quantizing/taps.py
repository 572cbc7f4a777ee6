"""The function that gives values from its inside, as many at once as fit into a bound of memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tvm import relax

from annotated_region.expr_map import ExprMap, ExprSet
from annotated_region.targets.extents import size_of

__all__ = ["in_portions", "sizes_of", "tapped"]


def sizes_of(func: relax.Function, extents: Mapping[str, int]) -> ExprMap[int]:
    """The bytes of each value that a block of a function binds, where symbolic extents are these."""
    fixed = func.bind_symbolic_vars(dict(extents)) if extents else func
    pairs = zip(func.body.blocks, fixed.body.blocks, strict=True)
    return ExprMap(
        (binding.var, size_of(other.var.ty))
        for block, others in pairs
        for binding, other in zip(block.bindings, others.bindings, strict=True)
    )


def in_portions(values: Sequence[relax.Var], sizes: ExprMap[int], limit: int) -> Iterator[list[relax.Var]]:
    """The values in their order, in as few portions as their bytes allow; one may exceed the limit."""
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
    """The function that returns these of its values, as a tuple, and nothing else."""
    wanted = ExprSet(values)
    outside: ExprMap[relax.Var] = ExprMap()
    blocks = [_block(block, wanted, outside) for block in func.body.blocks]
    fields = [outside.get(value, value) for value in values]
    builder = relax.BlockBuilder()
    body = builder.normalize(relax.SeqExpr(blocks, builder.normalize(relax.Tuple(fields))))
    return relax.Function(func.params, body, None, func.is_pure, func.attrs, func.span)


def _block(block: relax.BindingBlock, wanted: ExprSet, outside: ExprMap[relax.Var]) -> relax.BindingBlock:
    """The block with another name, which is seen outside, for each of the values that only it sees."""
    if not isinstance(block, relax.DataflowBlock):
        return block
    shown: list[relax.Binding] = []
    for binding in block.bindings:
        if binding.var in wanted and isinstance(binding.var, relax.DataflowVar):
            outside[binding.var] = relax.Var(f"{binding.var.name}_tap", binding.var.ty)
            shown.append(relax.VarBinding(outside[binding.var], binding.var))
    return relax.DataflowBlock([*block.bindings, *shown], block.span) if shown else block
