"""The editor: use-def information about a function under rewriting, and insertion of new bindings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, count

import numpy as np
import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import Span

from annotated_region.arrays import array_of
from annotated_region.expr_map import ExprMap
from annotated_region.origins import origin_of, recorded_origin, span_of, with_span
from annotated_region.passes.preparation.borders import borders_watched
from annotated_region.passes.preparation.limits import limits_checked
from annotated_region.passes.preparation.reads import annotated_variables, reads_of
from annotated_region.targets.claimants import Claimants
from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import expect

__all__ = ["Editor", "Rewrite"]


class Editor:
    """The definitions and reads of one function, kept up to date while `sweep` rewrites it.

    Attributes
    ----------
    target
        The variable whose value is being rewritten.
    claimants
        The targets that the function is prepared for.
    limits
        By symbolic extent, the upper bound that an earlier check guarantees.
    when_bound
        Called for each new binding with its variable and value, if not None.
    """

    target: relax.Var

    def __init__(self, body: relax.SeqExpr, claimants: Claimants | None = None) -> None:
        self.claimants = Claimants() if claimants is None else claimants
        self.when_bound: Callable[[relax.Var, relax.Expr], None] | None = None
        self.limits: dict[tvm.tirx.Var, int] = {}
        self._builder = relax.BlockBuilder()
        self._borders = borders_watched()
        self._asking: relax.Var | None = None
        self._definitions: dict[relax.Var, relax.Expr] = {}
        self._bound: ExprMap[relax.Var] = ExprMap()
        self._comes_from = ""
        self._reads: Counter[relax.Var] = Counter()
        self._fields: dict[relax.Var, set[int]] = {}
        self._bindings: list[relax.Binding] = []
        self._new_variable: type[relax.Var] = relax.Var
        for variable, index in reads_of(body):
            self._reads[variable] += 1
            self._fields.setdefault(variable, set()).add(index)
        self._annotated = set(annotated_variables(body))
        self._names = {variable.name for variable in self._reads}

    def origin(self, expr: relax.Expr) -> relax.Expr:
        """The variable or constant that `expr` is an alias of; `expr` itself if it is not an alias."""
        while (value := self._other_name(expr)) is not None:
            expr = value
        return expr

    def value_of(self, expr: relax.Expr) -> relax.Expr:
        """The value that `expr` is bound to, through aliases; a parameter is its own value."""
        origin = self.origin(expr)
        if not isinstance(origin, relax.Var):
            return origin
        if self._borders is not None:
            self._borders.asked(origin, self._asking)
        return self._definitions.get(origin, origin)

    def view_of(self, expr: relax.Expr) -> OpView | None:
        """The operation that computes `expr`, if it is a call to a Relax op."""
        value = self.value_of(expr)
        return OpView.of(value) if isinstance(value, relax.Call) else None

    def is_constant(self, expr: relax.Expr) -> bool:
        """Whether `expr` is a constant tensor."""
        origin = self.origin(expr)
        return isinstance(origin, Constant) and isinstance(origin.value, tvm.runtime.Tensor)

    def constant(self, expr: relax.Expr) -> np.ndarray | None:
        """The constant tensor that `expr` is, or None. Read-only: it may share memory with the module."""
        if not self.is_constant(expr):
            return None
        return array_of(expect(Constant, self.origin(expr)).value)

    def is_read_once(self, expr: relax.Expr) -> bool:
        """Whether `expr` has a single reader, so that folding it into the reader makes it dead."""
        return self.reads(expr) == 1

    def view_read_once(self, expr: relax.Expr) -> OpView | None:
        """The operation that computes `expr`, if it is a call to a Relax op whose result one place reads.

        The value is looked up first, because counting the reads of a parameter would be a dependence.
        """
        view = self.view_of(expr)
        return view if view is not None and self.is_read_once(expr) else None

    def reads(self, expr: relax.Expr) -> int:
        """The number of uses of `expr`, through aliases; 0 if it is not a variable."""
        origin = self.origin(expr)
        if self._borders is not None and isinstance(origin, relax.Var):
            self._borders.counted(origin, self._asking)
        return self._reads[origin] if isinstance(origin, relax.Var) else 0

    def reads_first_field_only(self) -> bool:
        """Whether all uses of the tuple being rewritten are of its first field."""
        return self._fields.get(self.target, set()) <= {0}

    def borders_annotation(self, binding: relax.VarBinding) -> bool:
        """Whether a binding reads or is read by a ``compiler_begin`` or ``compiler_end``.

        Such a binding is on the boundary of a user's region; rewriting it could change the region that the
        annotations describe, or make them malformed.
        """
        if not self._annotated:
            return False
        near = {binding.var, *(variable for variable, _ in reads_of(binding.value))}
        return not self._annotated.isdisjoint(near)

    def is_held(self, binding: relax.VarBinding) -> bool:
        """Whether a binding belongs to another function, and is only visible to rewrites of this one."""
        return self._borders is not None and binding.var in self._borders.held

    def emit(self, value: relax.Expr, role: str) -> relax.Var:
        """Bind `value` to a new variable before the binding being rewritten.

        The variable is named after that binding and its role, such as ``lv3_scaled``, so that users can trace
        and pin it; the name is unique in the function. Its origin is that of `value` if it has one, else that
        of the binding.
        """
        value = self._with_origin(self.normalize(value))
        span = span_of(recorded_origin(value) or self._comes_from)
        variable = self._new_variable(self._unique(f"{self.target.name}_{role}"), value.ty, span)
        if self._borders is not None:
            self._borders.define(variable, self.target)
        self.bind(relax.VarBinding(variable, value))
        self._reads[variable] = 1
        return variable

    def _with_origin(self, value: relax.Expr) -> relax.Expr:
        """`value` with the origin of the binding being rewritten, unless it has an origin."""
        return value if recorded_origin(value) else with_span(value, span_of(self._comes_from))

    def span_of(self, view: OpView) -> Span:
        """The span with the origin of an operation, for a call that replaces it under another variable."""
        variable = self._bound.get(view.call, self.target)
        return span_of(origin_of(variable, view.call))

    def _unique(self, name: str) -> str:
        if self._borders is not None:
            self._borders.named(name, self.target)
        numbered = (f"{name}_{number}" for number in count(2))
        found = next(each for each in chain([name], numbered) if each not in self._names)
        self._names.add(found)
        return found

    def normalize(self, value: relax.Expr) -> relax.Expr:
        """`value` with its type inferred."""
        return self._builder.normalize(value)

    def bind(self, binding: relax.Binding) -> None:
        """Append a binding to the open block and record its definition."""
        self._bindings.append(binding)
        if self._borders is not None:
            self._borders.bound(binding)
        if isinstance(binding, relax.MatchCast):
            self.limits.update(limits_checked(binding, self.value_of(binding.value)))
        if isinstance(binding, relax.VarBinding):
            self._definitions[binding.var] = binding.value
            self._bound[binding.value] = binding.var
            if self.when_bound is not None:
                self.when_bound(binding.var, binding.value)
            self._count_as_reads_of_the_origin(binding.var)

    def attempt(self, rewrite: Rewrite, view: OpView, target: relax.Var) -> relax.Expr | None:
        """The result of `rewrite` on `view`, the value of `target`; None if its type differs.

        If the rewrite fails, the bindings that it emitted are removed.
        """
        self.target = self._asking = target
        self._comes_from = origin_of(target, view.call)
        mark = len(self._bindings)
        value = rewrite(view, self)
        self._asking = None
        if value is not None:
            value = self.normalize(value)
            if tvm_ffi.structural_equal(value.ty, target.ty):
                return self._with_origin(value)
        del self._bindings[mark:]
        return None

    @contextmanager
    def block(self, like: relax.BindingBlock) -> Iterator[list[relax.Binding]]:
        """Open a block of the same class as `like`; bindings are appended to it until the context ends."""
        outside = self._bindings, self._new_variable
        self._bindings = []
        self._new_variable = relax.DataflowVar if isinstance(like, relax.DataflowBlock) else relax.Var
        try:
            yield self._bindings
        finally:
            self._bindings, self._new_variable = outside

    def _other_name(self, expr: relax.Expr) -> relax.Expr | None:
        if self._borders is not None and isinstance(expr, relax.Var):
            self._borders.asked(expr, self._asking)
        value = self._definitions.get(expr) if isinstance(expr, relax.Var) else None
        if isinstance(value, relax.TupleGetItem):
            whole = self.value_of(value.tuple_value)
            value = whole.fields[value.index] if isinstance(whole, relax.Tuple) else None
        return value if isinstance(value, relax.Var | Constant) else None

    def _count_as_reads_of_the_origin(self, variable: relax.Var) -> None:
        origin = self.origin(variable)
        if isinstance(origin, relax.Var) and origin is not variable:
            self._reads[origin] += self._reads[variable] - 1


Rewrite = Callable[[OpView, Editor], relax.Expr | None]
