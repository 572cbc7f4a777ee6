"""Image ops that TVM 0.27's importer converts wrongly.

*   ``grid_sample`` has the coordinates on the last axis; TVM's op expects them on the second axis.
*   ``avg_pool2d`` may have an explicit divisor, which the importer ignores.
*   ``interpolate(mode="nearest")`` reads ``floor(i * before / after)``; the importer uses pixel centres.
*   ``interpolate(antialias=True)`` averages skipped elements; the importer ignores it. It is rejected.
"""

from __future__ import annotations

from collections.abc import Mapping

from tvm import relax

from annotated_region.errors import ModelError
from annotated_region.importing.torch_converters.registry import converts
from annotated_region.importing.torch_converters.torch_node import (
    TorchNode,
    dtype_of_tensor,
    extents_of_tensor,
)

_METHODS: Mapping[object, str] = {0: "bilinear", 1: "nearest", 2: "bicubic"}
_PADDINGS: Mapping[object, str] = {0: "zeros", 1: "border", 2: "reflection"}


@converts("grid_sampler_2d.default")
def sampled(node: TorchNode) -> relax.Expr:
    """The image, sampled at computed positions."""
    grid = node.emit(relax.op.permute_dims(node.tensor(1), [0, 3, 1, 2]))
    return node.emit(
        relax.op.image.grid_sample(
            node.tensor(0),
            grid,
            method=_METHODS[node.argument(2, "interpolation_mode", 0)],
            layout="NCHW",
            padding_mode=_PADDINGS[node.argument(3, "padding_mode", 0)],
            align_corners=bool(node.argument(4, "align_corners", default=False)),
        )
    )


@converts("avg_pool2d.default")
def averaged_by_divisor(node: TorchNode) -> relax.Expr | None:
    """Average pooling with an explicit divisor: averages over full windows, scaled."""
    divisor, window = node.argument(6, "divisor_override"), node.argument(1, "kernel_size")
    if divisor is None or bool(node.argument(4, "ceil_mode", default=False)):
        return None
    assert isinstance(window, list)
    assert isinstance(divisor, int)
    data = node.tensor(0)
    averages = node.emit(
        relax.op.nn.avg_pool2d(
            data,
            pool_size=window,
            strides=node.argument(2, "stride") or window,
            padding=node.argument(3, "padding", [0, 0]),
            count_include_pad=True,
        )
    )
    scale = window[0] * window[-1] / divisor
    return node.emit(relax.op.multiply(averages, relax.const(scale, dtype_of_tensor(data))))


@converts("upsample_nearest2d.vec")
def nearest(node: TorchNode) -> relax.Expr | None:
    """The nearest elements, by integer factors or to a given size."""
    data, size, factors = node.tensor(0), node.argument(1, "output_size"), node.argument(2, "scale_factors")
    *_, height, width = extents_of_tensor(data)
    if size is None:
        assert isinstance(factors, list)
        if not all(float(factor).is_integer() for factor in factors):
            return None
        size = [extent * int(factor) for extent, factor in zip((height, width), factors, strict=True)]
    assert isinstance(size, list)
    return node.emit(
        relax.op.image.resize2d(
            data,
            relax.ShapeExpr(size),
            layout="NCHW",
            method="nearest_neighbor",
            coordinate_transformation_mode="asymmetric",
            rounding_method="floor",
        )
    )


@converts("_upsample_bilinear2d_aa.default", "_upsample_bicubic2d_aa.default")
def smoothed(_node: TorchNode) -> relax.Expr:
    """Always rejected."""
    raise ModelError("interpolate(antialias=True) is not supported: Relax has no antialiased resizing")
