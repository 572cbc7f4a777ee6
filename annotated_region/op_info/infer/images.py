"""Proposes image resizing: each element is interpolated at computed positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from tvm import relax

from annotated_region.op_info.infer.indices import affine
from annotated_region.op_info.infer.segment import Segment
from annotated_region.op_info.loops.trees import Extent, Tree, loads_in, subtrees

__all__ = ["read_resizes"]

_MODES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn")
_ROUNDINGS = ("round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_LAYOUTS = {4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}
_ALPHAS = (-0.75, -0.5)


def read_resizes(segment: Segment) -> Iterator[relax.Call]:
    """Resizes with each method that reads this number of elements, in each mode; crops are not proposed."""
    value = _resized(segment)
    rank = len(segment.outputs[0].shape)
    if value is None or rank not in _LAYOUTS:
        return
    op = relax.op.image.resize2d if rank == 4 else relax.op.image.resize3d
    for layout in _LAYOUTS[rank]:
        size = [segment.outputs[0].shape[axis] for axis, letter in enumerate(layout) if letter not in "NC"]
        if not _keeps(segment, layout):
            continue
        space = [segment.inputs[0].shape[layout.index(letter)] for letter in layout if letter not in "NC"]
        numbers = {abs(number) for number in segment.constants}
        for options in _methods(len(loads_in(value))):
            if _is_likely(options, space, size, numbers):
                yield op(segment.variables[0], segment.shape(size), layout=layout, **options)


def _resized(segment: Segment) -> Tree | None:
    """The stored value, if it is read from one tensor at positions computed from the output index."""
    if len(segment.variables) != 1 or len(segment.outputs) != 1 or len(segment.blocks) != 1:
        return None
    block = segment.blocks[0]
    if len(block.stores) != 1 or block.reduction or not loads_in(block.stores[0].value):
        return None
    value = block.stores[0].value
    computed = any(part[0] in ("index", "Max") for part in subtrees(value))
    return value if computed and len(segment.inputs[0].shape) == len(segment.outputs[0].shape) else None


def _keeps(segment: Segment, layout: str) -> bool:
    """Whether the batch and channel axes of this layout are unchanged."""
    shape, target = segment.inputs[0].shape, segment.outputs[0].shape
    load = loads_in(segment.blocks[0].stores[0].value)[0]
    return all(
        shape[axis] == target[axis] and affine(load[2][axis]) is not None
        for axis, letter in enumerate(layout)
        if letter in "NC"
    )


def _is_likely(
    options: Mapping[str, Any], space: Sequence[Extent], size: Sequence[Extent], numbers: set[float]
) -> bool:
    """Whether the code contains the numbers of a proposal; a filter, because lowering a proposal is slow."""
    if options["method"] == "nearest_neighbor":
        return True  # it lowers quickly, and may be computed in integers
    mode = options["coordinate_transformation_mode"]
    less = mode == "align_corners"
    known = [  # the scales of symbolic axes are computed when the code runs
        (extent, target)
        for extent, target in zip(space, size, strict=True)
        if isinstance(extent, int) and isinstance(target, int)
    ]
    scales = [(extent - less) / max(1, target - less) for extent, target in known]
    needed = [float(np.float32(scale)) for scale in scales if scale not in (0, 1)]
    needed += [0.5] if mode.endswith("half_pixel") and (needed or len(known) < len(space)) else []
    needed += [abs(options["cubic_alpha"])] if options["method"] == "cubic" else []
    return all(number in numbers for number in needed)


def _methods(reads: int) -> Iterator[Mapping[str, object]]:
    """The methods, most likely first: one read for nearest neighbours, or two or four along each axis."""
    names = ["cubic", "linear"] if reads >= 16 else ["linear", "cubic"]
    for method in ["nearest_neighbor", *names] if reads == 1 else names:
        for mode in _MODES:
            yield from (
                {"method": method, "coordinate_transformation_mode": mode, **rest}
                for rest in _options(method)
            )


def _options(method: str) -> Iterator[Mapping[str, object]]:
    if method == "nearest_neighbor":
        yield from ({"rounding_method": rounding} for rounding in _ROUNDINGS)
    elif method == "cubic":
        for alpha, exclude in product(_ALPHAS, (0, 1)):
            yield {"cubic_alpha": alpha, "cubic_exclude": exclude}
    else:
        yield {}
