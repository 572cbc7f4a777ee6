"""Pooling: rounding up becomes padding, because engines disagree about ONNX's ``ceil_mode``."""

from __future__ import annotations

from annotated_region.backends.onnx_emitter.conversions.layouts import SPATIAL, relayout, require_same_axes
from annotated_region.backends.onnx_emitter.emission import Emission, extents_of
from annotated_region.backends.onnx_emitter.registry import converter
from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import require

__all__: list[str] = []


@converter(*(f"relax.nn.{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3)))
def _pooling(emission: Emission, op: OpView) -> str:
    attrs, spatial = op.attrs, SPATIAL[len(op.attrs["pool_size"])]
    pads, is_average = _pads(op, spatial), "avg" in op.name
    data = relayout(emission, emission.operand(op.args[0]), attrs["layout"], "NC" + spatial)
    shared = {"kernel_shape": list(attrs["pool_size"]), "strides": list(attrs["strides"]), "pads": pads}
    if is_average:
        require(all(step == 1 for step in attrs["dilation"]), "an average over a dilated window")
        included = int(attrs["count_include_pad"])
        result = emission.node("AveragePool", data, **shared, count_include_pad=included)
    else:
        result = emission.node("MaxPool", data, **shared, dilations=list(attrs["dilation"]))
    return relayout(emission, result, "NC" + spatial, attrs["out_layout"] or attrs["layout"])


def _pads(op: OpView, spatial: str) -> list[int]:
    """The padding before and after, including that for the windows that rounding up adds."""
    attrs, rank = op.attrs, len(spatial)
    before, after = list(attrs["padding"][:rank]), list(attrs["padding"][rank:])
    window = [(size - 1) * step + 1 for size, step in zip(attrs["pool_size"], attrs["dilation"], strict=True)]
    if attrs["ceil_mode"]:
        extents = dict(zip(attrs["layout"], extents_of(op.arg_types[0]), strict=True))
        for axis, letter in enumerate(spatial):
            extent = extents[letter]
            require(isinstance(extent, int), "the number of windows is rounded up along a symbolic extent")
            rest = (int(extent) + before[axis] + after[axis] - window[axis]) % attrs["strides"][axis]
            after[axis] += (attrs["strides"][axis] - rest) if rest else 0
        changed = after != list(attrs["padding"][rank:])
        require(
            not (changed and attrs.get("count_include_pad")), "an average that counts padding, rounded up"
        )
    require(
        all(pad < size for pad, size in zip(before + after, window * 2, strict=True)),
        "the padding is as wide as the window, so a window may contain only padding",
    )
    require(
        all(pad < size for pad, size in zip(before + after, [*attrs["pool_size"]] * 2, strict=True)),
        "the padding is as wide as the window would be without dilation, which ONNX Runtime refuses",
    )
    return before + after


ADAPTIVE = tuple(f"relax.nn.adaptive_avg_pool{rank}d" for rank in (1, 2, 3))


@converter(*ADAPTIVE)
def _adaptive_average(emission: Emission, op: OpView) -> str:
    layout, out_layout = op.attrs["layout"], op.attrs["out_layout"] or op.attrs["layout"]
    spatial = SPATIAL[ADAPTIVE.index(op.name) + 1]
    data = relayout(emission, emission.operand(op.args[0]), layout, "NC" + spatial)
    require_same_axes(out_layout, layout)
    before = dict(zip(layout, extents_of(op.arg_types[0]), strict=True))
    after = dict(zip(out_layout, extents_of(op.out_type), strict=True))
    if all(after[letter] == 1 for letter in spatial if isinstance(after[letter], int)) and all(
        isinstance(after[letter], int) for letter in spatial
    ):
        result = emission.node("GlobalAveragePool", data)
    else:
        window = [_share(before[letter], after[letter]) for letter in spatial]
        result = emission.node("AveragePool", data, kernel_shape=window, strides=window)
    return relayout(emission, result, "NC" + spatial, out_layout)


def _share(whole: object, count: object) -> int:
    require(isinstance(whole, int) and isinstance(count, int), "an extent to divide is symbolic")
    assert isinstance(whole, int)
    assert isinstance(count, int)
    require(whole % count == 0, f"windows of different sizes: {whole} divided into {count}")
    return whole // count
