"""One step of each recurrent layer."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from annotated_region.importing.onnx_models.converters.activations import Activation
from annotated_region.importing.onnx_models.converters.node import OnnxNode, dtype_of
from annotated_region.importing.onnx_models.converters.recurrence import Cell, Product, State

__all__ = ["gru_cell", "lstm_cell", "rnn_cell"]


def lstm_cell(
    node: OnnxNode, functions: Sequence[Activation], product: Product, peepholes: Sequence[relax.Expr]
) -> Cell:
    """Gates in the order i, o, f, c; `peepholes` are those of i, o and f, or none.

    If the gates i and f are coupled (``input_forget``), f is 1 - i.
    """
    gate, update, squash = functions
    is_coupled = bool(node.integer("input_forget", 0, 0, 1))

    def seen(part: relax.Expr, cell: relax.Expr, number: int) -> relax.Expr:
        return relax.op.add(part, relax.op.multiply(peepholes[number], cell)) if peepholes else part

    def step(part: relax.Expr, state: State) -> State:
        before, cell = state
        gates = node.emit(relax.op.split(relax.op.add(part, product(before)), 4, axis=1))
        i, o, f, c = (relax.TupleGetItem(gates, number) for number in range(4))
        taken = node.emit(gate(seen(i, cell, 0)))
        rest = relax.op.subtract(relax.const(1.0, dtype_of(cell)), taken)
        share = rest if is_coupled else gate(seen(f, cell, 2))
        kept = relax.op.multiply(share, cell)
        added = relax.op.multiply(taken, update(c))
        after = node.emit(relax.op.add(kept, added))
        return relax.op.multiply(gate(seen(o, after, 1)), squash(after)), after

    return step


def gru_cell(
    node: OnnxNode,
    functions: Sequence[Activation],
    product: Product,
    new_product: Product | None,
    bias: relax.Expr | None,
) -> Cell:
    """Gates in the order z, r, h.

    Parameters
    ----------
    node, functions
        The node, and its activations of the gates and of the new state.
    product
        The product of a state with the weights of the gates z and r, and also of h if the reset gate is
        applied after that product (``linear_before_reset``).
    new_product
        The product of a reset state with the weights of h; None if `product` includes it.
    bias
        The bias of the state; None if there is none, or if it has been added to the input's bias.
    """
    gate, update = functions

    def step(part: relax.Expr, state: State) -> State:
        (before,) = state
        gates = product(before) if bias is None else relax.op.add(product(before), bias)
        given = node.emit(relax.op.split(part, 3, axis=1))
        seen = node.emit(relax.op.split(gates, 3 if new_product is None else 2, axis=1))
        z, r = (
            node.emit(gate(relax.op.add(relax.TupleGetItem(given, number), relax.TupleGetItem(seen, number))))
            for number in (0, 1)
        )
        reset = (
            relax.op.multiply(r, relax.TupleGetItem(seen, 2))
            if new_product is None
            else new_product(node.emit(relax.op.multiply(r, before)))
        )
        new = update(relax.op.add(relax.TupleGetItem(given, 2), reset))
        one = relax.const(1.0, dtype_of(before))
        return (
            relax.op.add(relax.op.multiply(relax.op.subtract(one, z), new), relax.op.multiply(z, before)),
        )

    return step


def rnn_cell(functions: Sequence[Activation], product: Product) -> Cell:
    """One gate, which is the state."""
    (function,) = functions

    def step(part: relax.Expr, state: State) -> State:
        return (function(relax.op.add(part, product(state[0]))),)

    return step
