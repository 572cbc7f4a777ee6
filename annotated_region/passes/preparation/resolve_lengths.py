"""Resolves slice lengths by the bounds of symbolic extents: ``min(n, 128)`` is ``n`` if ``n <= 128``.

A model with a table of 128 positions slices it to the length of its input, and adds the slice to the input::

    lv1 = strided_slice(table, [0], [0], [n])       of the shape (min(n, 128), 64)
    lv2 = add(x, lv1)                               x of the shape (n, 64); lv2 of an unknown one

After that, no shape is known, TVM cannot compile the sum, and targets claim nothing. PyTorch knows that ``n``
is at most 128, and its exporter records the bound in a function attribute (``tir_var_upper_bound``). This
pass emits

    R.match_cast(R.shape([n - min(n, 128)]), R.Shape([0]))
    lv1 = take(table, arange(0, n), axis=0)         of the shape (n, 64)

and infers the types of dependent values again.

1.  A slice with stride 1 whose extent equals ``stop - start`` within the bounds of the function becomes a
    ``take`` of the rows ``start`` to ``stop``.
2.  Such extents are simplified in explicit shapes (of ``reshape``, ``broadcast_to``, ``full``).

Proof: within the bounds the extents are equal, and so are the rows. TVM does not check the bounds that the
exporter states; so the function begins with a check of each equation that was used, and fails if one does
not hold, instead of reading beyond the table.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import relax, tirx

from annotated_region.functions.extent_bounds import LOWER_BOUNDS, UPPER_BOUNDS, stated_bounds
from annotated_region.functions.extent_checks import extent_difference, with_extent_checks
from annotated_region.functions.retyping import Emit, retyped
from annotated_region.passes.preparation.elements.element_reader import is_bounded, is_number
from annotated_region.passes.preparation.reads import annotated_variables
from annotated_region.tvm_adapter.nodes import Analyzer, ConstIntBound, PrimExpr
from annotated_region.tvm_adapter.types import shape_of, shape_vars_of

__all__ = ["resolve_lengths"]


def resolve_lengths(function: relax.Function) -> relax.Function:
    """The function with lengths resolved by its bounds, which are checked at its beginning.

    Notes
    -----
    Linear in the number of bindings.
    """
    bounds = _bounds_of(function)
    if not bounds or any(True for _ in annotated_variables(function.body)):
        return function
    resolver = _Resolver(bounds)
    resolved = retyped(function, resolver.rewritten)
    turned = [extent_difference(simple, extent) for extent, simple in resolver.equations]
    return with_extent_checks(resolved, turned) if turned else resolved


def _bounds_of(function: relax.Function) -> dict[tirx.Var, ConstIntBound]:
    """The bounds that the function states for the variables in its parameter types."""
    upper = stated_bounds(function, UPPER_BOUNDS)
    lower = stated_bounds(function, LOWER_BOUNDS)
    found: dict[tirx.Var, ConstIntBound] = {}
    for param in function.params:
        for variable in shape_vars_of(param.ty):
            if variable.name in upper:
                least = max(lower.get(variable.name, 0), 0)
                found[variable] = ConstIntBound(least, max(upper[variable.name], least))
    return found


class _Resolver:
    """Rewrites calls, and records the equations that must hold."""

    def __init__(self, bounds: dict[tirx.Var, ConstIntBound]) -> None:
        self.equations: list[tuple[PrimExpr, PrimExpr]] = []
        self._analyzer = Analyzer()
        for variable, bound in bounds.items():
            self._analyzer.update(variable, bound)

    def rewritten(self, call: relax.Call, _binding: relax.VarBinding, emit: Emit) -> relax.Expr | None:
        """Cases 1 and 2."""
        if not isinstance(call.op, tvm.ir.Op):
            return None
        if call.op.name == "relax.strided_slice":
            return self._taken(call, emit)
        args = [self._shape(arg) if isinstance(arg, relax.ShapeExpr) else arg for arg in call.args]
        if all(new.same_as(old) for new, old in zip(args, call.args, strict=True)):
            return None
        return relax.Call(call.op, args, call.attrs, call.ty_args, call.span)

    def _shape(self, shape: relax.ShapeExpr) -> relax.ShapeExpr:
        """Case 2."""
        resolved = [self._resolved(extent) for extent in shape.values]
        changed = any(not new.same_as(old) for new, old in zip(resolved, shape.values, strict=True))
        return relax.ShapeExpr(resolved) if changed else shape

    def _resolved(self, extent: PrimExpr) -> PrimExpr:
        if not is_bounded(extent):
            return extent
        simple = self._analyzer.simplify(extent)
        if is_bounded(simple):
            return extent
        self._require(extent, simple)
        return simple

    def _require(self, extent: PrimExpr, simple: PrimExpr) -> None:
        if not any(tvm_ffi.structural_equal(extent, known) for known, _ in self.equations):
            self.equations.append((extent, simple))

    def _taken(self, call: relax.Call, emit: Emit) -> relax.Expr | None:
        """Case 1, for a slice along a single axis of unknown length."""
        data, *ranges = call.args
        type_ = relax.BlockBuilder().normalize(call).ty
        shape = type_.shape if isinstance(type_, relax.TensorType) else None
        numbers = [each.fields for each in ranges if isinstance(each, relax.Tuple)]
        if not isinstance(shape, relax.ShapeExpr) or len(numbers) != len(ranges) or len(numbers[0]) != 1:
            return None
        (written,), (begin,), (end,), *steps = numbers
        if not isinstance(written, tirx.IntImm):
            return None
        axis = int(written) % len(shape.values)
        end = _inside(end, data, axis)
        if not is_bounded(shape.values[axis]) or any(not is_number(step, 1) for (step,) in steps):
            return None
        length = self._analyzer.simplify(tirx.Sub(end, begin))
        is_forward = self._analyzer.can_prove(tirx.GE(begin, tirx.IntImm("int64", 0)))
        if not is_forward or not self._analyzer.can_prove_equal(shape.values[axis], length):
            return None
        self._require(shape.values[axis], length)
        first = self._resolved(begin)
        rows = emit(relax.op.arange(first, self._analyzer.simplify(tirx.Add(first, length)), 1, "int64"))
        return relax.op.take(data, rows, axis)


def _inside(end: PrimExpr, data: relax.Expr, axis: int) -> PrimExpr:
    """The end of a slice, moved back into a static axis; exporters write a huge number for the last row."""
    extent = shape_of(data).values[axis]
    if not isinstance(end, tirx.IntImm) or not isinstance(extent, tirx.IntImm):
        return end
    return extent if end.value > extent.value else end
