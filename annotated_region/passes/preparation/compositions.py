"""What the rewrites that find an op in its parts have in common."""

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

TOLERANCE = 1e-4  # of constants that exporters write with few digits
LONGEST = 8  # operations of a polynomial one behind the other; GELU's have five
HALF_TOLERANCE = 2.0**-10  # of constants of float16, which has 11 bits: a rounding, and that of a product


def is_close(value: float, wanted: float, dtype: str | None) -> bool:
    """Whether a constant of that dtype is a way to write `wanted`."""
    return math.isclose(value, wanted, rel_tol=HALF_TOLERANCE if dtype == "float16" else TOLERANCE)


def uniform(array: np.ndarray | None) -> float | None:
    """The finite number that an array repeats, or None."""
    if array is None or not array.size or not bool((array == array.flat[0]).all()):
        return None
    number = float(np.float64(array.flat[0]))
    return number if math.isfinite(number) else None


class Parts:
    """The operations of a composition, as they are found, from its result to what it is applied to.

    What is found here belongs to the composition alone: nothing else reads it, so it is gone once the
    composition is another op. Otherwise the work would be done twice.

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
        """The same parts, to try one way to go on."""
        copy = Parts(self.found[0], self.editor)
        copy.found = list(self.found)
        return copy

    def own(self, expr: relax.Expr, *names: str, reads: int = 1) -> OpView | None:
        """The operation that computes `expr`, if it is one of `names`, and read in so many places."""
        if self.editor.reads(expr) != reads:
            return None
        value = self.editor.value_of(expr)
        # The name first: to read the attributes of every operand of a sum takes longer than the rest.
        if not isinstance(value, relax.Call) or getattr(value.op, "name", None) not in names:
            return None
        view = OpView.of(value)
        assert view is not None
        self.found.append(view)
        return view

    def scaled(self, expr: relax.Expr) -> tuple[relax.Expr, float, float]:
        """`expr` as another tensor of its type, times a number, plus a number, as far back as that goes."""
        scale, shift = 1.0, 0.0
        while (step := self._step(expr)) is not None:
            inner_scale, inner_shift, view, source = step
            scale, shift = scale * inner_scale, scale * inner_shift + shift
            self.found.append(view)
            expr = source
        return expr, scale, shift

    def _step(self, expr: relax.Expr) -> tuple[float, float, OpView, relax.Expr] | None:
        view = self.editor.view_of(expr) if self.editor.is_read_once(expr) else None
        step = step_of(view, self.editor) if view is not None else None
        if step is None or view is None:
            return None
        scale, shift = uniform(step.scale), uniform(step.shift)
        return None if scale is None or shift is None else (scale, shift, view, step.source)

    def number(self, expr: relax.Expr) -> float | None:
        """The finite number that a constant tensor repeats; None if it is no constant, or holds several."""
        return uniform(self.editor.constant(expr))

    def is_same(self, expr: relax.Expr, other: relax.Expr) -> bool:
        """Whether both are names of one value."""
        return bool(self.editor.origin(expr).same_as(self.editor.origin(other)))

    def raised(self, whole: relax.Call) -> relax.Call | None:
        """`whole`, which computes what the parts do; None if some target takes parts, but not the whole."""
        whole = expect(relax.Call, self.editor.normalize(whole))
        view = OpView.of(whole)
        assert view is not None
        place = described(self.editor.target)
        return None if self.editor.claimants.lose(view, self.found, place) else whole

    def polynomial(
        self, expr: relax.Expr, data: relax.Expr, depth: int = LONGEST
    ) -> tuple[float, ...] | None:
        """`expr` as a polynomial in `data`, elementwise; None if it is none that is known here.

        Parameters
        ----------
        expr, data
            Two values.
        depth
            How many operations may lie one behind the other.

        Returns
        -------
        The coefficients, from that of 1 to that of the highest power, no zeros behind.
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
    """The dtype of a tensor, if it is one of these."""
    dtype = dtype_of(expr.ty)
    return dtype if dtype in dtypes else None
