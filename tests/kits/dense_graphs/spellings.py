"""The same ops written otherwise: channels at other places, axes counted from the end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kits.dense_graphs.bench import LARGEST, Bench, volume
from kits.dense_graphs.idioms import Idiom
from kits.dense_graphs.recipe import Node, Recipe
from kits.dense_graphs.views import viewed
from kits.dense_graphs.windows import LAYOUTS, Window, known

__all__ = ["SPELLINGS", "counted_from_the_end"]


def pool_of_any_layout(bench: Bench) -> int | None:
    """Maximum, average or adaptive average of an image whose channels are last, or second in the result."""
    spatial = bench.one_of((1, 2, 2, 3))
    value = viewed(bench, bench.value(spatial + 2), 0.25)
    shape = bench.shape_of(value)
    extents = known(shape[1:-1])
    if len(shape) != spatial + 2 or len(extents) < spatial:
        return None
    plain = LAYOUTS[spatial + 2]
    last = f"N{plain[2:]}C"
    layouts = {"layout": last, "out_layout": bench.one_of((last, last, plain))}
    batch, channels = shape[0], shape[-1]

    def whole(sizes: list[int]) -> tuple[int | str, ...]:
        if layouts["out_layout"] == last:
            return (batch, *sizes, channels)
        return (batch, channels, *sizes)

    if bench.chance(0.3):
        size = [bench.one_of((extent, 1, bench.number(1, extent + 1))) for extent in extents]
        return bench.add(
            f"nn.adaptive_avg_pool{spatial}d", (value,), {"output_size": size, **layouts}, whole(size)
        )
    window = Window.within(bench, extents, [bench.one_of((1, 1, 2)) for _ in extents])
    attrs: dict[str, object] = {"pool_size": window.size, **window.attrs, **layouts}
    kind = bench.one_of(("max", "avg"))
    if kind == "avg":
        attrs["count_include_pad"] = bench.chance(0.5)
    return bench.add(f"nn.{kind}_pool{spatial}d", (value,), attrs, whole(window.results(extents)))


def resize_of_channels_last(bench: Bench) -> int | None:
    """By the nearest pixel, linear or cubic, with any coordinates."""
    value = viewed(bench, bench.value(4), 0.2)
    shape = bench.shape_of(value)
    extents = known(shape)
    if len(extents) != 4:
        return None
    layout = bench.one_of(("NHWC", "NCHW"))
    before = extents[1:3] if layout == "NHWC" else extents[2:]
    size = [bench.one_of((extent, 2 * extent, bench.number(1, 5))) for extent in before]
    attrs = {
        "size": size,
        "layout": layout,
        "method": bench.one_of(("nearest_neighbor", "linear", "cubic")),
        "coordinate_transformation_mode": bench.one_of(("half_pixel", "asymmetric", "align_corners")),
        "rounding_method": bench.one_of(
            ("round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
        ),
        "cubic_alpha": bench.one_of((-0.75, -0.5)),
    }
    if attrs["coordinate_transformation_mode"] == "align_corners" and min(size) < 2:
        return None  # TVM aligns no corners of one pixel
    ends = (extents[0], *size, extents[3]) if layout == "NHWC" else (*extents[:2], *size)
    return None if volume(ends) > LARGEST else bench.add("image.resize2d", (value,), attrs, ends)


def norm_of_any_axis(bench: Bench) -> int | None:
    """Batch norm, group norm, instance norm and layer norm whose channels are not the second axis."""
    value = viewed(bench, bench.value())
    shape = bench.shape_of(value)
    rank = len(shape)
    if not 2 <= rank <= 5:
        return None
    axis = bench.number(0, rank - 1)
    channels = shape[axis]
    if not isinstance(channels, int):
        return None
    way = bench.number(0, 2)
    if way == 0:
        kinds = ("positive", "normal", "normal", "positive")
        given = [bench.source((channels,), kind, constant=0.9) for kind in kinds]
        attrs = {"axis": axis, "epsilon": 1e-2, "training": False}
        whole = bench.add("nn.batch_norm", (value, *given), attrs, shape)
        return bench.add("field", (whole,), {"index": 0}, shape)
    given = [bench.source((channels,), "positive", constant=0.8), bench.source((channels,), constant=0.8)]
    others = [place for place in range(1, rank) if place != axis]
    if way == 1 and rank > 2 and axis > 0 and volume([shape[place] for place in others]) > 1:
        options = {"channel_axis": axis, "axes": others, "epsilon": 1e-2}
        if bench.chance(0.3):
            return bench.unary_with("nn.instance_norm", value, given, **options)
        groups = bench.one_of([count for count in (1, 2, channels) if channels % count == 0])
        return bench.unary_with("nn.group_norm", value, given, num_groups=groups, **options)
    if channels < 2:
        return None
    if bench.chance(0.3):
        return bench.unary_with("nn.rms_norm", value, given[:1], axes=[axis], epsilon=1e-2)
    return bench.unary_with("nn.layer_norm", value, given, axes=[axis], epsilon=1e-2)


def slopes_of_any_axis(bench: Bench) -> int | None:
    """A slope for each place along some axis."""
    value = viewed(bench, bench.value())
    shape = bench.shape_of(value)
    if not shape:
        return None
    axis = bench.number(0, len(shape) - 1)
    if not isinstance(shape[axis], int):
        return None
    return bench.unary_with("nn.prelu", value, [bench.source((shape[axis],), constant=0.8)], axis=axis)


def dilated_transpose(bench: Bench) -> int | None:
    """A transposed convolution whose kernel has gaps."""
    value = viewed(bench, bench.value(4), 0.25)
    shape = bench.shape_of(value)
    extents = known(shape[1:])
    if len(shape) != 4 or len(extents) < 3:
        return None
    channels, *image = extents
    kernel = [bench.number(1, 3) for _ in image]
    strides, dilation = ([bench.number(1, 2) for _ in image] for _ in range(2))
    reach = [(k - 1) * step + 1 for k, step in zip(kernel, dilation, strict=True)]
    padding = [bench.number(0, 1) if part > 1 else 0 for part in reach]
    sizes = [
        (e - 1) * s + part - 2 * pad for e, s, part, pad in zip(image, strides, reach, padding, strict=True)
    ]
    if min(sizes) < 1 or volume((shape[0], 2, *sizes)) > LARGEST:
        return None
    weight = bench.source((channels, 2, *kernel), constant=0.8)
    attrs = {"strides": strides, "padding": padding * 2, "dilation": dilation}
    return bench.add("nn.conv2d_transpose", (value, weight), attrs, (shape[0], 2, *sizes))


def order_in_int32(bench: Bench) -> int | None:
    """Places in the other type of whole numbers."""
    value = viewed(bench, bench.value())
    shape = bench.shape_of(value)
    axes = [axis for axis, extent in enumerate(shape) if isinstance(extent, int)]
    if not axes:
        return None
    axis = bench.one_of(axes)
    if bench.chance(0.5):
        attrs = {"axis": axis, "descending": bench.chance(0.5), "dtype": "int32"}
        return bench.add("argsort", (value,), attrs, shape, "int32")
    count = bench.number(1, known([shape[axis]])[0])
    options = {
        "axis": axis,
        "k": count,
        "largest": bench.chance(0.5),
        "ret_type": "indices",
        "dtype": "int32",
    }
    options["ret_type"] = "indices"
    return bench.add("topk", (value,), options, (*shape[:axis], count, *shape[axis + 1 :]), "int32")


SPELLINGS: tuple[tuple[float, Idiom], ...] = (
    (4.0, pool_of_any_layout),
    (2.0, resize_of_channels_last),
    (4.0, norm_of_any_axis),
    (1.0, slopes_of_any_axis),
    (1.0, dilated_transpose),
    (1.0, order_in_int32),
)
"""Weights and idioms."""

OF_RESULT = ("stack", "expand_dims", "one_hot")
"""Ops whose axes are those of the result."""

COUNTED = (
    *("nn.softmax", "nn.log_softmax", "argmax", "argmin", "argsort", "sort", "topk", "cumsum", "cumprod"),
    *("concat", "split", "take", "repeat", "flip", "gather_elements", "scatter_elements", "squeeze"),
    *("sum", "mean", "max", "min", "prod", "variance", "quantize", "dequantize", "nn.batch_norm"),
    *("nn.layer_norm", "nn.rms_norm", "nn.group_norm", "nn.instance_norm", "nn.prelu", "permute_dims"),
    "strided_slice",
    *OF_RESULT,
)
NAMES = ("axis", "axes", "channel_axis")


def counted_from_the_end(recipe: Recipe, rng: np.random.Generator) -> Recipe:
    """The same graph, with half of its axes as negative numbers."""

    def respelled(node: Node) -> Node:
        if node.op not in COUNTED or rng.random() < 0.5:
            return node
        rank = len(node.shape if node.op in OF_RESULT else recipe.nodes[node.operands[0]].shape)
        attrs = {
            name: _negative(value, rank) if name in NAMES else value for name, value in node.attrs.items()
        }
        return replace(node, attrs=attrs)

    return replace(recipe, nodes=tuple(respelled(node) for node in recipe.nodes))


def _negative(axes: object, rank: int) -> object:
    if isinstance(axes, int):
        return axes - rank if 0 <= axes < rank else axes
    return [_negative(axis, rank) for axis in axes] if isinstance(axes, list) else axes
