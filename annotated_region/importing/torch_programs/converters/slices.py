"""Slices at the ends of a symbolic axis, with extents that are known.

``x[:, :1]`` has one row, ``x[:, 1:]`` and ``x[:, :-1]`` all but one. TVM 0.27's importer gives them extents
such as ``min(n, 1)``, with which neither TVM nor targets can infer the shape of a sum, so a model that reads
its last position does not compile. For a tensor with at least one row, as PyTorch assumes, these slices are
in bounds and their extents are simple; for an empty tensor they would read a row that does not exist. So are
slices such as ``x[:, 1:-3]`` where PyTorch knows of enough rows (`slice_rows`).

Where one bound is computed from extents, and one is negative, the importer fails. It fails as well on parts
whose lengths are computed, such as the halves of a symbolic axis.
"""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np
from tvm import relax, tirx

from annotated_region.functions.polynomials import are_equal
from annotated_region.importing.torch_programs.converters.bounds import END, bound_in, is_below_zero
from annotated_region.importing.torch_programs.converters.plain_extents import is_symbolic
from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.slice_rows import rows_of_slice
from annotated_region.importing.torch_programs.converters.torch_node import TorchNode, extents_of_tensor
from annotated_region.tvm_adapter.arithmetic import Extent


@converts("slice.Tensor")
def sliced(node: TorchNode) -> relax.Expr | None:
    """One row at either end of a symbolic axis, or all but one; more where there are enough."""
    data, axis, step = node.tensor(0), node.argument(1, "dim", 0), node.argument(4, "step", 1)
    begin, end = node.argument(2, "start"), node.argument(3, "end")
    assert isinstance(axis, int)
    extents = extents_of_tensor(data)
    axis %= len(extents)
    length = extents[axis]
    begin = 0 if begin is None else begin
    end = None if _is_end(end, length) else end
    if isinstance(begin, relax.Expr) or isinstance(end, relax.Expr):
        return _between(node, data, axis, begin, end)
    if isinstance(length, int) or step != 1 or end == 0:
        return None
    if begin == -1 and end is None:
        return node.emit(relax.op.take(data, relax.const([-1], "int64"), axis, mode="wrap"))
    is_simple = begin in (0, 1) and end in (1, -1, None) and (begin, end) not in ((0, None), (1, 1), (1, -1))
    if not is_simple and rows_of_slice(node.node) is None:
        return None
    assert isinstance(begin, int)
    assert end is None or isinstance(end, int)
    if begin < 0:
        places = relax.const(np.arange(begin, end or 0), "int64")
        return node.emit(relax.op.take(data, places, axis, mode="wrap"))
    stop = length if end is None else end if end > 0 else tirx.Sub(length, tirx.IntImm("int64", -end))
    return node.emit(relax.op.strided_slice(data, [axis], [begin], [stop], assume_inbound=True))


def _is_end(end: object, length: Extent) -> bool:
    """Whether a bound is that of the axis, as ``torch.diff`` has it."""
    if isinstance(end, int):
        return end >= END
    return is_symbolic(end) and isinstance(length, relax.Expr) and are_equal(end, length)


def _between(node: TorchNode, data: relax.Expr, axis: int, begin: object, end: object) -> relax.Expr | None:
    """A slice with a computed bound, one of which is negative or the begin; others TVM converts.

    Rows behind a computed one are taken by their indices, which targets claim.
    """
    given = [node.given(place, name) for place, name in ((2, "start"), (3, "end"))]
    is_below = [False if each is None else is_below_zero(each) for each in given]
    begins_anywhere = isinstance(begin, relax.Expr) and None not in is_below
    if not (any(is_below) or begins_anywhere) or node.argument(4, "step", 1) != 1:
        return None
    length = extents_of_tensor(data)[axis]
    first = 0 if given[0] is None else bound_in(length, begin, given[0])
    last = length if end is None else bound_in(length, end, given[1])
    if not begins_anywhere:
        return node.emit(relax.op.strided_slice(data, [axis], [first], [last], assume_inbound=True))
    return node.emit(relax.op.take(data, node.emit(relax.op.arange(first, last, 1, "int64")), axis))


@converts("split_with_sizes.default")
def split_by_lengths(node: TorchNode) -> relax.Expr | None:
    """The parts of an axis, some lengths of which are computed from extents; others are left to TVM."""
    data, lengths, axis = node.tensor(0), node.argument(1, "split_sizes"), node.argument(2, "dim", 0)
    assert isinstance(lengths, list)
    assert isinstance(axis, int)
    if all(isinstance(length, int) for length in lengths):
        return None
    extents = extents_of_tensor(data)
    axis %= len(extents)
    ends: list[Extent] = list(accumulate(lengths))
    bounds = pairwise([0, *ends[:-1], extents[axis]])
    return node.emit(
        relax.Tuple(
            [
                node.emit(relax.op.strided_slice(data, [axis], [first], [last], assume_inbound=True))
                for first, last in bounds
            ]
        )
    )
