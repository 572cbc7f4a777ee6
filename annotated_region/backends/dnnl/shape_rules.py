"""What oneDNN claims of views, parts, joins, choices and comparisons; some may be of truth values."""

from __future__ import annotations

import numpy as np
from tvm import relax

from annotated_region.backends.dnnl.checks import (
    FLOAT,
    TRUTH,
    finite,
    function_problems,
    operand_problem,
    result_problem,
    tensor_problem,
)
from annotated_region.backends.dnnl.conversions.selection import COMPARISONS, LOGIC
from annotated_region.backends.dnnl.conversions.shape import slice_window
from annotated_region.backends.dnnl.importer import extents_of
from annotated_region.backends.dnnl.registration import Problems, claims
from annotated_region.targets.op_view import OpView

__all__: list[str] = []

EITHER = (FLOAT, TRUTH)
LEAST_EXTENT = 1  # of a tensor at run time: the runtime refuses empty ones


@claims(
    "relax.reshape",
    "relax.flatten",
    "relax.squeeze",
    "relax.expand_dims",
    "relax.permute_dims",
    "relax.broadcast_to",
)
def _view(op: OpView) -> Problems:
    yield from function_problems(op, EITHER)


@claims("relax.tile", "relax.repeat")
def _repeated(op: OpView) -> Problems:
    yield from function_problems(op, EITHER)
    if op.name == "relax.repeat" and op.attrs["axis"] is None:
        yield "it repeats the flat tensor"


@claims("relax.concat", "relax.stack")
def _joined(op: OpView) -> Problems:
    yield result_problem(op)
    fields = getattr(op.arg_types[0], "fields", None)
    if fields is None:
        yield "its operands are not known one by one"
        return
    for position, field in enumerate(fields):
        yield tensor_problem(field, f"operand {position}")


@claims("relax.split")
def _split(op: OpView) -> Problems:
    yield tensor_problem(op.arg_types[0], "the data", EITHER)
    axis = op.attrs["axis"] % op.arg_types[0].ndim
    for position, field in enumerate(op.out_type.fields):
        yield tensor_problem(field, f"part {position}", EITHER)
        if not isinstance((extents_of(field) or ())[axis], int):
            yield f"part {position} has a symbolic extent on the axis that is split"


@claims("relax.strided_slice")
def _strided_slice(op: OpView) -> Problems:
    yield from function_problems(op, EITHER)
    if slice_window(op) is None:
        yield "it does not go forward from begins that are numbers"


@claims("relax.take")
def _take(op: OpView) -> Problems:
    yield from function_problems(op, EITHER)
    index, axis = op.constant(1), op.attrs["axis"]
    if index is None:
        yield "the indices are computed, and oneDNN has no gather"
        return
    if axis is None:
        yield "it takes from the flat tensor"
        return
    extent = (extents_of(op.arg_types[0]) or ())[axis % op.arg_types[0].ndim]
    flat = index.reshape(-1)
    is_row = index.ndim < 2 and flat.size > 0 and np.array_equal(flat, np.arange(flat.size) + flat[0])
    if not is_row:
        yield "the indices are no row of neighbours"
    elif flat[0] < 0 or flat[-1] >= (extent if isinstance(extent, int) else LEAST_EXTENT):
        yield "the indices are not surely in range"


@claims("relax.nn.pad")
def _pad(op: OpView) -> Problems:
    yield from function_problems(op)
    if op.attrs["pad_mode"] != "constant":
        yield f"padding of mode {op.attrs['pad_mode']}"
    if any(width < 0 for width in op.attrs["pad_width"]):
        yield "a width below zero, which cuts off"
    if not finite(float(op.attrs["pad_value"])):
        yield "the value is not finite"


@claims(*COMPARISONS)
def _comparison(op: OpView) -> Problems:
    yield tensor_problem(op.out_type, "the result", (TRUTH,))
    for index, what in enumerate(("the left operand", "the right operand")):
        yield operand_problem(op, index, what, infinite=True)


@claims(*LOGIC, "relax.logical_not")
def _logic(op: OpView) -> Problems:
    for type_ in (*op.arg_types, op.out_type):
        yield tensor_problem(type_, "an operand or the result", (TRUTH,))


@claims("relax.where")
def _where(op: OpView) -> Problems:
    yield result_problem(op)
    yield tensor_problem(op.arg_types[0], "the condition", (TRUTH,))
    for index in (1, 2):
        is_number = isinstance(op.arg_types[index], relax.TensorType) and op.arg_types[index].ndim == 0
        if not (is_number and op.constant(index) is not None and str(op.arg_types[index].dtype) == FLOAT):
            yield tensor_problem(op.arg_types[index], "a choice")


@claims("relax.astype")
def _astype(op: OpView) -> Problems:
    yield tensor_problem(op.arg_types[0], "the data", EITHER)
    yield result_problem(op)


@claims("relax.nn.prelu")
def _prelu(op: OpView) -> Problems:
    yield from function_problems(op)
    yield tensor_problem(op.arg_types[1], "the slopes")
    slopes = op.constant(1)
    if slopes is not None and not np.isfinite(slopes).all():
        yield "a slope is not finite"
    extents = extents_of(op.arg_types[0]) or ()
    if op.attrs["axis"] % len(extents) != 1:
        yield "the slopes are not along the channels"
    if not 2 <= len(extents) <= 5:
        yield f"the data has rank {len(extents)}; known are 2 to 5"


@claims("relax.image.resize2d")
def _resize(op: OpView) -> Problems:
    yield from function_problems(op)
    attrs, layout = op.attrs, str(op.attrs["layout"])
    if sorted(layout) != sorted("NCHW"):
        yield f"the layout {layout}"
        return
    pairs = [
        (before, after)
        for before, after, letter in zip(
            extents_of(op.arg_types[0]) or (), extents_of(op.out_type) or (), layout, strict=True
        )
        if letter in "HW"
    ]
    if attrs["method"] == "linear":
        if attrs["coordinate_transformation_mode"] != "half_pixel":
            yield f"oneDNN has no linear resize with coordinates {attrs['coordinate_transformation_mode']}"
    elif attrs["method"] == "nearest_neighbor":
        rule = (attrs["coordinate_transformation_mode"], attrs["rounding_method"])
        whole = all(isinstance(a, int) and isinstance(b, int) and b % a == 0 for a, b in pairs)
        if rule not in NEAREST or not whole:
            yield "oneDNN takes the nearest pixel of half_pixel; only with whole factors do others agree"
    else:
        yield f"oneDNN has no resize by {attrs['method']}"


NEAREST = (("asymmetric", "floor"), ("half_pixel", "round"), ("half_pixel", "round_prefer_floor"))
"""Coordinates and rounding that choose oneDNN's pixel where an image grows by whole factors."""
