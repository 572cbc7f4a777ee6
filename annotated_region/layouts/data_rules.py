"""Layout rules of ops whose attributes refer to axes: joins, reductions, norms, slices."""

from __future__ import annotations

from dataclasses import replace

from annotated_region.layouts.layout import Layout, Piece
from annotated_region.layouts.registry import LayoutChange, carried, parameters_of, register_layout_rule
from annotated_region.op_info.info import ArgRole, OpInfo, Shape, Sources, Value
from annotated_region.tvm_adapter.types import expect

__all__: list[str] = []

REDUCTIONS = ("sum", "max", "min", "mean", "prod", "variance", "std")


def _with(info: OpInfo, **attrs: object) -> OpInfo:
    return replace(info, attrs={**info.attrs, **attrs})


@register_layout_rule(
    *(f"relax.nn.{name}" for name in ("softmax", "log_softmax")),
    *(f"relax.{name}" for name in ("flip", "cumsum", "cumprod", "gather_elements", "scatter_elements")),
    *(f"relax.{name}" for name in ("sort", "argsort")),
)
def _along_an_axis(info: OpInfo, layout: Layout) -> LayoutChange | None:
    """All operands have the same rank; the axis is permuted with the others."""
    axis = info.attrs["axis"]
    moved = None if axis is None else layout.position(axis)
    return None if moved is None else carried(_with(info, axis=moved), layout)


@register_layout_rule("relax.concat")
def _concat(info: OpInfo, layout: Layout) -> LayoutChange | None:
    """Along a blocked axis, whole blocks are concatenated."""
    if info.attrs["axis"] is None:
        return None
    axis = info.attrs["axis"] % layout.rank
    (outer,) = [
        place for place, piece in enumerate(layout.pieces) if piece.axis == axis and piece.high is None
    ]
    return carried(_with(info, axis=outer), layout)


@register_layout_rule("relax.nn.prelu", "relax.repeat")
def _first_along_an_axis(info: OpInfo, layout: Layout) -> LayoutChange | None:
    axis = info.attrs["axis"]
    moved = None if axis is None else layout.position(axis)
    return None if moved is None else carried(_with(info, axis=moved), layout, [0])


@register_layout_rule("relax.take")
def _take(info: OpInfo, layout: Layout) -> LayoutChange | None:
    """With one-dimensional indices the result has the layout of the data; else the types will not fit."""
    return _first_along_an_axis(info, layout)


@register_layout_rule("relax.split")
def _split(info: OpInfo, layout: Layout) -> LayoutChange | None:
    change = _first_along_an_axis(info, layout)
    sections = info.attrs["indices_or_sections"]
    parts = sections if isinstance(sections, int) else len(sections) + 1
    return None if change is None else replace(change, results=(layout,) * parts)


@register_layout_rule("relax.stack")
def _stack(info: OpInfo, layout: Layout) -> LayoutChange | None:
    """The new axis is stored first."""
    axis = info.attrs["axis"] % (layout.rank + 1)
    return carried(_with(info, axis=0), layout, result=layout.with_first(axis))


@register_layout_rule(*(f"relax.{name}" for name in REDUCTIONS))
def _over_axes(info: OpInfo, layout: Layout) -> LayoutChange | None:
    axes = info.attrs["axis"]
    if axes is None:
        return _over_all_axes(info, layout)
    moved = layout.positions(axes)
    if moved is None:
        return None
    left = layout if info.attrs["keepdims"] else layout.without([axis % layout.rank for axis in axes])
    return carried(_with(info, axis=moved), layout, result=left)


def _over_all_axes(info: OpInfo, layout: Layout) -> LayoutChange | None:
    if info.attrs["keepdims"]:
        return carried(info, layout)
    return replace(carried(info, layout), results=(None,))


@register_layout_rule("relax.argmax", "relax.argmin")
def _position_along_an_axis(info: OpInfo, layout: Layout) -> LayoutChange | None:
    axis = info.attrs["axis"]
    moved = None if axis is None else layout.position(axis)
    if moved is None:
        return None
    left = layout if info.attrs["keepdims"] else layout.without([axis % layout.rank])
    return carried(_with(info, axis=moved), layout, result=left)


@register_layout_rule("relax.nn.batch_norm")
def _batch_norm(info: OpInfo, layout: Layout) -> LayoutChange | None:
    """The running statistics keep their layout."""
    change = _first_along_an_axis(info, layout)
    return None if change is None else replace(change, results=(layout, None, None))


@register_layout_rule("relax.nn.dropout")
def _dropout(info: OpInfo, layout: Layout) -> LayoutChange | None:
    return replace(carried(info, layout), results=(layout, layout))


@register_layout_rule("relax.nn.layer_norm", "relax.nn.rms_norm")
def _norm(info: OpInfo, layout: Layout) -> LayoutChange | None:
    """Scale and shift have their axes in the order of `axes`, so that order must be preserved."""
    axes = [axis % layout.rank for axis in info.attrs["axes"]]
    moved = layout.positions(axes)
    if moved is None or list(moved) != sorted(moved) or axes != sorted(axes):
        return None
    last = tuple(range(len(layout.pieces)))[-len(moved) :]
    if info.name == "relax.nn.rms_norm" and moved != last:
        return None  # TVM types other axes, but lowers only the last ones
    return carried(_with(info, axes=moved), layout, [0])


@register_layout_rule("relax.nn.group_norm", "relax.nn.instance_norm")
def _norm_of_channels(info: OpInfo, layout: Layout) -> LayoutChange | None:
    channel, axes = layout.position(info.attrs["channel_axis"]), layout.positions(info.attrs["axes"])
    if channel is None or axes is None:
        return None
    return carried(_with(info, channel_axis=channel, axes=axes), layout, [0])


@register_layout_rule("relax.nn.pad")
def _pad(info: OpInfo, layout: Layout) -> LayoutChange | None:
    """Blocked axes must not be padded."""
    widths = info.attrs["pad_width"]
    pairs = [widths[2 * piece.axis : 2 * piece.axis + 2] for piece in layout.pieces]
    if any(any(pair) for pair, piece in zip(pairs, layout.pieces, strict=True) if not piece.is_whole):
        return None
    return carried(_with(info, pad_width=sum(pairs, ())), layout)


@register_layout_rule("relax.tile")
def _tile(info: OpInfo, layout: Layout) -> LayoutChange | None:
    """Blocked axes must not be repeated."""
    repeats = info.attrs["repeats"]
    if len(repeats) > layout.rank:
        return None
    counts = (1,) * (layout.rank - len(repeats)) + tuple(repeats)
    if any(counts[piece.axis] > 1 for piece in layout.pieces if not piece.is_whole):
        return None
    return carried(_with(info, repeats=tuple(counts[piece.axis] for piece in layout.pieces)), layout)


@register_layout_rule("relax.strided_slice")
def _slice(info: OpInfo, layout: Layout) -> LayoutChange | None:
    """The axes are the second argument; begins, ends and strides are in the same order."""
    axes = info.arg_roles[1].source
    if not isinstance(axes, Sources):
        return None
    moved = []
    for axis in axes.fields:
        place = layout.position(int(axis.value)) if isinstance(axis, Value) else None
        if place is None or not isinstance(axis, Value):
            return None
        moved.append(Value(place, axis.dtype))
    return carried(_with_argument(info, 1, Sources(tuple(moved))), layout, [0])


@register_layout_rule("relax.broadcast_to")
def _broadcast(info: OpInfo, layout: Layout) -> LayoutChange | None:
    shape = info.arg_roles[1].source
    if not isinstance(shape, Shape) or len(shape.extents) != layout.rank:
        return None  # axes that are added have no place in a layout of the operand
    fixed = [extent for extent in shape.extents if isinstance(extent, int)]
    extents = layout.shape(fixed) if len(fixed) == layout.rank else None
    if extents is None:
        return None
    return carried(_with_argument(info, 1, Shape(tuple(expect(int, extent) for extent in extents))), layout)


@register_layout_rule("relax.zeros_like", "relax.ones_like")
def _as_it_is(info: OpInfo, layout: Layout) -> LayoutChange | None:
    return carried(info, layout)


@register_layout_rule("relax.matmul")
def _matmul(info: OpInfo, layout: Layout) -> LayoutChange | None:
    """The contracted axis may be stored in any order that the weight has, too.

    So a flattened tensor need not be transposed first: the rows of a constant weight are permuted instead.
    """
    last = layout.rank - 1
    parts = len(layout.pieces) - last
    before, summed = layout.pieces[:last], layout.pieces[last:]
    if before != tuple(map(Piece, range(last))) or any(piece.axis != last for piece in summed):
        return None
    data, weight = (parameters_of(role.source)[0] for role in info.arg_roles)
    rows = tuple(Piece(0, piece.low, piece.high) for piece in summed)
    operands = {
        data: Layout(layout.pieces, (1,) * last + (parts,)),
        weight: Layout((*rows, Piece(1)), (parts, 1)),
    }
    return LayoutChange(info, operands, (None,))


def _with_argument(info: OpInfo, place: int, source: Sources | Shape) -> OpInfo:
    roles = list(info.arg_roles)
    roles[place] = ArgRole(roles[place].role, source)
    return replace(info, arg_roles=tuple(roles))
