"""Reads a binding block: views and their roots, and the ops that can change layout.

The cases:

1. an alias, a transpose, a reshape that splits or joins whole axes: a view of the same root;
2. a tuple, a field of a known tuple: views of the fields;
3. a call of one op with a layout rule: a node with an option for each useful layout;
4. anything else: a node that reads and produces values in their original storage.

Useful layouts originate from fixed ones, that is from case 4, transposes and demands of targets, and
propagate along ops that can adopt them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod

import tvm
from tvm import relax

from annotated_region.layout_plan.described_call import DescribedCall, described
from annotated_region.layout_plan.views import Root, TensorView, extents_of
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import expect

__all__ = ["ComputingBinding", "Fields", "Names", "bytes_of", "read_block", "variables_of"]

Fields = tuple["TensorView | None", ...]
"""The fields of a tuple; None for a field that is not a tensor of known shape."""

_RESHAPES = ("reshape", "expand_dims", "squeeze", "flatten", "nn.batch_flatten")
_VIEWS = ("relax.permute_dims", *(f"relax.{name}" for name in _RESHAPES))


@dataclass(frozen=True, slots=True)
class ComputingBinding:
    """A binding that computes values.

    Attributes
    ----------
    binding
        The binding.
    reads
        All variables that it reads, which must be available if it is kept unchanged.
    call
        The op that it calls, if its layout can change.
    operands
        The views of the op's parameters; for other bindings, of the variables that it reads.
    results
        The views of its results.
    """

    binding: relax.Binding
    reads: tuple[relax.Var, ...]
    call: DescribedCall | None
    operands: Fields
    results: Fields


@dataclass
class Names:
    """The views that variables and constants stand for.

    Attributes
    ----------
    roots
        All roots, by number.
    origins
        For each root from outside the block, its variable, constant or tuple field.
    """

    roots: list[Root] = field(default_factory=list)
    origins: dict[int, relax.Expr] = field(default_factory=dict)
    _views: dict[relax.Expr, TensorView] = field(default_factory=dict)
    _tuples: dict[relax.Expr, Fields] = field(default_factory=dict)
    _inlined: dict[relax.Var, relax.Tuple] = field(default_factory=dict)

    def view(self, expr: relax.Expr) -> TensorView | None:
        """The view of a variable or constant; creates a root if it is new."""
        if expr not in self._views and expr not in self._tuples:
            self._enter(expr)
        return self._views.get(expr)

    def fields(self, expr: relax.Expr) -> Fields:
        """The tensors in a variable, a constant, or a tuple of these."""
        if isinstance(expr, relax.Tuple):
            return sum(map(self.fields, expr.fields), ())
        view = self.view(expr) if isinstance(expr, relax.Var | Constant) else None
        return (view,) if view is not None else self._tuples.get(expr, (None,))

    def inlined(self, expr: relax.Expr) -> relax.Expr:
        """The tuple that a variable is bound to; any other expression unchanged."""
        return self._inlined.get(expr, expr) if isinstance(expr, relax.Var) else expr

    def name(self, var: relax.Var, view: TensorView) -> None:
        """Record the view of a variable."""
        self._views[var] = view

    def name_tuple(self, var: relax.Var, fields: Fields, value: relax.Tuple | None = None) -> None:
        """Record the fields of a variable, and the tuple expression that it is bound to."""
        self._tuples[var] = fields
        if value is not None:
            self._inlined[var] = value

    def make(self, var: relax.Var, is_constant: bool) -> Fields:
        """Create roots for the results of a binding."""
        if not isinstance(var.ty, tvm.ir.TupleType):
            view = self._root(var.ty, is_constant)
            if view is not None:
                self._views[var] = view
            return (view,)
        fields = tuple(self._root(ty, is_constant) for ty in var.ty.fields)
        self._tuples[var] = fields
        return fields

    def _enter(self, expr: relax.Expr) -> None:
        if isinstance(expr, relax.Var):
            fields = self.make(expr, is_constant=False)
            is_tuple = isinstance(expr.ty, tvm.ir.TupleType)
            for index, view in enumerate(fields):
                if view is not None:
                    self.origins[view.root.number] = relax.TupleGetItem(expr, index) if is_tuple else expr
            return
        view = self._root(expr.ty, isinstance(expect(Constant, expr).value, tvm.runtime.Tensor))
        if view is not None:
            self._views[expr] = view
            self.origins[view.root.number] = expr

    def _root(self, ty: tvm.ir.Type, is_constant: bool) -> TensorView | None:
        extents = extents_of(ty)
        if extents is None:
            return None
        self.roots.append(
            Root(len(self.roots), extents, str(expect(relax.TensorType, ty).dtype), is_constant)
        )
        return TensorView.of(self.roots[-1])


def read_block(block: relax.BindingBlock, mod: tvm.IRModule, names: Names) -> list[ComputingBinding]:
    """The bindings of a block that compute, in order.

    Parameters
    ----------
    block
        The block.
    mod
        The module with its PrimFuncs.
    names
        The known views; updated with those of the block.
    """
    steps = []
    for binding in block.bindings:
        if not _is_name(binding, mod, names):
            steps.append(_step(binding, mod, names))
    return steps


def _is_name(binding: relax.Binding, mod: tvm.IRModule, names: Names) -> bool:
    """Handle cases 1 and 2, which are recorded in `names`."""
    if not isinstance(binding, relax.VarBinding):
        return False
    for kind, read in _NAMING.items():
        if isinstance(binding.value, kind):
            return read(binding, mod, names)
    return False


def _other_name(binding: relax.VarBinding, _mod: tvm.IRModule, names: Names) -> bool:
    view = names.view(binding.value)
    if view is None:
        return False
    names.name(binding.var, view)
    return True


def _tuple(binding: relax.VarBinding, _mod: tvm.IRModule, names: Names) -> bool:
    whole = expect(relax.Tuple, binding.value)
    leaves = [isinstance(part, relax.Var | Constant) for part in whole.fields]
    fields = names.fields(whole)
    if not all(leaves) or None in fields or len(fields) != len(leaves):
        return False
    names.name_tuple(binding.var, fields, whole)
    return True


def _field(binding: relax.VarBinding, _mod: tvm.IRModule, names: Names) -> bool:
    field_of = expect(relax.TupleGetItem, binding.value)
    whole, index = field_of.tuple_value, field_of.index
    fields = names.fields(whole) if isinstance(whole, relax.Var) else ()
    view = fields[index] if index < len(fields) else None
    if view is None:
        return False
    names.name(binding.var, view)
    return True


def _other_view(binding: relax.VarBinding, mod: tvm.IRModule, names: Names) -> bool:
    """A call that moves no data, or only as a transpose does."""
    extents = extents_of(binding.var.ty)
    value = expect(relax.Call, binding.value)
    call = described(value, mod, names.inlined) if extents is not None else None
    if call is None or extents is None or call.info.name not in _VIEWS:
        return False
    operand = names.view(call.operands[0])
    if operand is None or operand.root.is_constant:
        return False
    if call.info.name == "relax.permute_dims":
        rank = len(extents)
        axes = call.info.attrs["axes"] or range(rank)[::-1]
        view: TensorView | None = operand.permuted([axis % rank for axis in axes])
    else:
        view = operand.reshaped(extents)
    if view is None:
        return False
    names.name(binding.var, view)
    return True


_NAMING: Mapping[type, Callable[[relax.VarBinding, tvm.IRModule, Names], bool]] = {
    relax.Var: _other_name,
    relax.Tuple: _tuple,
    relax.TupleGetItem: _field,
    relax.Call: _other_view,
}


def _step(binding: relax.Binding, mod: tvm.IRModule, names: Names) -> ComputingBinding:
    """Handle cases 3 and 4."""
    reads = variables_of(binding.value)
    value = binding.value
    call = described(value, mod, names.inlined) if isinstance(value, relax.Call) else None
    operands = () if call is None else tuple(map(names.view, call.operands))
    leaves = operands or sum(map(names.fields, reads), ())
    is_constant = all(view is not None and view.root.is_constant for view in leaves)
    pure = isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.Op)
    results = names.make(binding.var, is_constant and pure and bool(leaves))
    if is_constant or None in operands or None in results:
        call = None
    return ComputingBinding(binding, reads, call, operands if call is not None else leaves, results)


def variables_of(expr: relax.Expr) -> tuple[relax.Var, ...]:
    """The free variables of an expression, in order of first use, including those in branches."""
    found: dict[relax.Var, None] = {}
    bound: dict[relax.Var, None] = {}

    def visit(part: relax.Expr) -> None:
        if isinstance(part, relax.SeqExpr):
            bound.update((b.var, None) for block in part.blocks for b in block.bindings)
        elif isinstance(part, relax.Function):
            bound.update((param, None) for param in part.params)
        elif isinstance(part, relax.Var) and not isinstance(part, tvm.ir.GlobalVar):
            found[part] = None

    relax.analysis.post_order_visit(expr, visit)
    return tuple(var for var in found if var not in bound)


def bytes_of(root: Root) -> int:
    """The bytes that a copy moves; a symbolic extent counts as one."""
    elements = prod(extent for extent in root.extents if isinstance(extent, int))
    return elements * int(-(-tvm.DataType(root.dtype).bits // 8))
