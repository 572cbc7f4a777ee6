"""Proposes convolutions and pooling: sliding windows, with strides and dilations as factors of the index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

from tvm import relax

from annotated_region.op_info.infer.indices import affine, difference, factors
from annotated_region.op_info.infer.segment import Segment
from annotated_region.op_info.loops import Block
from annotated_region.op_info.loops.trees import Tree
from annotated_region.tvm_adapter.types import tensor_type

__all__ = ["read_adaptive_pools", "read_convolutions", "read_pools"]

_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


@dataclass(frozen=True, slots=True)
class _Window:
    """The sliding window of a block over one tensor.

    Attributes
    ----------
    load
        The load from the tensor.
    axes
        The axes along which it slides; index ``stride * output position + dilation * position in the window``
    outputs, windows
        The iteration variables of both positions, by axis.
    """

    load: Tree
    axes: tuple[int, ...]
    outputs: tuple[int, ...]
    windows: tuple[int, ...]

    @property
    def strides(self) -> list[int]:
        return [factors(self.load[2][a])[i] for a, i in zip(self.axes, self.outputs, strict=True)]

    @property
    def dilation(self) -> list[int]:
        return [factors(self.load[2][a])[i] for a, i in zip(self.axes, self.windows, strict=True)]


def _window(block: Block, load: Tree, fixed: set[int]) -> _Window | None:
    """The window; variables in `fixed` (output channels) do not slide."""
    axes, outputs, windows = [], [], []
    for axis, index in enumerate(load[2]):
        form = affine(index)
        names = [] if form is None else list(form.factors)
        out = [i for i in names if i < len(block.spatial) and i not in fixed]
        inside = [i for i in names if i >= len(block.spatial)]
        if len(out) == 1 and len(inside) == 1:
            axes.append(axis)
            outputs.append(out[0])
            windows.append(inside[0])
    window = _Window(load, tuple(axes), tuple(outputs), tuple(windows))
    return window if axes and min(*window.strides, *window.dilation) > 0 else None


def _padding(segment: Segment, window: _Window) -> list[int] | None:
    """The widths before all axes, then after all axes; None if the tensor is not the result of padding."""
    source = window.load[1]
    if source in segment.program.inputs:
        return [0] * (2 * len(window.axes))
    maker = next((b for b in segment.blocks if source in b.written), None)
    value = maker.stores[-1].value if maker and len(maker.stores) == 1 else None
    inner = value[2] if value is not None and value[0] == "if" else value
    if inner is None or inner[0] != "load":
        return None
    padded, plain = segment.program.tensors[source].shape, segment.program.tensors[inner[1]].shape
    lengths = [(padded[axis], plain[axis]) for axis in window.axes] if len(padded) == len(plain) else []
    growth = [more for to, extent in lengths if (more := difference(to, extent)) is not None]
    if len(growth) != len(window.axes):
        return None
    forms = [affine(inner[2][axis]) for axis in window.axes]
    if None in forms:
        return None
    before = [-form.offset for form in forms if form is not None]
    after = [more - first for more, first in zip(growth, before, strict=True)]
    return [*before, *after] if min(*before, *after) >= 0 else None


def read_convolutions(segment: Segment) -> Iterator[relax.Call]:
    """A sum of products of a sliding window and a kernel, optionally after a block that pads."""
    block = segment.blocks[-1]
    if len(segment.variables) != 2 or len(segment.blocks) > 2 or not block.reduction:
        return
    for window_load, kernel_load in permutations(block.loads, 2):
        call = _convolution(segment, block, window_load, kernel_load)
        if call is not None:
            yield call


def _convolution(segment: Segment, block: Block, load: Tree, kernel: Tree) -> relax.Call | None:
    if kernel[1] not in segment.program.inputs:
        return None
    kernel_iters = [affine(index).single if affine(index) else None for index in kernel[2]]  # type: ignore[union-attr]
    channels = [i for i in kernel_iters if i is not None and i < len(block.spatial)]
    window = _window(block, load, set(channels))
    if window is None or len(channels) != 1 or None in kernel_iters or len(window.axes) not in _SPATIAL:
        return None
    padding = _padding(segment, window)
    letters = _SPATIAL[len(window.axes)]
    batch = [
        a for a, index in enumerate(load[2]) if a not in window.axes and _is_batch(index, block, channels)
    ]
    if padding is None or not batch:
        return None
    data_layout = _layout(len(load[2]), window.axes, letters, {batch[0]: "N"}, "C")
    roles = dict(zip(window.windows, letters, strict=True)) | {channels[0]: "O"}
    kernel_layout = "".join(roles.get(i, "I") for i in kernel_iters if i is not None)
    data = next(x for x in segment.variables if not x.same_as(segment.variable(kernel[1])))
    inputs = segment.tensor(data).shape[data_layout.index("C")]
    inputs_of_group = segment.program.tensors[kernel[1]].shape[kernel_layout.find("I")]
    if not isinstance(inputs, int) or not isinstance(inputs_of_group, int):
        return None
    groups = inputs // max(1, inputs_of_group)
    op = getattr(relax.op.nn, f"conv{len(letters)}d")
    dtype = segment.outputs[0].dtype
    call: relax.Call = op(
        data,
        segment.variable(kernel[1]),
        strides=window.strides,
        padding=padding,
        dilation=window.dilation,
        groups=groups,
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_dtype=None if dtype == str(tensor_type(data).dtype) else dtype,
    )
    return call


def _is_batch(index: Tree, block: Block, channels: list[int]) -> bool:
    form = affine(index)
    single = form.single if form else None
    return single is not None and single < len(block.spatial) and single not in channels


def _layout(rank: int, axes: tuple[int, ...], letters: str, known: dict[int, str], other: str) -> str:
    names = dict(zip(axes, letters, strict=True)) | known
    return "".join(names.get(axis, other) for axis in range(rank))


def read_pools(segment: Segment) -> Iterator[relax.Call]:
    """Maxima and means of a sliding window."""
    reducing = [block for block in segment.blocks if block.reduction]
    if len(segment.variables) != 1 or len(reducing) != 1 or len(segment.blocks) > 3:
        return
    block = reducing[0]
    window = _window(block, block.loads[0], set()) if len(block.loads) == 1 else None
    if window is None or len(window.axes) not in _SPATIAL:
        return
    padding = _padding(segment, window)
    if padding is None:
        return
    name = "max" if block.stores[0].value[0] == "Max" else "avg"
    letters = _SPATIAL[len(window.axes)]
    for ceil_mode, widths in _ceilings(padding, window.strides):
        for include in (False, True) if name == "avg" else (False,):
            yield getattr(relax.op.nn, f"{name}_pool{len(letters)}d")(
                segment.variables[0],
                pool_size=[block.reduction[i - len(block.spatial)] for i in window.windows],
                strides=window.strides,
                padding=widths,
                dilation=window.dilation,
                ceil_mode=ceil_mode,
                count_include_pad=include,
                layout=f"NC{letters}" if window.axes[0] == 2 else f"N{letters}C",
            )


def _ceilings(padding: list[int], strides: list[int]) -> Iterator[tuple[bool, list[int]]]:
    """Whether the number of outputs is rounded up; then TVM adds ``stride - 1`` to the padding at the end."""
    yield False, padding
    before, after = padding[: len(strides)], padding[len(strides) :]
    rest = [width - stride + 1 for width, stride in zip(after, strides, strict=True)]
    if min(rest) >= 0:
        yield True, [*before, *rest]


def read_adaptive_pools(segment: Segment) -> Iterator[relax.Call]:
    """Means over windows that divide a tensor into equal parts."""
    if len(segment.blocks) != 2 or len(segment.variables) != 1 or len(segment.outputs) != 1:
        return
    shape, rank = segment.outputs[0].shape, len(segment.outputs[0].shape)
    if rank not in (3, 4, 5) or len(segment.inputs[0].shape) != rank or not segment.blocks[0].reduction:
        return
    letters = _SPATIAL[rank - 2]
    if not all(isinstance(extent, int) for extent in shape[2:]):
        return
    for layout in _pool_layouts(rank, letters):
        size = [shape[layout.index(letter)] for letter in letters]
        yield getattr(relax.op.nn, f"adaptive_avg_pool{rank - 2}d")(segment.variables[0], size, layout)


def _pool_layouts(rank: int, letters: str) -> tuple[str, ...]:
    return ("NC" + letters, "N" + letters + "C") if rank == len(letters) + 2 else ()
