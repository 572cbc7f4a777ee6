"""Resizing of images, and sampling at computed positions."""

from __future__ import annotations

import numpy as np
from tvm import tirx

from annotated_region.backends.onnx_emitter.conversions.layouts import SPATIAL, relayout
from annotated_region.backends.onnx_emitter.conversions.nearest import is_safe, neighbours
from annotated_region.backends.onnx_emitter.emission import Dim, Emission, extents_of
from annotated_region.backends.onnx_emitter.registry import converter
from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import Declined, require
from annotated_region.tvm_adapter.arithmetic import provably_equal

__all__: list[str] = []

GRID_OPSET = 16
RENAMED_GRID_OPSET = 20
# If extents grow by an integer factor, the fractions of coordinates repeat; this many elements have them all.
_SAMPLE = 4
# The largest factor to try.
_MOST = 16
_SMOOTH = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")


@converter("relax.image.resize2d", "relax.image.resize3d")
def _resize(emission: Emission, op: OpView) -> str:
    attrs, layout = op.attrs, op.attrs["layout"]
    image = emission.operand(op.args[0])
    require(attrs["out_dtype"] in (None, "", "void", str(op.arg_tensor(0).dtype)), "a result of another type")
    order = "NC" + SPATIAL[2 if op.name == "relax.image.resize2d" else 3]
    data = relayout(emission, image, layout, order)
    before, after = (
        [dict(zip(layout, extents_of(type_), strict=True))[letter] for letter in order]
        for type_ in (op.arg_types[0], op.out_type)
    )
    if attrs["method"] == "nearest_neighbor":
        result = _nearest(emission, op, data, (before, after))
    else:
        result = _smooth(emission, op, data, (before, after))
    return relayout(emission, result, order, layout)


def _nearest(emission: Emission, op: OpView, data: str, shapes: tuple[list[Dim], list[Dim]]) -> str:
    """A ``Resize`` if all engines agree on the neighbours; otherwise a gather along each axis."""
    coordinates = str(op.attrs["coordinate_transformation_mode"])
    usual = "round" if coordinates == "align_corners" else "floor"
    rounding = str(op.attrs["rounding_method"] or usual)
    changed = [
        (axis, old, new)
        for axis, (old, new) in enumerate(zip(*shapes, strict=True))
        if axis > 1 and not _is_same(old, new)
    ]
    if not changed:
        return data
    if all(_agreed(old, new, coordinates, rounding) for _, old, new in changed):
        return _resized(
            emission,
            data,
            shapes[1],
            mode="nearest",
            coordinate_transformation_mode=coordinates,
            nearest_mode=rounding,
        )
    for axis, old, new in changed:
        if not isinstance(old, int) or not isinstance(new, int):
            raise Declined(f"nearest neighbours by {coordinates} and {rounding} along a symbolic extent")
        places = emission.ints(neighbours(old, new, coordinates, rounding).tolist())
        data = emission.node("Gather", data, places, axis=axis)
    return data


def _agreed(old: Dim, new: Dim, coordinates: str, rounding: str) -> bool:
    """Whether all engines find the same neighbours; symbolic extents must grow by an integer factor."""
    if isinstance(old, int) and isinstance(new, int):
        return is_safe(old, new, coordinates, rounding)
    factors = (factor for factor in range(1, _MOST + 1) if _grows(old, new, factor))
    factor = next(factors, None)
    return factor is not None and is_safe(_SAMPLE, _SAMPLE * factor, coordinates, rounding)


def _grows(old: Dim, new: Dim, factor: int) -> bool:
    """Whether an extent is another times a factor, also if computed in float: exact up to 2^24 elements."""
    if isinstance(new, tirx.Cast) and isinstance(new.value, tirx.Mul):
        scale, number = new.value.a, new.value.b
        if isinstance(scale, tirx.Cast):
            scale, number = number, scale
        if isinstance(scale, tirx.FloatImm) and isinstance(number, tirx.Cast):
            return bool(scale.value == factor) and provably_equal(number.value, old)
    return provably_equal(new, old * factor)


def _is_same(old: Dim, new: Dim) -> bool:
    return old == new if isinstance(old, int) and isinstance(new, int) else old is new


def _smooth(emission: Emission, op: OpView, data: str, shapes: tuple[list[Dim], list[Dim]]) -> str:
    attrs, mode = op.attrs, str(op.attrs["method"])
    coordinates = str(attrs["coordinate_transformation_mode"])
    require(coordinates in _SMOOTH, f"coordinates {coordinates}")
    require(mode == "linear" or (mode == "cubic" and len(shapes[1]) == 4), f"interpolation {mode}")
    if mode == "cubic":
        return _cubic(emission, op, data, shapes)
    return _resized(emission, data, shapes[1], mode=mode, coordinate_transformation_mode=coordinates)


def _cubic(emission: Emission, op: OpView, data: str, shapes: tuple[list[Dim], list[Dim]]) -> str:
    """A cubic ``Resize`` of each channel as an image of its own.

    ONNX Runtime 1.32 moves transpositions across a ``Resize``, but refuses cubic ones of other axes than the
    last two when they run. It moves none across a reshape that changes the shape.
    """
    before, after = shapes
    outer = _other_axes(before[0], before[1])
    resized = _resized(
        emission,
        emission.reshape_to(data, [*outer, *before[2:]]),
        [*outer, *after[2:]],
        mode="cubic",
        coordinate_transformation_mode=str(op.attrs["coordinate_transformation_mode"]),
        cubic_coeff_a=float(op.attrs["cubic_alpha"]),
        exclude_outside=int(op.attrs["cubic_exclude"]),
    )
    return emission.reshape_to(resized, after)


def _other_axes(batch: Dim, channels: Dim) -> list[Dim]:
    """As many images in other axes: a reshape to the same shape would be taken away."""
    if not _is_same(channels, 1):
        return [batch * channels, 1]
    return [] if _is_same(batch, 1) else [1, batch]


def _resized(emission: Emission, data: str, after: list[Dim], **attrs: object) -> str:
    return emission.node("Resize", data, "", "", emission.shape(after), **attrs)


@converter("relax.image.grid_sample")
def _grid_sample(emission: Emission, op: OpView) -> str:
    """TVM has the coordinates of a sample in axis 1 of the grid, ONNX in the last axis."""
    require(emission.opset >= GRID_OPSET, f"there is no GridSample in opset {emission.opset}")
    attrs, rank = op.attrs, len(extents_of(op.arg_types[0]))
    mode, padding = str(attrs["method"]), str(attrs["padding_mode"])
    require(attrs["layout"] == ("NC" + SPATIAL[rank - 2]), f"the layout {attrs['layout']}")
    require(rank == 4 or emission.opset >= RENAMED_GRID_OPSET, "a grid of three dimensions in this opset")
    require(mode in ("bilinear", "nearest") or (mode == "bicubic" and rank == 4), f"interpolation {mode}")
    require(mode != "bicubic" or padding != "reflection", "cubic interpolation with reflection padding")
    names = {"bilinear": "linear", "bicubic": "cubic"} if emission.opset >= RENAMED_GRID_OPSET else {}
    order = [0, *range(2, rank), 1]
    grid = emission.node("Transpose", emission.operand(op.args[1]), perm=order)
    return emission.node(
        "GridSample",
        emission.operand(op.args[0]),
        grid,
        mode=names.get(mode, mode),
        padding_mode=padding,
        align_corners=int(attrs["align_corners"]),
    )


@converter("relax.image.affine_grid")
def _affine_grid(emission: Emission, op: OpView) -> str:
    """The matrices times the coordinates of a regular grid, which is a constant."""
    batch, count, *target = extents_of(op.out_type)
    sizes = [size for size in target if isinstance(size, int)]
    if len(sizes) < len(target):
        raise Declined("a grid of symbolic extents")
    if op.attrs["align_corners"]:
        require(min(sizes) > 1, "a grid with one position along an axis")
        lines = [np.linspace(-1, 1, size) for size in sizes]
    else:
        lines = [(2 * np.arange(size) + 1) / size - 1 for size in sizes]
    axes = np.meshgrid(*lines, indexing="ij")
    places = np.stack([*(axis.reshape(-1) for axis in axes[::-1]), np.ones(axes[0].size)])
    theta = emission.operand(op.args[0])
    plain = emission.cast(emission.graph.constant(places.astype("float32")), emission.dtype(theta))
    moved = emission.node("MatMul", theta, plain)
    return emission.reshape_to(moved, [batch, count, *sizes])
