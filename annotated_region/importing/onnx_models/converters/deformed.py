"""`DeformConv` of images, which TVM 0.27's importer lacks."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from annotated_region.importing.onnx_models.converters.node import OnnxNode, dtype_of, shape_text
from annotated_region.importing.onnx_models.converters.registry import converts
from annotated_region.importing.onnx_models.converters.windows import window_attributes
from annotated_region.importing.shared_ops.deformed_convolution import DeformedConvolution
from annotated_region.tvm_adapter.arithmetic import Extent

__all__: list[str] = []

_TYPES = ("float32", "float16", "float64", "bfloat16")


@converts("", "DeformConv", (3, 5), "dilations group kernel_shape offset_group pads strides")
def _deformed(node: OnnxNode) -> relax.Expr:
    """A convolution of images whose kernels have points with offsets, and maybe with factors."""
    image = node.tensor(0, _TYPES, (4,))
    dtype = (dtype_of(image),)
    weight = node.tensor(1, dtype, (4,))
    outputs, inner, *kernel = node.fixed_shape(1, weight)
    window_attributes(node)  # validates them
    strides, dilations = _pair(node, "strides"), _pair(node, "dilations")
    padding = node.integers("pads") or (0,) * 4
    node.require(len(padding) == 4, f"has the attribute 'pads' of {padding}, not of four numbers")
    stated = node.integers("kernel_shape") or tuple(kernel)
    node.require(stated == tuple(kernel), f"has a 'kernel_shape' of {stated}, and kernels of {tuple(kernel)}")
    groups, offset_groups = node.integer("group", 1, 1), node.integer("offset_group", 1, 1)
    batch, channels, *size = node.shape(image)
    if channels != inner * groups or outputs % groups or inner * groups % offset_groups:
        weights = shape_text((outputs, inner, *kernel))
        raise node.declined(
            f"has {channels} channels, weights of {weights}, 'group' of {groups} and 'offset_group' of "
            f"{offset_groups}, which do not fit"
        )
    spans = [(each - 1) * step + 1 for each, step in zip(kernel, dilations, strict=True)]
    after = [
        (extent + padding[axis] + padding[axis + 2] - spans[axis]) // strides[axis] + 1
        for axis, extent in enumerate(size)
    ]
    points = offset_groups * kernel[0] * kernel[1]
    offsets = _of_extents(node, 2, dtype, (batch, 2 * points, *after))
    factors = _of_extents(node, 4, dtype, (batch, points, *after)) if node.has(4) else None
    bias = node.vector(3, dtype, outputs) if node.has(3) else None
    how = DeformedConvolution(strides, (padding[0], padding[1]), dilations, groups, offset_groups)
    return how.of(image, weight, offsets, factors, bias, node.emit)


def _pair(node: OnnxNode, name: str) -> tuple[int, int]:
    numbers = node.integers(name) or (1, 1)
    node.require(len(numbers) == 2, f"has the attribute {name!r} of {numbers}, not of two numbers")
    return numbers[0], numbers[1]


def _of_extents(
    node: OnnxNode, position: int, dtypes: Sequence[str], extents: Sequence[Extent]
) -> relax.Expr:
    """An input, whose extents the operator fixes."""
    given = node.tensor(position, dtypes, (4,))
    found, wanted = shape_text(node.shape(given)), shape_text(extents)
    node.require(
        node.may_have_extents(given, extents),
        f"has an input {position} of shape {found}; it should be {wanted}",
    )
    return node.with_extents(given, extents)
