"""Proposes slices: on each axis, the index is ``begin + stride * i``.

On a symbolic axis TVM limits the bounds to the tensor, so that they stand in minima and maxima::

    x[-1:9]    index  min(max(n - 1, 0), n) + i      extent  min(9, n) - min(max(n - 1, 0), n)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product

import tvm
from tvm import relax

from annotated_region.op_info.infer.indices import factors
from annotated_region.op_info.infer.segment import Segment
from annotated_region.op_info.loops.extent_signs import plus
from annotated_region.op_info.loops.trees import Extent, Tree, is_size, linear, subtrees
from annotated_region.tvm_adapter.nodes import PrimExpr

__all__ = ["read_slices"]

MOST_BOUNDS = 64
"""The number of combinations of bounds to try."""


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The bounds that may be those of an axis.

    Attributes
    ----------
    axis
        The axis.
    step
        The stride, which is certain.
    begins, ends
        The candidates, in which a negative number counts from the end of the axis.
    """

    axis: int
    step: int
    begins: Sequence[Extent]
    ends: Sequence[Extent]


def read_slices(segment: Segment, load: Tree) -> Iterator[relax.Call]:
    """Slices along the axes of which not everything is read in order."""
    x, shape, target = segment.variables[0], segment.inputs[0].shape, segment.outputs[0].shape
    if len(shape) != len(target):
        return
    axes = [_bounds(*each) for each in zip(range(len(shape)), load[2], shape, target, strict=True)]
    cut = [axis for axis in axes if axis is not None and axis.ends]
    if None in axes or not cut:
        return
    places, steps = [axis.axis for axis in cut], [axis.step for axis in cut]
    choices = product(*(product(axis.begins, axis.ends) for axis in cut))
    for chosen in islice(choices, MOST_BOUNDS):
        begins, ends = (
            [_expression(segment, bound) for bound in bounds] for bounds in zip(*chosen, strict=True)
        )
        yield relax.op.strided_slice(x, places, begins, ends, steps)


def _expression(segment: Segment, bound: Extent) -> PrimExpr:
    return tvm.tirx.IntImm("int64", bound) if isinstance(bound, int) else segment.extent(bound)


def _bounds(axis: int, index: Tree, extent: Extent, count: Extent) -> _Bounds | None:
    """The candidates for an axis, none if it is read as it is; None if the index is that of no slice."""
    step = factors(index).get(axis, 1)
    begin = linear(index[1], {atom: factor for atom, factor in index[2] if atom != ("iter", axis)})
    if not is_size(begin):
        return None
    if begin == linear(0, {}) and step == 1 and extent == count:
        return _Bounds(axis, step, (), ())
    # The end is the place behind the last element, in the direction of the stride.
    end = plus(plus(begin, plus(count, -1, 1), step), 1 if step > 0 else -1, 1)
    if isinstance(extent, int) and not begin[2] and not end[2]:
        last = int(end[1])
        return _Bounds(axis, step, [int(begin[1])], [last if last >= 0 else -extent - 1])
    begins = [begin, *_limited(begin, extent)]
    ends = [end, *(bound for bound in _limited(plus(count, 0, 1), extent) if bound not in begins[1:])]
    return _Bounds(axis, step, _numbers(begins), _numbers([*ends, extent, *begins[1:]]))


def _limited(form: Tree, extent: Extent) -> list[Tree]:
    """What minima and maxima in a form limit, and what that is counted from the end."""
    parts = [part for part in subtrees(form) if part[0] in ("Max", "Min")]
    found = dict.fromkeys(operand for part in parts for operand in part[2:] if not _has_limits(operand))
    counted = [plus(operand, extent, -1) for operand in found]
    return [*found, *(form for form in counted if not form[2] and form[1] < 0)]


def _has_limits(form: Tree) -> bool:
    return any(part[0] in ("Max", "Min") for part in subtrees(form))


def _numbers(forms: Sequence[Extent]) -> list[Extent]:
    """The forms, each once, those of no size as numbers."""
    plain = (form if isinstance(form, int) or form[2] else int(form[1]) for form in forms)
    return list(dict.fromkeys(plain))
