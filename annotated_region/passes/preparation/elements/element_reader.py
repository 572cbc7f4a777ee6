"""Derives the element of an integer or boolean tensor as an expression in its indices.

::

    lv  = arange(0, n)                     lv[i]        = i
    lv1 = expand_dims(lv, [0])             lv1[0, j]    = j
    lv2 = expand_dims(lv, [1])             lv2[i, 0]    = i
    lv3 = less_equal(lv1, lv2)             lv3[i, j]    = j <= i
    lv4 = index_tensor(seen, (rows, lv))   lv4[i, j]    = seen[i, j]

A tensor without a rule becomes a *load*: an unknown, recorded with the tensor and its index. TVM's arithmetic
analyzer simplifies the expressions.

Extents of the queried tensor may be assumed to be at least 1: an empty tensor has no elements, so any
statement about its elements holds. This simplifies ``min(1, n)``, the extent of a slice that PyTorch takes of
``n`` positions, to 1.

Expressions use unbounded integers. For dtypes narrower than 64 bits, an operation is read only if its result
provably fits; like TVM, this assumes that 64-bit arithmetic does not overflow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx

from annotated_region.expr_map import ExprMap
from annotated_region.passes.preparation.editor import Editor
from annotated_region.passes.preparation.tensors import dtype_of
from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.nodes import Analyzer, ConstIntBound, PrimExpr

__all__ = [
    "ElementReader",
    "ElementRule",
    "Index",
    "Load",
    "is_one",
    "is_bounded",
    "is_number",
    "occurrences",
    "sides",
    "whole",
]

Index = tuple[PrimExpr, ...]

MOST_VISITS = 256
"""The maximum number of visits of calls per tensor, also in vain; masks of exporters take up to 60."""

LARGEST_EXPRESSION = 40
"""The maximum number of nodes of an expression; those of exporters' masks have up to 25.

TVM's analyzer takes 0.3 ms for 30 nodes, 14 ms for 60 and 10 s for 200. The lengths behind seven
convolutions, each of which PyTorch writes as a quotient that the next one reads several times, took minutes.
"""

LARGEST_TABLE = 1 << 20
"""The maximum number of elements of a constant that is inspected."""

LARGEST_EXTENT = 1 << 40
"""The assumed upper bound of an extent without a known one; larger tensors do not fit into memory."""

WIDTHS = {"int64": 63, "int32": 31, "int16": 15, "int8": 7}
"""The supported integer dtypes, with the number of bits of their magnitudes."""


@dataclass(frozen=True, slots=True)
class Load:
    """An element that cannot be derived further.

    Attributes
    ----------
    unknown
        The variable that represents the element.
    tensor
        The tensor that holds it.
    index
        Its index: on each axis, one of the index variables of the reader, or 0.
    """

    unknown: tirx.Var
    tensor: relax.Expr
    index: Index


@dataclass(frozen=True, slots=True)
class _Reading:
    """What reading a call at an index found, with the ops and loads visited; `element` is None if in vain."""

    index: Index
    element: PrimExpr | None
    names: tuple[str, ...]
    hits: tuple[Load, ...]


class ElementReader:
    """Derives elements of one tensor of known shape, and of the tensors that it is computed from.

    Attributes
    ----------
    editor
        The editor of the enclosing function.
    places
        The index into the tensor, one variable per axis.
    extents
        The shape of the tensor.
    loads
        The distinct loads.
    hits
        The loads, once per visit.
    names
        The ops of the calls that were read, once per visit.
    """

    def __init__(self, editor: Editor, extents: Sequence[PrimExpr], rules: dict[str, ElementRule]) -> None:
        self.editor = editor
        self.extents = tuple(extents)
        self.places = tuple(tirx.Var(f"i{axis}", "int64") for axis in range(len(self.extents)))
        self.loads: list[Load] = []
        self.hits: list[Load] = []
        self.names: list[str] = []
        self._rules = rules
        self._visits = 0
        self._readings: ExprMap[list[_Reading]] = ExprMap()
        self._analyzer = Analyzer()
        for extent in self.extents:
            if isinstance(extent, tirx.Var):
                limit = max(editor.limits.get(extent, LARGEST_EXTENT), 1)
                self._analyzer.update(extent, ConstIntBound(1, limit))
        for place, extent in zip(self.places, self.extents, strict=True):
            self._analyzer.bind(place, tvm.ir.Range(whole(0), extent))

    def element(self, expr: relax.Expr, index: Index) -> PrimExpr | None:
        """The element at an index within bounds; None if it cannot even be a load."""
        value = self.editor.value_of(expr)
        view = OpView.of(value) if isinstance(value, relax.Call) else None
        computed = None if view is None else self.computed(view, index)
        if computed is not None:
            return computed
        known = self._known(expr, index)
        return self._load(expr, index) if known is None else known

    def computed(self, view: OpView, index: Index) -> PrimExpr | None:
        """The element of a call's result, by the rule of its op.

        Each call is read once at an index, or in vain: the steps of a decision tree read their predecessor
        five times, so that reading again would take exponential time.
        """
        rule, dtype = self._rules.get(view.name), dtype_of(view.out_type)
        if rule is None or (dtype != "bool" and dtype not in WIDTHS):
            return None
        known = self._known_reading(view.call, index)
        if known is not None:
            return self._again(known)
        if self._visits >= MOST_VISITS:
            return None
        self._visits += 1
        before = len(self.names), len(self.hits)
        self.names.append(view.name)
        found = rule(view, index, self)
        simple = None if found is None or _size(found) > LARGEST_EXPRESSION else self._in_range(found)
        if simple is None or not self._is_of_type(simple, dtype):
            simple = None
            del self.names[before[0] :]
            del self.hits[before[1] :]
        reading = _Reading(index, simple, tuple(self.names[before[0] :]), tuple(self.hits[before[1] :]))
        self._readings.setdefault(view.call, []).append(reading)
        return simple

    def _known_reading(self, call: relax.Call, index: Index) -> _Reading | None:
        readings = self._readings.get(call) or ()
        same = (each for each in readings if all(map(tvm_ffi.structural_equal, index, each.index)))
        return next(same, None)

    def _again(self, known: _Reading) -> PrimExpr | None:
        """The element that was read, with its visits, as many of which there may be."""
        if self._visits + len(known.names) > MOST_VISITS:
            return None
        self._visits += len(known.names)
        self.names += known.names
        self.hits += known.hits
        return known.element

    def operand(self, expr: relax.Expr, index: Index, extents: Sequence[PrimExpr]) -> PrimExpr | None:
        """The element of an operand broadcast to `extents`, at `index` of the result."""
        own = self.shape(expr)
        if own is None or len(own) > len(index):
            return None
        places = index[len(index) - len(own) :]
        targets = extents[len(index) - len(own) :]
        ends = [
            whole(0) if is_one(extent) else place if self.are_equal(extent, target) else None
            for extent, place, target in zip(own, places, targets, strict=True)
        ]
        found = tuple(end for end in ends if end is not None)
        return self.element(expr, found) if len(found) == len(ends) else None

    def shape(self, expr: relax.Expr) -> tuple[PrimExpr, ...] | None:
        """The simplified extents; derived from the operands for elementwise ops whose type has no shape."""
        tensor = expr.ty
        if not isinstance(tensor, relax.TensorType):
            return None
        if isinstance(tensor.shape, relax.ShapeExpr):
            return tuple(self.simplified(extent) for extent in tensor.shape.values)
        value = self.editor.value_of(expr)
        view = OpView.of(value) if isinstance(value, relax.Call) else None
        parts = _shaping_parts(view, self.editor) if view is not None else None
        return None if parts is None else self.broadcast_shape(parts)

    def broadcast_shape(self, exprs: Sequence[relax.Expr]) -> tuple[PrimExpr, ...] | None:
        """The common broadcast shape of several tensors; None if it cannot be proved."""
        shapes = [self.shape(expr) for expr in exprs]
        known = [shape for shape in shapes if shape is not None]
        if len(known) != len(shapes) or not known:
            return None
        rank = max(map(len, known))
        padded = [(whole(1),) * (rank - len(shape)) + shape for shape in known]
        extents = [self._joined(axis) for axis in zip(*padded, strict=True)]
        found = tuple(extent for extent in extents if extent is not None)
        return found if len(found) == rank else None

    def _joined(self, extents: Sequence[PrimExpr]) -> PrimExpr | None:
        large = [extent for extent in extents if not is_one(extent)]
        if not large:
            return whole(1)
        same = all(self.are_equal(large[0], extent) for extent in large[1:])
        return large[0] if same else None

    def is_within(self, place: PrimExpr, extent: PrimExpr) -> bool:
        """Whether an index is provably within an axis of that extent."""
        return self.proves(tirx.GE(place, whole(0))) and self.proves(tirx.LT(place, extent))

    def are_equal(self, left: PrimExpr, right: PrimExpr) -> bool:
        """Whether two extents are provably equal."""
        return bool(self._analyzer.can_prove_equal(left, right))

    def proves(self, condition: PrimExpr) -> bool:
        """Whether a condition provably holds at every index."""
        return bool(self._analyzer.can_prove(condition))

    def simplified(self, expr: PrimExpr) -> PrimExpr:
        """An equivalent expression, simplified by TVM's analyzer."""
        return self._analyzer.simplify(expr)

    def _in_range(self, expr: PrimExpr) -> PrimExpr | None:
        """The simplified expression; None if it has numbers beyond int64, where the op would wrap around."""
        try:
            return self.simplified(expr)
        except ValueError:  # TVM 0.27 computes with wider numbers, and refuses to write them
            return None

    def _is_of_type(self, expr: PrimExpr, dtype: str | None) -> bool:
        if dtype == "bool" or str(expr.ty) == "bool":
            return dtype == str(expr.ty)
        if dtype not in WIDTHS:
            return False
        bound = self._analyzer.const_int_bound(expr)
        limit = 1 << WIDTHS[dtype]
        return dtype == "int64" or (-limit <= bound.min_value and bound.max_value < limit)

    def _known(self, expr: relax.Expr, index: Index) -> PrimExpr | None:
        array = self.editor.constant(expr)
        if array is None or not 0 < array.size <= LARGEST_TABLE:
            return None
        return _affine(array, index) if array.dtype.name in WIDTHS else _uniform(array)

    def _load(self, expr: relax.Expr, index: Index) -> PrimExpr | None:
        dtype = dtype_of(expr.ty)
        is_simple = all(
            is_number(place, 0) or any(place.same_as(each) for each in self.places) for place in index
        )
        if not is_simple or (dtype != "bool" and dtype not in WIDTHS):
            return None
        origin = self.editor.origin(expr)
        known = (
            load for load in self.loads if load.tensor.same_as(origin) and _same_places(load.index, index)
        )
        load = next(known, None) or self._new_load(origin, index, str(dtype))
        self.hits.append(load)
        return load.unknown

    def _new_load(self, origin: relax.Expr, index: Index, dtype: str) -> Load:
        unknown = tirx.Var(f"load{len(self.loads)}", "bool" if dtype == "bool" else "int64")
        if dtype in WIDTHS and dtype != "int64":
            limit = 1 << WIDTHS[dtype]
            self._analyzer.update(unknown, ConstIntBound(-limit, limit - 1))
        self.loads.append(Load(unknown, origin, index))
        return self.loads[-1]


ElementRule = Callable[[OpView, Index, ElementReader], PrimExpr | None]
"""Computes the element of a call's result at an index from elements of its operands; None if unknown."""


def whole(number: int) -> tirx.IntImm:
    """An int64 literal."""
    return tirx.IntImm("int64", number)


def is_number(expr: PrimExpr, number: int) -> bool:
    """Whether an expression is the literal `number`."""
    return isinstance(expr, tirx.IntImm) and expr.value == number


def is_bounded(extent: PrimExpr) -> bool:
    """Whether an extent contains min or max, as for a clamped slice; users of the slice are simpler."""
    return isinstance(extent, tirx.Min | tirx.Max) or any(map(is_bounded, sides(extent)))


def is_one(extent: PrimExpr) -> bool:
    """Whether an extent is the literal 1."""
    return is_number(extent, 1)


def occurrences(expr: PrimExpr) -> Counter[tirx.Var]:
    """The number of occurrences of each variable in an expression."""
    found: Counter[tirx.Var] = Counter()
    _count(expr, found)
    return found


def _count(expr: PrimExpr, found: Counter[tirx.Var]) -> None:
    match expr:
        case tirx.Var():
            found[expr] += 1
        case _:
            for part in _parts(expr):
                _count(part, found)


def _size(expr: PrimExpr) -> int:
    """The number of nodes of an expression, written as a tree."""
    return 1 + sum(map(_size, _parts(expr)))


def _parts(expr: PrimExpr) -> tuple[PrimExpr, ...]:
    """The operands of an expression that the rules make."""
    match expr:
        case tirx.Not():
            return (expr.a,)
        case tirx.Cast():
            return (expr.value,)
        case tirx.Select():
            return expr.condition, expr.true_value, expr.false_value
        case _:
            return sides(expr)


def sides(expr: PrimExpr) -> tuple[PrimExpr, ...]:
    """Both operands of a binary expression; empty for other expressions."""
    match expr:
        case (
            tirx.Add() | tirx.Sub() | tirx.Mul() | tirx.FloorDiv() | tirx.FloorMod() | tirx.Min() | tirx.Max()
        ):
            return expr.a, expr.b
        case tirx.EQ() | tirx.NE() | tirx.LT() | tirx.LE() | tirx.GT() | tirx.GE() | tirx.And() | tirx.Or():
            return expr.a, expr.b
        case _:
            return ()


def _same_places(left: Index, right: Index) -> bool:
    return all(
        one.same_as(other) or (is_number(one, 0) and is_number(other, 0))
        for one, other in zip(left, right, strict=True)
    )


ELEMENTWISE = frozenset(
    [f"relax.{name}" for name in ("add", "subtract", "multiply", "maximum", "minimum", "negative")]
    + [f"relax.{name}" for name in ("floor_divide", "floor_mod", "astype", "where", "equal", "not_equal")]
    + [f"relax.{name}" for name in ("less", "less_equal", "greater", "greater_equal")]
    + [f"relax.{kind}_{name}" for kind in ("logical", "bitwise") for name in ("and", "or", "xor", "not")]
)


def _shaping_parts(view: OpView, editor: Editor) -> Sequence[relax.Expr] | None:
    """The operands whose common broadcast shape is the shape of a call's result, if that is its rule."""
    if view.name in ELEMENTWISE:
        return view.args
    if view.name in ("relax.cumsum", "relax.cumprod") and view.attrs["axis"] is not None:
        return view.args[:1]
    if view.name != "relax.index_tensor":
        return None
    indices = editor.value_of(view.args[1])
    data = view.args[0].ty
    if not isinstance(indices, relax.Tuple) or not isinstance(data, relax.TensorType):
        return None
    return indices.fields if data.ndim == len(indices.fields) else None


def _uniform(array: np.ndarray) -> PrimExpr | None:
    """The common value of all elements of a boolean array, or None."""
    if array.dtype.name != "bool" or bool((array != array.flat[0]).any()):
        return None
    return tirx.IntImm("bool", int(array.flat[0]))


def _affine(array: np.ndarray, index: Index) -> PrimExpr | None:
    """The element at an index, if it is an affine function of the index; O(elements)."""
    origin = (0,) * array.ndim
    base = int(array[origin])
    fitted = np.full(array.shape, base, np.int64)
    expr: PrimExpr = whole(base)
    for axis, extent in enumerate(array.shape):
        if extent == 1:
            continue
        step = int(array[(*origin[:axis], 1, *origin[axis + 1 :])]) - base
        if step and abs(base) + abs(step) * extent > np.iinfo(np.int64).max:
            return None  # it would wrap around
        ramp = step * np.arange(extent, dtype=np.int64)
        fitted = fitted + ramp.reshape((extent,) + (1,) * (array.ndim - axis - 1))
        expr = tirx.Add(expr, tirx.Mul(whole(step), index[axis]))
    return expr if np.array_equal(fitted, array) else None
