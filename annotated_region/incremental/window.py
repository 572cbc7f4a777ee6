"""A stretch of a function as a function of its own, with what stands before and behind it hidden.

::

    lv6 = before()                lv6 is what `lv7` reads; how it is made is hidden
    lv7 = tanh(lv6)               the cut before the stretch: seen, and not rewritten
    lv8 = add(lv7, c)
    lv9 = tanh(lv8)               the cut at the end of the stretch
    rest = behind(lv9)

Nothing that preparation, targets or grouping know looks into the two calls.
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
        The bindings.
    head
        The binding before them, if they do not begin the function.
    is_last
        Whether they end the function.
    """

    source: Source
    bindings: Sequence[relax.Binding]
    head: relax.Binding | None
    is_last: bool

    @property
    def first(self) -> list[relax.Binding]:
        """What stands before the bindings: what the head reads, and the head."""
        if self.head is None:
            return []
        return [*self._hidden(self.head), self.head]

    @property
    def rest(self) -> list[relax.Binding]:
        """What stands behind the bindings."""
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
        """The module whose function is made of the given parts, from what is first to the rest."""
        func = self.source.func
        bindings = [binding for part in parts for binding in part]
        result = func.body.body if self.is_last else bindings[-1].var
        body = typed(relax.SeqExpr([relax.DataflowBlock(bindings)], result), result.ty)
        stretch = relax.Function(func.params, body, result.ty, func.is_pure, func.attrs)
        return tvm.IRModule({self.source.name: stretch})
