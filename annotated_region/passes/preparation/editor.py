"""What a rewrite knows of the function around an operation, and where it puts new bindings."""

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

from annotated_region.expr_map import ExprMap
from annotated_region.origins import origin_of, recorded_origin, span_of, with_span
from annotated_region.passes.preparation.limits import limits_checked
from annotated_region.passes.preparation.reads import annotated_variables, reads_of
from annotated_region.passes.preparation.tensors import NUMPY_DTYPES
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
        By symbolic extent, what it is checked to be at most before the open block.
    when_bound
        Called with each variable and its value, if given.
    """

    target: relax.Var

    def __init__(self, body: relax.SeqExpr, claimants: Claimants | None = None) -> None:
        self.claimants = Claimants() if claimants is None else claimants
        self.when_bound: Callable[[relax.Var, relax.Expr], None] | None = None
        self.limits: dict[tvm.tirx.Var, int] = {}
        self._builder = relax.BlockBuilder()
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
        """The variable or constant that `expr` is another name of; `expr` itself if it is none."""
        while (value := self._other_name(expr)) is not None:
            expr = value
        return expr

    def value_of(self, expr: relax.Expr) -> relax.Expr:
        """What `expr` is bound to, seen through other names; a parameter is its own value."""
        origin = self.origin(expr)
        return self._definitions.get(origin, origin) if isinstance(origin, relax.Var) else origin

    def view_of(self, expr: relax.Expr) -> OpView | None:
        """The operation that computes `expr`, if it is a call to a Relax op."""
        value = self.value_of(expr)
        return OpView.of(value) if isinstance(value, relax.Call) else None

    def is_constant(self, expr: relax.Expr) -> bool:
        """Whether `expr` is a constant tensor."""
        origin = self.origin(expr)
        return isinstance(origin, Constant) and isinstance(origin.value, tvm.runtime.Tensor)

    def constant(self, expr: relax.Expr) -> np.ndarray | None:
        """The constant tensor that `expr` is, or None. Not to be written to: it may share memory."""
        if not self.is_constant(expr):
            return None
        tensor = expect(Constant, self.origin(expr)).value
        shared = str(tensor.dtype) in NUMPY_DTYPES and tensor.device.type == "cpu"
        return np.asarray(np.from_dlpack(tensor) if shared else tensor.numpy())

    def is_read_once(self, expr: relax.Expr) -> bool:
        """Whether a single place reads `expr`, so that what is folded into that place leaves no copy."""
        return self.reads(expr) == 1

    def reads(self, expr: relax.Expr) -> int:
        """In how many places `expr` is read, under any name; 0 for what is no variable."""
        origin = self.origin(expr)
        return self._reads[origin] if isinstance(origin, relax.Var) else 0

    def reads_first_field_only(self) -> bool:
        """Whether nothing reads another field of the tuple that is being rewritten, or all of it."""
        return self._fields.get(self.target, set()) <= {0}

    def borders_annotation(self, binding: relax.VarBinding) -> bool:
        """Whether a ``compiler_begin`` or ``compiler_end`` stands right before or behind a binding.

        Such a binding is the border of a region that the user drew; without it, or with another one in
        its place, the annotations would not describe the same region, or none at all.
        """
        if not self._annotated:
            return False
        near = {binding.var, *(variable for variable, _ in reads_of(binding.value))}
        return not self._annotated.isdisjoint(near)

    def emit(self, value: relax.Expr, role: str) -> relax.Var:
        """Bind `value` to a new variable that stands before the binding being rewritten.

        It is called after that binding and its role, ``lv3_scaled``, so that readers know where it comes from
        and a user may refer to it; no other variable of the function has its name. Its origin is that of the
        binding, unless `value` has one of its own.
        """
        value = self._with_origin(self.normalize(value))
        span = span_of(recorded_origin(value) or self._comes_from)
        variable = self._new_variable(self._unique(f"{self.target.name}_{role}"), value.ty, span)
        self.bind(relax.VarBinding(variable, value))
        self._reads[variable] = 1
        return variable

    def _with_origin(self, value: relax.Expr) -> relax.Expr:
        """A call with the origin of the binding that is being rewritten, unless it has one."""
        return value if recorded_origin(value) else with_span(value, span_of(self._comes_from))

    def span_of(self, view: OpView) -> Span:
        """Where an operation comes from, for a call that takes its place under another variable."""
        variable = self._bound.get(view.call, self.target)
        return span_of(origin_of(variable, view.call))

    def _unique(self, name: str) -> str:
        numbered = (f"{name}_{number}" for number in count(2))
        found = next(each for each in chain([name], numbered) if each not in self._names)
        self._names.add(found)
        return found

    def normalize(self, value: relax.Expr) -> relax.Expr:
        """`value` with its type filled in."""
        return self._builder.normalize(value)

    def bind(self, binding: relax.Binding) -> None:
        """Put a binding into the open block and remember what it defines."""
        self._bindings.append(binding)
        if isinstance(binding, relax.MatchCast):
            self.limits.update(limits_checked(binding, self.value_of(binding.value)))
        if isinstance(binding, relax.VarBinding):
            self._definitions[binding.var] = binding.value
            self._bound[binding.value] = binding.var
            if self.when_bound is not None:
                self.when_bound(binding.var, binding.value)
            self._count_as_reads_of_the_origin(binding.var)

    def attempt(self, rewrite: Rewrite, view: OpView, target: relax.Var) -> relax.Expr | None:
        """What `rewrite` makes of `view`, the value of `target`; None if that is of another type."""
        self.target = target
        self._comes_from = origin_of(target, view.call)
        mark = len(self._bindings)
        value = rewrite(view, self)
        if value is not None:
            value = self.normalize(value)
            if tvm_ffi.structural_equal(value.ty, target.ty):
                return self._with_origin(value)
        del self._bindings[mark:]
        return None

    @contextmanager
    def block(self, like: relax.BindingBlock) -> Iterator[list[relax.Binding]]:
        """Open a block of the kind of `like`; it takes the bindings until the context ends."""
        outside = self._bindings, self._new_variable
        self._bindings = []
        self._new_variable = relax.DataflowVar if isinstance(like, relax.DataflowBlock) else relax.Var
        try:
            yield self._bindings
        finally:
            self._bindings, self._new_variable = outside

    def _other_name(self, expr: relax.Expr) -> relax.Expr | None:
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
