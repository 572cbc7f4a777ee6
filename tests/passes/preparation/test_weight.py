"""Every rewrite lowers the weight of its value: asserted in the whole suite, and seen to fail here."""

from __future__ import annotations

import pytest
from kits.passes.preparation.preparation_kit import constant, module, prepare
from tvm import relax

from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.sweep import checking, sweep
from annotated_region.targets.op_view import OpView

op = relax.op


def swapped(view: OpView, _editor: Editor) -> relax.Expr:
    return op.add(view.args[1], view.args[0])


def renamed(view: OpView, editor: Editor) -> relax.Expr:
    return op.nn.relu(editor.emit(op.tanh(view.args[0]), "more"))


def doubled(view: OpView, editor: Editor) -> relax.Expr:
    return op.multiply(editor.emit(op.multiply(view.args[0], view.args[1]), "more"), view.args[1])


ENDLESS: dict[str, tuple[str, Rewrite]] = {
    "operands that change places": ("relax.add", swapped),
    "more of the same": ("relax.multiply", doubled),
    "another op in front": ("relax.nn.relu", renamed),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_rewrite_that_would_not_end_is_refused(name: str) -> None:
    op_name, rewrite = ENDLESS[name]
    mod = module(lambda _builder, x: op.nn.relu(op.multiply(op.add(x, op.tanh(x)), op.tanh(x))), x=(2, 3))
    with checking(), pytest.raises(AssertionError, match="which weighs"):
        sweep(mod["main"], {op_name: [rewrite]})


def test_a_chain_of_double_reads_has_a_weight() -> None:
    """As a tree it has 2 ** 200 leaves."""

    def body(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        for _ in range(200):
            x = builder.emit(op.add(x, op.multiply(x, constant(3))))
        return op.multiply(relax.const(2.0), x)

    prepare(module(body, x=(2, 3)))
