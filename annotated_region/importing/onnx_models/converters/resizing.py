"""``Resize`` in the cases that TVM's importer converts wrongly.

TVM 0.27.0 ignores ``antialias``, ``axes``, ``keep_aspect_ratio_policy`` and the scales of batch and channels.
It replaces a scale that does not divide by the ratio of the rounded extents. It has no
``half_pixel_symmetric``. Here such nodes become a product with constant weights along each axis, or, for the
mode ``nearest``, a gather of elements. All others become ``image.resize2d`` and its variants, or, along
symbolic axes where TVM cannot compile it, rows that are taken and blended (`row_resizing`).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import numpy as np
from tvm import relax, tirx

from annotated_region.importing.onnx_models.converters.expand import extents_of_input
from annotated_region.importing.onnx_models.converters.folding import known_numbers
from annotated_region.importing.onnx_models.converters.node import FLOATS, OnnxNode, dtype_of, rank_of
from annotated_region.importing.onnx_models.converters.registry import converts
from annotated_region.importing.onnx_models.converters.row_resizing import (
    SymbolicScale,
    resized_rows,
    scaled_extent,
)
from annotated_region.importing.shared_ops.axis_products import product_along
from annotated_region.importing.shared_ops.interpolation import (
    AxisScale,
    Interpolation,
    nearest_elements,
    reach,
    weights,
)
from annotated_region.tvm_adapter.arithmetic import Extent, provably_equal

__all__: list[str] = []

_ATTRIBUTES = (
    "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value "
    "keep_aspect_ratio_policy mode nearest_mode"
)
_MODES = ("nearest", "linear", "cubic")
_ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "tf_half_pixel_for_nn",
    "align_corners",
    "asymmetric",
)
_POLICIES = ("stretch", "not_larger", "not_smaller")
_IGNORED = ("antialias", "axes", "keep_aspect_ratio_policy")
"""The attributes that TVM's importer ignores."""
_LARGEST = 2**24
"""The maximum number of weights of an axis: enough for axes of 4 096 elements, as in the largest images."""


_FIRST_RESIZED = 2
"""The first axis behind batch and channels."""


class _Symbolic(enum.Enum):
    """The change of an axis of symbolic extent."""

    STAYS = enum.auto()
    BY_A_FACTOR = enum.auto()
    TO_A_SIZE = enum.auto()


_Scale = AxisScale | SymbolicScale | _Symbolic


@converts("", "Resize", (1, 4), _ATTRIBUTES)
def _resized(node: OnnxNode) -> relax.Expr:
    data = node.tensor(0)
    node = _with_known_sizes(node)
    coordinates = node.text("coordinate_transformation_mode", "half_pixel")
    has_numbers = bool(_numbers(node, 2) or _sizes(node))
    if coordinates == "tf_crop_and_resize" or not has_numbers:
        return _left_to_tvm(node, "a region of interest or a computed size")
    how = _interpolation(node, coordinates)
    axes = _axes(node, rank_of(data))
    scales = dict(zip(axes, _scales(node, data, axes), strict=True))
    node.require(
        how.coordinates != "align_corners" or all(_is_ratio(scale) for scale in scales.values()),
        "aligns corners by scales that do not divide, where ONNX Runtime differs from ONNX's definition",
    )
    if _is_as_tvm(how, rank_of(data), scales):
        return _by_tvm(node, data, scales)
    return _along_axes(node, data, how, scales)


def _with_known_sizes(node: OnnxNode) -> OnnxNode:
    """The node with variables for sizes that are data, such as those of the picture that a mask is for.

    Batch and channels stay as they are; each call is checked for it.
    """
    given = node.inputs[3] if node.has(3) else None
    if given is None or not isinstance(given.ty, relax.TensorType) or known_numbers(given) is not None:
        return node
    shape = node.shape(node.tensor(0))
    axes = _axes(node, len(shape))
    sizes = extents_of_input(node, 3, len(axes))
    for place, axis in enumerate(axes):
        if axis < _FIRST_RESIZED < len(shape):
            node.require_equal(sizes[place], shape[axis])
            sizes[place] = shape[axis]
    return node.with_input(3, relax.ShapeExpr(sizes))


def _left_to_tvm(node: OnnxNode, why: str) -> relax.Expr:
    """TVM's conversion of the node, if it has no attribute that TVM ignores, and no computed region."""
    ignored = [name for name in _IGNORED if name in node.attributes]
    node.require(not ignored, f"has the attribute {', '.join(map(repr, ignored))} with {why}")
    region = node.inputs[1] if node.has(1) else None
    node.require(
        region is None or node.constant(region) is not None,
        "has a region of interest that is computed, which is not supported; crop the image before it",
    )
    scales = node.constant(node.tensor(2)) if node.has(2) and node.has(3) else None
    # Older exporters write no scales as an empty list.
    return (node if scales is None or scales.size else node.with_input(2, None)).by_tvm()


def _interpolation(node: OnnxNode, coordinates: str) -> Interpolation:
    mode, rounding = node.text("mode", "nearest"), node.text("nearest_mode", "round_prefer_floor")
    for name, value, known in (
        ("mode", mode, _MODES),
        ("nearest_mode", rounding, _ROUNDINGS),
        ("coordinate_transformation_mode", coordinates, _COORDINATES),
    ):
        node.require(value in known, f"has the attribute {name!r} of {value!r}, which is not supported")
    antialias = node.integer("antialias", 0, 0, 1) == 1
    node.require(not (antialias and mode == "nearest"), "has 'antialias' with the mode 'nearest'")
    return Interpolation(
        mode,
        coordinates,
        rounding,
        node.number("cubic_coeff_a", -0.75),
        antialias,
        node.integer("exclude_outside", 0, 0, 1) == 1,
    )


def _axes(node: OnnxNode, rank: int) -> tuple[int, ...]:
    """The axes of the scales or sizes; all if the attribute is omitted."""
    given = node.integers("axes") or tuple(range(rank))
    node.require(
        all(-rank <= axis < rank for axis in given) and len({axis % rank for axis in given}) == len(given),
        f"has the attribute 'axes' of {given}, and {rank} axes",
    )
    return tuple(axis % rank for axis in given)


def _scales(node: OnnxNode, data: relax.Expr, axes: tuple[int, ...]) -> list[_Scale]:
    """The scale of each axis."""
    by_scale, by_size = _numbers(node, 2), _sizes(node)
    count = len(by_scale) + len(by_size)
    node.require(bool(by_scale) != bool(by_size), "has both scales and sizes, or neither")
    node.require(count == len(axes), f"has {count} scales or sizes for {len(axes)} axes")
    numbers = [*by_scale, *(each for each in by_size if isinstance(each, int))]
    node.require(
        all(np.isfinite(each) and each > 0 for each in numbers), f"has scales or sizes of {tuple(numbers)}"
    )
    shape = node.shape(data)
    extents = [shape[axis] for axis in axes]
    if by_scale:
        return [_by_scale(node, extent, scale) for extent, scale in zip(extents, by_scale, strict=True)]
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    node.require(policy in _POLICIES, f"has the attribute 'keep_aspect_ratio_policy' of {policy!r}")
    if policy == "stretch":
        return [_to_size(extent, size) for extent, size in zip(extents, by_size, strict=True)]
    known, sizes = ([_known(node, extent) for extent in each] for each in (extents, by_size))
    ratios = [size / extent for size, extent in zip(sizes, known, strict=True)]
    common = min(ratios) if policy == "not_larger" else max(ratios)
    return [AxisScale(extent, int(common * extent + 0.5), common) for extent in known]


def _to_size(extent: Extent, size: Extent) -> _Scale:
    if isinstance(extent, int) and isinstance(size, int):
        return AxisScale(extent, size, size / extent)
    return _Symbolic.STAYS if provably_equal(extent, size) else _Symbolic.TO_A_SIZE


def _sizes(node: OnnxNode) -> list[Extent]:
    """The sizes: numbers, and extents where exporters join those of the batch with the size of the image."""
    given = node.inputs[3] if node.has(3) else None
    values = given.ty.values if given is not None and isinstance(given.ty, relax.ShapeType) else None
    if values is None:
        return [int(number) for number in _numbers(node, 3)]
    return [int(each) if isinstance(each, tirx.IntImm) else each for each in values]


def _numbers(node: OnnxNode, place: int) -> list[float]:
    if not node.has(place):
        return []
    found = node.constant(node.tensor(place, ("float32", "int64"), (1,)))
    return [] if found is None else [float(each) for each in found]


def _by_scale(node: OnnxNode, extent: Extent, scale: float) -> _Scale:
    if isinstance(extent, int):
        # In float32, as ONNX Runtime and TVM do, so that 0.7 of 10 elements are 7.
        return AxisScale(extent, int(np.float32(scale) * np.float32(extent)), scale)
    if not scale.is_integer():
        return SymbolicScale(extent, scaled_extent(node, extent, scale), scale)
    return _Symbolic.STAYS if scale == 1 else _Symbolic.BY_A_FACTOR


def _known(node: OnnxNode, extent: Extent) -> int:
    if not isinstance(extent, int):
        raise node.declined(f"resizes an axis of the symbolic extent {extent}")
    return extent


def _is_ratio(axis: _Scale) -> bool:
    """Whether the scale is the ratio of the extents, up to the rounding of float32."""
    if isinstance(axis, SymbolicScale):
        return axis.scale is None
    return isinstance(axis, _Symbolic) or abs(axis.before * axis.scale - axis.after) <= 1e-6 * axis.after


def _stays(axis: _Scale) -> bool:
    if not isinstance(axis, AxisScale):
        return axis is _Symbolic.STAYS
    return axis.before == axis.after and _is_ratio(axis)


def _is_as_tvm(how: Interpolation, rank: int, scales: Mapping[int, _Scale]) -> bool:
    if rank not in (3, 4, 5) or how.coordinates == "half_pixel_symmetric":
        return False
    if not all(_is_ratio(each) and (axis >= _FIRST_RESIZED or _stays(each)) for axis, each in scales.items()):
        return False
    changed = [each for each in scales.values() if not _stays(each)]
    if how.coordinates == "align_corners" and any(isinstance(each, _Symbolic) for each in changed):
        return False
    known = [each for axis, each in scales.items() if axis >= _FIRST_RESIZED and isinstance(each, AxisScale)]
    shrinks = any(each.after < each.before for each in known) or _Symbolic.TO_A_SIZE in scales.values()
    is_one = any(each.after <= 1 for each in known)
    return not (how.antialias and shrinks) and not (how.coordinates == "align_corners" and is_one)


def _by_tvm(node: OnnxNode, data: relax.Expr, scales: Mapping[int, _Scale]) -> relax.Expr:
    """TVM's conversion to a size for each axis behind the channels."""
    shape = node.shape(data)
    sizes = [_size(node, extent, axis, scales.get(axis)) for axis, extent in enumerate(shape[2:], 2)]
    attributes = {name: value for name, value in _given(node).items() if name not in _IGNORED}
    is_line = len(sizes) == 1 and attributes.get("mode", b"nearest") != b"cubic"
    if is_line:
        # TVM's importer emits an opaque function for lines; they are images of one row.
        data, sizes = node.emit(relax.op.expand_dims(data, [2])), [1, *sizes]
    known = [size for size in sizes if isinstance(size, int)]
    node.require(len(known) == len(sizes) or len(sizes) > 1, "resizes a line of symbolic extent by 'cubic'")
    given = relax.const([1, 1, *(known if len(known) == len(sizes) else [1] * len(sizes))], "int64")
    call = node.standard("Resize", [data, None, None, given], attributes)
    if len(known) < len(sizes):
        # TVM takes extents for sizes, and its importer does not.
        assert isinstance(call, relax.Call)
        call = relax.Call(call.op, [call.args[0], relax.ShapeExpr(sizes)], call.attrs, call.ty_args)
    return relax.op.squeeze(node.emit(call), [2]) if is_line else call


def _size(node: OnnxNode, extent: Extent, axis: int, scale: _Scale | None) -> Extent:
    """The extent of the result along an axis."""
    if isinstance(scale, AxisScale):
        return scale.after
    place = _axes(node, rank_of(node.tensor(0))).index(axis) if scale is not None else 0
    match scale:
        case _Symbolic.BY_A_FACTOR:
            return extent * int(_numbers(node, 2)[place])
        case _Symbolic.TO_A_SIZE:
            return _sizes(node)[place]
    return extent


def _row_scale(node: OnnxNode, axis: int, scale: SymbolicScale | _Symbolic) -> SymbolicScale:
    if isinstance(scale, SymbolicScale):
        return scale
    extent = node.shape(node.tensor(0))[axis]
    return SymbolicScale(extent, _size(node, extent, axis, scale))


def _given(node: OnnxNode) -> dict[str, object]:
    from onnx.helper import get_attribute_value  # noqa: PLC0415 - an extra

    return {name: get_attribute_value(each) for name, each in node.attributes.items()}


def _along_axes(
    node: OnnxNode, data: relax.Expr, how: Interpolation, scales: Mapping[int, _Scale]
) -> relax.Expr:
    """Resizes one axis after another; axes that keep their extent are skipped."""
    dtype = dtype_of(data)
    node.require(how.mode == "nearest" or dtype in FLOATS, f"interpolates elements of type {dtype}")
    for axis, scale in scales.items():
        if _stays(scale):
            continue
        if not isinstance(scale, AxisScale):
            data = resized_rows(node, data, axis, how, _row_scale(node, axis, scale))
            continue
        node.require(scale.after > 0, "has a result without elements")
        if how.mode == "nearest":
            data = node.emit(relax.op.take(data, relax.const(nearest_elements(how, scale)), axis))
            continue
        node.require(scale.before * scale.after <= _LARGEST, "has an axis too long for its weights")
        # ONNX Runtime cuts a kernel that is longer than the axis, where ONNX repeats its ends.
        is_inside = not how.antialias or reach(how, scale) < scale.before
        node.require(is_inside, f"averages more elements than the axis {axis} has")
        data = product_along(node.emit, data, axis, relax.const(weights(how, scale).T, dtype))
    return data
