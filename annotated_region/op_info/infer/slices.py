"""Proposes slices: on each axis, the index is ``begin + stride * i``.

On a symbolic axis TVM limits the bounds to the tensor, so that they stand in minima and maxima::

    x[-1:9]    index  min(max(n - 1, 0), n) + i      extent  min(9, n) - min(max(n - 1, 0), n)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import tvm
from tvm import relax

from annotated_region.op_info.infer.indices import factors
from annotated_region.op_info.infer.segment import Segment
from annotated_region.op_info.loops.extent_signs import plus
from annotated_region.op_info.loops.trees import Extent, Tree, is_size, linear
from annotated_region.tvm_adapter.nodes import PrimExpr

__all__ = ["read_slices"]


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The bounds of a slice on one axis; a negative number counts from the end of the axis."""

    axis: int
    begin: Extent
    end: Extent
    step: int


def read_slices(segment: Segment, load: Tree) -> Iterator[relax.Call]:
    """A slice along the axes of which not everything is read in order."""
    shape, target = segment.inputs[0].shape, segment.outputs[0].shape
    if len(shape) != len(target) or not all(map(_is_cut, range(len(shape)), load[2])):
        return
    axes = zip(range(len(shape)), load[2], shape, target, strict=True)
    cut = [bounds for bounds in (_bounds(*each) for each in axes) if bounds is not None]
    if cut:
        yield relax.op.strided_slice(
            segment.variables[0],
            [bounds.axis for bounds in cut],
            [_expression(segment, bounds.begin) for bounds in cut],
            [_expression(segment, bounds.end) for bounds in cut],
            [bounds.step for bounds in cut],
        )


def _expression(segment: Segment, bound: Extent) -> PrimExpr:
    return tvm.tirx.IntImm("int64", bound) if isinstance(bound, int) else segment.extent(bound)


def _is_cut(axis: int, index: Tree) -> bool:
    """Whether an index may be that of a slice: a number and the position on the same axis."""
    return all(atom == ("iter", axis) or is_size(atom) for atom, _ in index[2])


def _bounds(axis: int, index: Tree, extent: Extent, count: Extent) -> _Bounds | None:
    """The bounds on an axis; None if it is read as it is."""
    step = factors(index).get(axis, 1)
    begin = linear(index[1], {atom: factor for atom, factor in index[2] if atom != ("iter", axis)})
    if begin == linear(0, {}) and step == 1 and extent == count:
        return None
    # The end is the place behind the last element, in the direction of the stride.
    end = plus(plus(begin, plus(count, -1, 1), step), 1 if step > 0 else -1, 1)
    if isinstance(extent, int) and not begin[2] and not end[2]:
        last = int(end[1])
        return _Bounds(axis, int(begin[1]), last if last >= 0 else -extent - 1, step)
    end = _whole_end(begin, count, step) or end
    return _Bounds(axis, _limited(begin, extent), _limited(end, extent), step)


def _whole_end(begin: Tree, count: Extent, step: int) -> Tree | None:
    """The end in ``(end - begin + step - 1) // step`` elements, if the count is such a quotient."""
    whole = plus(count, 0, 1)
    if step == 1:
        return plus(begin, whole, 1)
    quotient = whole[2][0][0] if len(whole[2]) == 1 else whole
    if whole != linear(0, {quotient: 1}) or quotient[0] != "div" or quotient[2] != step:
        return None
    return plus(plus(quotient[1], begin, 1), 1 - step, 1)


def _limited(form: Tree, extent: Extent) -> Extent:
    """The bound that is limited to ``min(b, n)``, or counted from the end to ``min(max(n - b, 0), n)``."""
    whole = plus(extent, 0, 1)
    for operand in _operands(form, "Min"):
        if not operand[2]:
            return int(operand[1])
        for inner in _operands(operand, "Max"):
            behind = plus(inner, whole, -1)
            if not behind[2] and behind[1] < 0:
                return int(behind[1])
    return form if form[2] else int(form[1])


def _operands(form: Tree, name: str) -> tuple[Tree, ...]:
    """The operands of a form that is one minimum or maximum; none of another form."""
    atom = form[2][0][0] if len(form[2]) == 1 else form
    return atom[2:] if form == linear(0, {atom: 1}) and atom[0] == name else ()
