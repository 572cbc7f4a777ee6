"""Uses of variables: what an expression reads, fields of known tuples, and removal of dead bindings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import tvm_ffi
from tvm import relax

from annotated_region.annotations import annotation_of

__all__ = [
    "WHOLE",
    "annotated_variables",
    "reads_of",
    "with_fields_read_directly",
    "without_dead_bindings",
]

WHOLE = -1  # instead of a field index: the variable is read directly, not through TupleGetItem


def reads_of(expr: relax.Expr) -> Iterator[tuple[relax.Var, int]]:
    """Every use of a variable in `expr`, including nested code, with the index of the field read."""
    if isinstance(expr, relax.Var):
        yield expr, WHOLE
    elif isinstance(expr, relax.TupleGetItem) and isinstance(expr.tuple_value, relax.Var):
        yield expr.tuple_value, expr.index
    else:
        for part in _parts(expr):
            yield from reads_of(part)


def annotated_variables(body: relax.SeqExpr) -> Iterator[relax.Var]:
    """The operands and results of the annotations of a function."""
    for binding in (binding for block in body.blocks for binding in block.bindings):
        if annotation_of(binding.value) is not None:
            yield binding.var
            yield from (variable for variable, _ in reads_of(binding.value))
        elif isinstance(binding.value, relax.If):
            yield from annotated_variables(binding.value.true_branch)
            yield from annotated_variables(binding.value.false_branch)


def with_fields_read_directly(function: relax.Function) -> relax.Function:
    """The function with ``field = (a, b)[0]`` as ``field = a``, outside of branches.

    TVM's ``CanonicalizeBindings`` does this as well, but not for a tuple that repeats another one: for
    ``(whole[0], whole[1])``, as its importer of PyTorch packs the largest element and its place. Such a tuple
    would separate the regions before and behind it.

    Notes
    -----
    Linear in the size of the function.
    """
    tuples: dict[relax.Var, relax.Tuple] = {}
    blocks = [_with_fields(block, tuples) for block in function.body.blocks]
    if all(new.same_as(old) for new, old in zip(blocks, function.body.blocks, strict=True)):
        return function
    return with_blocks(function, blocks)


def _with_fields(block: relax.BindingBlock, tuples: dict[relax.Var, relax.Tuple]) -> relax.BindingBlock:
    """The block with fields in the place of reads of known tuples; adds its own tuples to `tuples`."""
    bindings: list[relax.Binding] = []
    for binding in block.bindings:
        if isinstance(binding, relax.VarBinding) and isinstance(binding.value, relax.Tuple):
            tuples[binding.var] = binding.value
        bindings.append(_with_field(binding, tuples))
    if all(new.same_as(old) for new, old in zip(bindings, block.bindings, strict=True)):
        return block
    kind = relax.DataflowBlock if isinstance(block, relax.DataflowBlock) else relax.BindingBlock
    return kind(bindings, block.span)


def _with_field(binding: relax.Binding, tuples: Mapping[relax.Var, relax.Tuple]) -> relax.Binding:
    read = binding.value if isinstance(binding, relax.VarBinding) else None
    if not isinstance(read, relax.TupleGetItem) or not isinstance(read.tuple_value, relax.Var):
        return binding
    whole = tuples.get(read.tuple_value)
    if whole is None or not tvm_ffi.structural_equal(whole.fields[read.index].ty, binding.var.ty):
        return binding
    return relax.VarBinding(binding.var, whole.fields[read.index], binding.span)


def without_dead_bindings(function: relax.Function) -> relax.Function:
    """The function without transitively dead bindings in its dataflow blocks.

    TVM's ``DeadCodeElimination`` does more, but is quadratic in the number of bindings it removes: half a
    minute for 6000 bindings. Running this first leaves it almost nothing to remove.

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
    """The live bindings; subtracts the reads of dead ones from `reads`."""
    if not isinstance(block, relax.DataflowBlock):
        return list(block.bindings)  # calls outside dataflow blocks may be impure
    alive = []
    for binding in reversed(block.bindings):
        if isinstance(binding, relax.VarBinding) and not reads[binding.var]:
            reads.subtract(variable for variable, _ in reads_of(binding.value))
        else:
            alive.append(binding)
    return alive[::-1]


def with_blocks(function: relax.Function, blocks: list[relax.BindingBlock]) -> relax.Function:
    """The function with its blocks replaced, and the same result expression."""
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
