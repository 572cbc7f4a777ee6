"""Rewrites a binding block according to its plan.

Each value is bound once in the storage in which its op produces it; conversions to other storages are emitted
at their first use and reused. The original storage is one of them, under the original variable, so that
unchanged readers keep their bindings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import tvm
from tvm import relax
from tvm.ir import Span

from annotated_region.layout_plan.copies import conversions, converted, converted_constant, same_shape
from annotated_region.layout_plan.described_call import changed_call
from annotated_region.layout_plan.options import StepOption
from annotated_region.layout_plan.reading import ComputingBinding, Names, variables_of
from annotated_region.layout_plan.views import Storage, TensorView, extents_of
from annotated_region.layouts import Layout
from annotated_region.layouts.layout import Extent
from annotated_region.origins import origin_of, span_of
from annotated_region.tvm_adapter.nodes import Constant

__all__ = ["BlockWriter"]


class BlockWriter:
    """The new bindings of a block.

    Parameters
    ----------
    block
        The original block.
    names
        The views of its variables.
    nested
        Rewrites the bodies nested in an unchanged value.
    """

    def __init__(
        self, block: relax.BindingBlock, names: Names, nested: Callable[[relax.Binding], relax.Binding]
    ) -> None:
        self.names = names
        self.nested = nested
        self.bindings: list[relax.Binding] = []
        self.variable = relax.DataflowVar if isinstance(block, relax.DataflowBlock) else relax.Var
        self.builder = relax.BlockBuilder()
        self.span: Span | None = None
        # Variables of this block that are not bound yet, with their original bindings; None if these were
        # replaced.
        self.unbound: dict[relax.Var, relax.Binding | None] = {b.var: b for b in block.bindings}
        # For each root and storage, the expressions that hold it, in different shapes.
        self.stored: dict[int, dict[Storage, list[relax.Expr]]] = {}

    def write(self, steps: Sequence[ComputingBinding], options: Sequence[StepOption]) -> None:
        """Write all steps in order."""
        for step, option in zip(steps, options, strict=True):
            self.span = span_of(origin_of(step.binding.var, step.binding.value))
            if option.change is None:
                self.keep(step)
            else:
                self.change(step, option)

    def keep(self, step: ComputingBinding) -> None:
        """Write a step unchanged."""
        self.provide(step.reads)
        del self.unbound[step.binding.var]
        self.bindings.append(self.nested(step.binding))
        self.note(step.binding.var, step.results, [None] * len(step.results))

    def change(self, step: ComputingBinding, option: StepOption) -> None:
        """Write a step in another layout."""
        assert step.call is not None
        assert option.change is not None
        layouts = option.change.operands
        operands = {
            index: self.operand(expr, view, layouts.get(index))
            for index, (expr, view) in enumerate(zip(step.call.operands, step.operands, strict=True))
        }
        call = changed_call(option.change, operands, self.builder)
        assert call is not None
        self.unbound[step.binding.var] = None
        self.note(self.emit(call, step.binding.var.name), step.results, option.change.results)

    def note(
        self, var: relax.Var, results: Sequence[TensorView | None], layouts: Sequence[Layout | None]
    ) -> None:
        """Record the storages of a step's results."""
        is_tuple = isinstance(var.ty, tvm.ir.TupleType)
        for index, (view, layout) in enumerate(zip(results, layouts, strict=True)):
            if view is not None:
                value = relax.TupleGetItem(var, index) if is_tuple else var
                self.stored[view.root.number] = {view.storage(layout): [value]}

    def provide(self, variables: Iterable[relax.Var]) -> None:
        """Bind variables of this block in their original storage, if they are not bound yet."""
        for var in variables:
            if var in self.unbound:
                binding = self.unbound.pop(var)
                view = self.names.view(var)
                self.bindings.append(
                    self.restored_tuple(var, binding) if view is None else self.restored(var, binding, view)
                )
                if view is not None:
                    self.known(view).setdefault(view.storage(), []).append(var)

    def restored(self, var: relax.Var, old: relax.Binding | None, view: TensorView) -> relax.Binding:
        """Bind a tensor in its original storage: as it was bound if its operands are and no copy exists."""
        reads = () if old is None else variables_of(old.value)
        if old is not None and not any(read in self.unbound for read in reads):
            view_read = self.names.view(reads[0])
            moves = view_read is not None and view_read.storage() != view.storage()
            if not moves or view.storage() not in self.known(view):
                return old
        return relax.VarBinding(var, self.builder.normalize(self.value(view, view.storage(), view.extents)))

    def restored_tuple(self, var: relax.Var, old: relax.Binding | None) -> relax.Binding:
        """A binding of a tuple in its original form."""
        if old is not None:
            self.provide(variables_of(old.value))
            return old
        fields = [field for field in self.names.fields(var) if field is not None]
        return relax.VarBinding(
            var, relax.Tuple([self.leaf(field, field.storage(), field.extents) for field in fields])
        )

    def operand(self, expr: relax.Expr, view: TensorView | None, layout: Layout | None) -> relax.Expr:
        """An operand of a changed op."""
        assert view is not None
        shape = view.extents if layout is None else view.shape(layout)
        assert shape is not None
        if not isinstance(expr, Constant):
            return self.leaf(view, view.storage(layout), shape)
        if layout is None:
            return expr
        return converted_constant(expr, conversions(view.root, view.storage(), view.storage(layout)), shape)

    def leaf(self, view: TensorView, storage: Storage, shape: Sequence[Extent]) -> relax.Expr:
        """A variable or constant with the root of a view in a given storage and shape."""
        value = self.value(view, storage, shape)
        if isinstance(value, relax.Var | Constant):
            return value
        var = self.emit(value, "lv")
        self.known(view).setdefault(storage, []).append(var)
        return var

    def value(self, view: TensorView, storage: Storage, shape: Sequence[Extent]) -> relax.Expr:
        """An expression for the root of a view in a storage and a shape."""
        known = self.known(view)
        for expr in known.get(storage, ()):
            if same_shape(extents_of(expr.ty), shape):
                return expr
        source = storage if storage in known else next(iter(known))
        steps = conversions(view.root, source, storage)
        return converted(self.bound(known[source]), steps, shape, lambda expr: self.emit(expr, "lv"))

    def known(self, view: TensorView) -> dict[Storage, list[relax.Expr]]:
        """The existing storages of a view's root."""
        root = view.root
        if root.number not in self.stored:
            self.stored[root.number] = {TensorView.of(root).storage(): [self.names.origins[root.number]]}
        return self.stored[root.number]

    def bound(self, same: list[relax.Expr]) -> relax.Expr:
        """The first of several equal expressions, as a variable or constant."""
        if isinstance(same[0], relax.TupleGetItem):
            same[0] = self.emit(same[0], "lv")
        return same[0]

    def emit(self, value: relax.Expr, name: str) -> relax.Var:
        """Bind a value to a new variable of this block, with the origin of the current step."""
        typed = self.builder.normalize(value)
        var = self.variable(name, typed.ty, self.span)
        self.bindings.append(relax.VarBinding(var, typed))
        return var
