"""Attributes of windows (kernels, strides, paddings), checked before TVM divides by them."""

from __future__ import annotations

from annotated_region.importing.onnx_converters.node import OnnxNode

__all__ = ["WINDOWS", "window_attributes"]

WINDOWS = "auto_pad dilations kernel_shape pads strides"
_AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
_LARGEST = 2**31 - 1


def window_attributes(node: OnnxNode) -> dict[str, object]:
    """The attributes of a window as TVM's converters take them; those that are left out stay out.

    Raises
    ------
    ModelError
        An extent, a stride or a dilation is less than one, a padding less than nothing.
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
