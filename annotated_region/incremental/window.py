"""A stretch of a function as a separate function, with opaque calls in place of its surroundings.

::

    lv6 = before()                the operand of `lv7`; how it is computed is hidden
    lv7 = tanh(lv6)               the cut before the stretch: visible, but not rewritten
    lv8 = add(lv7, c)
    lv9 = tanh(lv8)               the cut at the end of the stretch
    rest = behind(lv9)

Preparation, targets and grouping cannot look into these two calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import tvm
from tvm import relax

from annotated_region.expr_map import ExprSet
from annotated_region.functions.rewriting import typed
from annotated_region.incremental.source import Source
from annotated_region.passes.preparation.reads import reads_of

__all__ = ["Window"]

_REST = "annotated_region_rest"


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of the bindings of a function.

    Attributes
    ----------
    source
        The function.
    bindings
        The bindings of the stretch.
    head
        The binding before them, unless they start the function.
    is_last
        Whether they end the function.
    """

    source: Source
    bindings: Sequence[relax.Binding]
    head: relax.Binding | None
    is_last: bool

    @property
    def first(self) -> list[relax.Binding]:
        """The bindings before the stretch: placeholders for the operands of the head, and the head."""
        if self.head is None:
            return []
        return [*self._hidden(self.head), self.head]

    @property
    def rest(self) -> list[relax.Binding]:
        """The bindings after the stretch."""
        if self.is_last:
            return []
        end = self.bindings[-1].var
        call = relax.op.call_pure_packed("annotated_region.behind", end, ty_args=end.ty)
        return [relax.VarBinding(relax.Var(_REST, end.ty), typed(call, end.ty))]

    def _hidden(self, head: relax.Binding) -> Iterator[relax.Binding]:
        params = ExprSet(self.source.func.params)
        for var in ExprSet(var for var, _field in reads_of(head.value)):
            if var not in params:
                call = relax.op.call_pure_packed("annotated_region.before", ty_args=var.ty)
                yield relax.VarBinding(var, typed(call, var.ty))

    def module(self, parts: Sequence[Sequence[relax.Binding]]) -> tvm.IRModule:
        """The module whose function consists of the given parts, in order."""
        func = self.source.func
        bindings = [binding for part in parts for binding in part]
        result = func.body.body if self.is_last else bindings[-1].var
        body = typed(relax.SeqExpr([relax.DataflowBlock(bindings)], result), result.ty)
        stretch = relax.Function(func.params, body, result.ty, func.is_pure, func.attrs)
        return tvm.IRModule({self.source.name: stretch})
