"""Proposes transposed convolutions: dilated and padded data, convolved with a reversed kernel.

    data -> data_dilate -> data_pad --.
                                       >-- sum of products
    kernel [-> kernel_dilate] -> flipped '

The stride is the dilation of the data; the dilation is that of the kernel. The padding at the end determines
only the padding minus the output padding, so one of the two is 0 in a proposal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

from tvm import relax

from annotated_region.op_info.infer.indices import affine
from annotated_region.op_info.infer.segment import Segment
from annotated_region.op_info.loops import Block
from annotated_region.op_info.loops.trees import Tree, loads_in, subtrees

__all__ = ["read_transposed_convolutions"]

_OPS = {3: relax.op.nn.conv1d_transpose, 4: relax.op.nn.conv2d_transpose, 5: relax.op.nn.conv3d_transpose}


def read_transposed_convolutions(segment: Segment) -> Iterator[relax.Call]:
    """A sum of products after three or four blocks that move elements."""
    if len(segment.variables) != 2 or len(segment.blocks) not in (4, 5) or not segment.blocks[-1].reduction:
        return
    rank = len(segment.inputs[0].shape)
    if rank not in _OPS or len(segment.inputs[1].shape) != rank or len(segment.outputs) != 1:
        return
    if len(segment.outputs[0].shape) != rank:
        return
    for data, kernel in permutations(segment.variables):
        call = _proposal(segment, data, kernel)
        if call is not None:
            yield call


@dataclass(frozen=True, slots=True)
class _Axis:
    """The parameters of one spatial axis.

    Attributes
    ----------
    stride, dilation
        The dilation of the data, and of the kernel.
    before, after
        The widths of the padding of the dilated data.
    window
        The length of the reversed kernel.
    """

    stride: int
    dilation: int
    before: int
    after: int
    window: int

    @property
    def front(self) -> int:
        """The padding attribute; TVM pads the data by the window length minus one, minus this attribute."""
        return self.window - 1 - self.before

    @property
    def back(self) -> int:
        """The padding at the end minus the output padding."""
        return self.window - 1 - self.after


def _proposal(segment: Segment, data: relax.Var, kernel: relax.Var) -> relax.Call | None:
    axes = _axes(segment, segment.buffer(data), segment.buffer(kernel))
    group, outputs = segment.tensor(kernel).shape[1], segment.outputs[0].shape[1]
    if axes is None or not isinstance(group, int) or not isinstance(outputs, int):
        return None
    return _OPS[len(axes) + 2](
        data,
        kernel,
        # The output padding must be less than the stride, which a single element does not determine.
        strides=[max(axis.stride, 1 - axis.back) for axis in axes],
        padding=[*(axis.front for axis in axes), *(max(axis.back, 0) for axis in axes)],
        output_padding=[max(-axis.back, 0) for axis in axes],
        dilation=[axis.dilation for axis in axes],
        groups=max(1, outputs // max(1, group)),
    )


def _axes(segment: Segment, data: int, kernel: int) -> list[_Axis] | None:
    """All spatial axes; None if the blocks are others than those of a transposed convolution."""
    spread, widened = _user(segment, data), _user(segment, kernel)
    padded = None if spread is None else _user(segment, spread.written[0])
    if spread is None or widened is None or padded is None:
        return None
    turned = [load[1] for load in segment.blocks[-1].loads if load[1] not in padded.written]
    tensors = (data, spread.written[0], padded.written[0], kernel, *turned[:1])
    lengths = [_lengths(segment, tensor) for tensor in tensors]
    if len(tensors) != 5 or len({len(each) for each in lengths}) != 1:
        return None
    indices = loads_in(padded.stores[0].value)[0][2][2:]
    axes = []
    for axis, (extent, length, total, weight, window) in enumerate(zip(*lengths, strict=True)):
        before = -_offset(indices[axis])
        stride = _stride(spread, axis + 2, extent, length)
        dilation = _stride(widened, axis + 2, weight, window)
        axes.append(_Axis(stride, dilation, before, total - length - before, window))
    return axes if min(min(axis.stride, axis.dilation) for axis in axes) > 0 else None


def _lengths(segment: Segment, buffer: int) -> list[int]:
    """The extents behind the first two axes, as far as they are known."""
    return [extent for extent in segment.program.tensors[buffer].shape[2:] if isinstance(extent, int)]


def _user(segment: Segment, buffer: int) -> Block | None:
    """The first block that reads a buffer, if it stores one thing."""
    blocks = (block for block in segment.blocks if any(load[1] == buffer for load in block.loads))
    block = next(blocks, None)
    return block if block is not None and len(block.stores) == 1 and not block.reduction else None


def _offset(index: Tree) -> int:
    form = affine(index)
    return 0 if form is None else form.offset


def _stride(spread: Block, axis: int, extent: int, length: int) -> int:
    """How far an axis is spread apart; for a single element only the code tells, if at all."""
    if extent > 1:
        return (length - 1) // (extent - 1)
    divisors = (
        part[2]
        for part in subtrees(spread.stores[0].value)
        if part[0] in ("mod", "div")
        and isinstance(part[2], int)
        and any(atom == ("iter", axis) for atom, _ in part[1][2])
    )
    return max(divisors, default=1)
