"""Helpers of the rewrites that recognize an op in its parts."""

from __future__ import annotations

import math

import numpy as np
import tvm_ffi
from tvm import relax

from annotated_region.origins import described
from annotated_region.passes.preparation.affine import step_of
from annotated_region.passes.preparation.editor import Editor
from annotated_region.passes.preparation.tensors import dtype_of
from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.types import expect

__all__ = ["Parts", "dtype_among", "is_close", "uniform"]

TOLERANCE = 1e-4  # relative, for constants that exporters write with few digits
LONGEST = 8  # the maximum depth of a polynomial's expression tree; GELU's has five
HALF_TOLERANCE = 2.0**-10  # float16 has 11 significant bits: two roundings, of a constant and of a product


def is_close(value: float, wanted: float, dtype: str | None) -> bool:
    """Whether a constant of that dtype approximates `wanted` within the tolerance of the dtype."""
    return math.isclose(value, wanted, rel_tol=HALF_TOLERANCE if dtype == "float16" else TOLERANCE)


def uniform(array: np.ndarray | None) -> float | None:
    """The common value of all elements if it is finite, else None."""
    if array is None or not array.size or not bool((array == array.flat[0]).all()):
        return None
    number = float(np.float64(array.flat[0]))
    return number if math.isfinite(number) else None


class Parts:
    """The operations of a composition, collected backwards from its result to its input.

    Only operations without other readers are collected, so all of them are dead once the composition is
    replaced by one op. With other readers, the work would be done twice.

    Attributes
    ----------
    found
        The operations so far, the root first.
    """

    def __init__(self, root: OpView, editor: Editor) -> None:
        """Start at the operation that computes the result."""
        self.editor = editor
        self.found = [root]

    def copy(self) -> Parts:
        """A copy, to try one alternative without changing this."""
        copy = Parts(self.found[0], self.editor)
        copy.found = list(self.found)
        return copy

    def own(self, expr: relax.Expr, *names: str, reads: int = 1) -> OpView | None:
        """The operation that computes `expr`, if it is one of `names` and has exactly `reads` readers."""
        value = self.editor.value_of(expr)
        # Check the name before building a view: reading the attributes of every operand is expensive.
        if not isinstance(value, relax.Call) or getattr(value.op, "name", None) not in names:
            return None
        if self.editor.reads(expr) != reads:
            return None
        view = OpView.of(value)
        assert view is not None
        self.found.append(view)
        return view

    def scaled(self, expr: relax.Expr) -> tuple[relax.Expr, float, float]:
        """`expr` as ``source * scale + shift`` with scalars, with `source` as far back as possible."""
        scale, shift = 1.0, 0.0
        while (step := self._step(expr)) is not None:
            inner_scale, inner_shift, view, source = step
            scale, shift = scale * inner_scale, scale * inner_shift + shift
            self.found.append(view)
            expr = source
        return expr, scale, shift

    def _step(self, expr: relax.Expr) -> tuple[float, float, OpView, relax.Expr] | None:
        view = self.editor.view_read_once(expr)
        step = step_of(view, self.editor) if view is not None else None
        if step is None or view is None:
            return None
        scale, shift = uniform(step.scale), uniform(step.shift)
        return None if scale is None or shift is None else (scale, shift, view, step.source)

    def number(self, expr: relax.Expr) -> float | None:
        """The common value of a constant tensor; None if not constant, not uniform or not finite."""
        return uniform(self.editor.constant(expr))

    def is_same(self, expr: relax.Expr, other: relax.Expr) -> bool:
        """Whether both are aliases of one value."""
        return bool(self.editor.origin(expr).same_as(self.editor.origin(other)))

    def raised(self, whole: relax.Call) -> relax.Call | None:
        """`whole`, which replaces the parts; None if some target claims a part, but not `whole`."""
        whole = expect(relax.Call, self.editor.normalize(whole))
        view = OpView.of(whole)
        assert view is not None
        place = described(self.editor.target)
        return None if self.editor.claimants.lose(view, self.found, place) else whole

    def polynomial(
        self, expr: relax.Expr, data: relax.Expr, depth: int = LONGEST
    ) -> tuple[float, ...] | None:
        """`expr` as an elementwise polynomial in `data`; None if it is not recognized as one.

        Parameters
        ----------
        expr, data
            Two values.
        depth
            The maximum depth of the expression tree.

        Returns
        -------
        The coefficients in order of ascending powers.
        """
        if self.is_same(expr, data):
            return 0.0, 1.0
        number = self.number(expr)
        if number is not None:
            return (number,)
        view = self.own(expr, *_POLYNOMIAL) if depth else None
        if view is None or not tvm_ffi.structural_equal(view.out_type, data.ty):
            return None
        operands = [self.polynomial(operand, data, depth - 1) for operand in view.args]
        known = [operand for operand in operands if operand is not None]
        return _combined(view.name, *known) if len(known) == len(operands) else None


_POLYNOMIAL = tuple(f"relax.{name}" for name in ("add", "subtract", "multiply", "divide", "square", "power"))


def _combined(name: str, left: tuple[float, ...], right: tuple[float, ...] = ()) -> tuple[float, ...] | None:
    match name:
        case "relax.add":
            return _sum(left, right)
        case "relax.subtract":
            return _sum(left, tuple(-number for number in right))
        case "relax.multiply":
            return _product(left, right)
        case "relax.divide":
            divides = len(right) == 1 and right[0] != 0.0
            return tuple(number / right[0] for number in left) if divides else None
        case _:
            return _power(left, right or (2.0,))


def _power(base: tuple[float, ...], exponent: tuple[float, ...]) -> tuple[float, ...] | None:
    if exponent not in ((2.0,), (3.0,)):
        return None
    square = _product(base, base)
    return square if exponent == (2.0,) else _product(square, base)


def _sum(left: tuple[float, ...], right: tuple[float, ...]) -> tuple[float, ...]:
    size = max(len(left), len(right))
    padded = ((*numbers, *(0.0,) * (size - len(numbers))) for numbers in (left, right))
    return tuple(map(sum, zip(*padded, strict=True)))


def _product(left: tuple[float, ...], right: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(float(number) for number in np.convolve(left, right))


def dtype_among(expr: relax.Expr, dtypes: tuple[str, ...]) -> str | None:
    """The dtype of a tensor if it is among `dtypes`, else None."""
    dtype = dtype_of(expr.ty)
    return dtype if dtype in dtypes else None
