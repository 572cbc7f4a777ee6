"""Resizing of images: by a kernel of the runtime, or by oneDNN where that keeps the layout of the image."""

from __future__ import annotations

from annotated_region.backends.dnnl.graph import Dim, Kind, TensorId, same_dim
from annotated_region.backends.dnnl.importer import extents_of
from annotated_region.backends.dnnl.index_parameters import Coordinates, PixelRounding, ResizeMethod, Resizing
from annotated_region.backends.dnnl.ops.checks import Problems
from annotated_region.backends.dnnl.ops.registry import OpConversion, converts
from annotated_region.backends.dnnl.views import axes_between, permute, permuted_shape
from annotated_region.targets.op_view import OpView

__all__: list[str] = []

LARGEST_FACTOR = 8
"""The largest integer factor that is tried for a resize of symbolic extents."""

NEAREST = (("asymmetric", "floor"), ("half_pixel", "round"), ("half_pixel", "round_prefer_floor"))
"""Coordinates and rounding that select the same pixel as oneDNN for integer upscaling factors."""

METHODS = {method.value: method for method in ResizeMethod}
COORDINATES = {coordinates.value: coordinates for coordinates in Coordinates}
ROUNDINGS = {rounding.value: rounding for rounding in PixelRounding}


def _resize_problems(op: OpView) -> Problems:
    attrs, layout = op.attrs, str(op.attrs["layout"])
    if sorted(layout) != sorted("NCHW"):
        yield f"the layout {layout}"
    if attrs["method"] not in METHODS:
        yield f"resize by {attrs['method']}"
    if attrs["coordinate_transformation_mode"] not in COORDINATES:
        yield f"resize with coordinates {attrs['coordinate_transformation_mode']}"
    if attrs["method"] == "nearest_neighbor" and _rounding(op) not in ROUNDINGS:
        yield f"resize with the rounding {attrs['rounding_method']}"
    if attrs["method"] == "cubic" and attrs["cubic_exclude"]:
        yield "cubic resize that leaves out pixels outside of the image"


def _rounding(op: OpView) -> str:
    """TVM's choice, where the op leaves it open."""
    is_aligned = op.attrs["coordinate_transformation_mode"] == Coordinates.CORNERS.value
    return str(op.attrs["rounding_method"]) or ("round" if is_aligned else "floor")


def _is_of_onednn(op: OpView) -> bool:
    coordinates, layout = op.attrs["coordinate_transformation_mode"], str(op.attrs["layout"])
    if op.attrs["method"] == "linear":
        return bool(coordinates == Coordinates.HALF_PIXEL.value)
    if op.attrs["method"] != "nearest_neighbor" or (coordinates, _rounding(op)) not in NEAREST:
        return False
    before, after = extents_of(op.arg_types[0]) or (), extents_of(op.out_type) or ()
    places = [layout.find(letter) for letter in "HW"]
    return -1 not in places and all(_grows_by_whole_factor(before[place], after[place]) for place in places)


def _grows_by_whole_factor(before: Dim, after: Dim) -> bool:
    if isinstance(before, int) and isinstance(after, int):
        return after % before == 0
    return any(same_dim(before * factor, after) for factor in range(1, LARGEST_FACTOR + 1))


@converts("relax.image.resize2d", unless=_resize_problems)
def _resize(call: OpConversion) -> TensorId:
    attrs, graph, layout = call.attrs, call.graph, call.attrs["layout"]
    coordinates = COORDINATES[str(attrs["coordinate_transformation_mode"])]
    rounding = ROUNDINGS.get(_rounding(call.op), PixelRounding.ROUND)  # none but the nearest pixel has one
    parameters = Resizing(METHODS[str(attrs["method"])], coordinates, rounding, float(attrs["cubic_alpha"]))
    forward = axes_between(layout, "NCHW")
    data = permute(graph, call.operand(0), forward)
    kind = Kind.RESAMPLING if _is_of_onednn(call.op) else Kind.RESIZING
    result = graph.add(kind, (data,), permuted_shape(call.shape, forward), parameters)
    return permute(graph, result, axes_between("NCHW", layout))
