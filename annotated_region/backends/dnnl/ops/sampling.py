"""Sampling of images and volumes at computed places, and means of boxes of images."""

from __future__ import annotations

from annotated_region.backends.dnnl.graph import Kind, TensorId, same_dim
from annotated_region.backends.dnnl.importer import extents_of
from annotated_region.backends.dnnl.index_parameters import BoxMeans, Outside, SampleMethod, Sampling
from annotated_region.backends.dnnl.ops.checks import DATA_LAYOUTS, Problems
from annotated_region.backends.dnnl.ops.registry import OpConversion, converts
from annotated_region.targets.op_view import OpView

__all__: list[str] = []

METHODS = {method.value: method for method in SampleMethod}
OUTSIDES = {outside.value: outside for outside in Outside}
MOST_SAMPLES = 1024
"""Of a part of a box along an axis; each of them is kept while the part is pooled."""


def _sampling_problems(op: OpView) -> Problems:
    method, outside, layout = (str(op.attrs[name]) for name in ("method", "padding_mode", "layout"))
    data, grid = (extents_of(type_) or () for type_ in op.arg_types)
    axes = len(data) - 2
    if axes not in (2, 3) or layout != DATA_LAYOUTS[axes]:
        yield f"a tensor of rank {len(data)} with the layout {layout}"
        return
    if method not in METHODS or outside not in OUTSIDES:
        yield f"the method {method} with the padding {outside}"
    elif axes == 3 and method == SampleMethod.CUBIC.value:
        yield "cubic interpolation of volumes"
    if len(grid) != len(data) or grid[1] != axes:
        yield f"the grid does not have {axes} coordinates along axis 1"
    elif not same_dim(data[0], grid[0]):
        yield "the grid has another batch than the data"


@converts("relax.image.grid_sample", operands=("the data", "the grid"), unless=_sampling_problems)
def _grid_sample(call: OpConversion) -> TensorId:
    attrs = call.attrs
    method, outside = METHODS[str(attrs["method"])], OUTSIDES[str(attrs["padding_mode"])]
    return call.add(Kind.SAMPLING, call.operands(), Sampling(method, outside, bool(attrs["align_corners"])))


def _pooling_problems(op: OpView) -> Problems:
    attrs, (data, rows) = op.attrs, (extents_of(type_) or () for type_ in op.arg_types)
    layout, mode = str(attrs["layout"]), str(attrs["mode"])
    if len(data) != 4 or layout != DATA_LAYOUTS[2]:
        yield f"a tensor of rank {len(data)} with the layout {layout}"
    if mode != "avg":
        yield f"the pooling mode {mode}"
    if int(attrs["sample_ratio"]) > MOST_SAMPLES:
        yield f"more than {MOST_SAMPLES} samples of a part along an axis"
    if len(rows) != 2 or rows[1] != 5:
        yield "the boxes are not rows of an image's number and two corners"


@converts("relax.vision.roi_align", operands=("the data", "the boxes"), unless=_pooling_problems)
def _roi_align(call: OpConversion) -> TensorId:
    attrs = call.attrs
    samples = max(int(attrs["sample_ratio"]), 0)
    pooling = BoxMeans(float(attrs["spatial_scale"]), samples, bool(attrs["aligned"]))
    return call.add(Kind.BOX_POOLING, call.operands(), pooling)
