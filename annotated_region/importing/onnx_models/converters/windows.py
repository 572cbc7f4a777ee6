"""Attributes of windows (kernels, strides, paddings), validated before TVM divides by them, and channels."""

from __future__ import annotations

from tvm import relax

from annotated_region.importing.onnx_models.converters.node import OnnxNode

__all__ = ["WINDOWS", "window_attributes", "with_known_channels"]

WINDOWS = "auto_pad dilations kernel_shape pads strides"
_AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
_LARGEST = 2**31 - 1


def window_attributes(node: OnnxNode) -> dict[str, object]:
    """The attributes of a window as keyword arguments of TVM's converters, without omitted ones.

    Raises
    ------
    ModelError
        A kernel extent, stride or dilation is less than one, or a padding is negative.
    """
    attributes: dict[str, object] = {}
    for name, least in (("dilations", 1), ("kernel_shape", 1), ("strides", 1), ("pads", 0)):
        numbers = node.integers(name)
        for number in numbers:
            node.require(
                least <= number <= _LARGEST,
                f"has the attribute {name!r} of {numbers}, which is not supported",
            )
        if numbers:
            attributes[name] = numbers
    padding = node.text("auto_pad", "NOTSET")
    node.require(
        padding in _AUTO_PADS, f"has the attribute 'auto_pad' of {padding!r}, which is not supported"
    )
    if padding != "NOTSET":
        attributes["auto_pad"] = padding.encode()
    return attributes


def with_known_channels(node: OnnxNode, data: relax.Expr, kernel: relax.Expr) -> relax.Expr:
    """Data with as many channels as the kernel of a convolution reads; each call is checked for it.

    Optimum exports images with a named number of channels, and targets claim no convolution of these.
    """
    extents, taps = node.shape(data), node.shape(kernel)
    is_window = len(extents) == len(taps) and len(taps) > 2
    if not is_window or isinstance(extents[1], int) or not isinstance(taps[1], int):
        return data
    return node.with_extents(data, (extents[0], taps[1] * node.integer("group", 1, 1), *extents[2:]))
