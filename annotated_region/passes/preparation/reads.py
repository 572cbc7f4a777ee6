"""Who reads what: the variables that an expression reads, and the bindings that nothing reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tvm import relax

from annotated_region.annotations import annotation_of

__all__ = ["WHOLE", "annotated_variables", "reads_of", "without_dead_bindings"]

WHOLE = -1  # in place of a field's index: the variable is read as such, not through TupleGetItem


def reads_of(expr: relax.Expr) -> Iterator[tuple[relax.Var, int]]:
    """Every place in `expr`, nested code included, that reads a variable, with the index of the field."""
    if isinstance(expr, relax.Var):
        yield expr, WHOLE
    elif isinstance(expr, relax.TupleGetItem) and isinstance(expr.tuple_value, relax.Var):
        yield expr.tuple_value, expr.index
    else:
        for part in _parts(expr):
            yield from reads_of(part)


def annotated_variables(body: relax.SeqExpr) -> Iterator[relax.Var]:
    """What the annotations of a function read, and what they give."""
    for binding in (binding for block in body.blocks for binding in block.bindings):
        if annotation_of(binding.value) is not None:
            yield binding.var
            yield from (variable for variable, _ in reads_of(binding.value))
        elif isinstance(binding.value, relax.If):
            yield from annotated_variables(binding.value.true_branch)
            yield from annotated_variables(binding.value.false_branch)


def without_dead_bindings(function: relax.Function) -> relax.Function:
    """The function without the bindings of its dataflow blocks that nothing reads, not even through others.

    TVM's ``DeadCodeElimination`` does more than this, but takes time that is quadratic in what it removes:
    half a minute for 6000 bindings. This leaves next to nothing to it.

    Notes
    -----
    Linear in the size of the function.
    """
    reads = Counter(variable for variable, _ in reads_of(function.body))
    blocks = []
    for block in reversed(function.body.blocks):
        alive = _alive(block, reads)
        same = len(alive) == len(block.bindings)
        blocks.append(block if same else relax.DataflowBlock(alive, block.span))
    if all(new.same_as(old) for new, old in zip(blocks, reversed(function.body.blocks), strict=True)):
        return function
    return with_blocks(function, blocks[::-1])


def _alive(block: relax.BindingBlock, reads: Counter[relax.Var]) -> list[relax.Binding]:
    """The bindings that stay; `reads` is made to count their reads only."""
    if not isinstance(block, relax.DataflowBlock):
        return list(block.bindings)  # a call may be impure there
    alive = []
    for binding in reversed(block.bindings):
        if isinstance(binding, relax.VarBinding) and not reads[binding.var]:
            reads.subtract(variable for variable, _ in reads_of(binding.value))
        else:
            alive.append(binding)
    return alive[::-1]


def with_blocks(function: relax.Function, blocks: list[relax.BindingBlock]) -> relax.Function:
    """The function with other blocks and the same result."""
    body = relax.BlockBuilder().normalize(relax.SeqExpr(blocks, function.body.body, function.body.span))
    return relax.Function(
        function.params, body, function.ret_ty, function.is_pure, function.attrs, function.span
    )


def _parts(expr: relax.Expr) -> Iterator[relax.Expr]:
    match expr:
        case relax.Call():
            yield expr.op
            yield from expr.args
        case relax.Tuple():
            yield from expr.fields
        case relax.TupleGetItem():
            yield expr.tuple_value
        case relax.If():
            yield from (expr.cond, expr.true_branch, expr.false_branch)
        case relax.Function():
            yield expr.body
        case relax.SeqExpr():
            yield from (binding.value for block in expr.blocks for binding in block.bindings)
            yield expr.body
