"""The registry of converters by node type, with the features that each supports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvm import relax

from annotated_region.importing.onnx_models.converters.node import OnnxNode

if TYPE_CHECKING:
    import onnx

__all__ = ["CONTRIBUTED", "CONVERTERS", "NodeConverter", "converts"]

CONTRIBUTED = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""


@dataclass(frozen=True, slots=True)
class NodeConverter:
    """The converter of one node type.

    Attributes
    ----------
    convert
        Returns the result, a tuple of results if the operator has several outputs; may decline the node.
    inputs
        The minimum and maximum number of inputs.
    attributes
        The supported attributes; a node with another one is declined.
    outputs
        The number of supported outputs; None if all are, or if the converter declines by itself.
    """

    convert: Callable[[OnnxNode], relax.Expr]
    inputs: tuple[int, int]
    attributes: frozenset[str]
    outputs: int | None = None

    def covers(self, node: onnx.NodeProto) -> bool:
        """Whether the converter supports all inputs, attributes and outputs of the node."""
        least, most = self.inputs
        made = sum(1 for place, name in enumerate(node.output, 1) if name and place > (self.outputs or place))
        is_known = all(attribute.name in self.attributes for attribute in node.attribute)
        return least <= len(node.input) <= most and is_known and not made

    def __call__(self, node: OnnxNode) -> relax.Expr:
        """Check what does not depend on the types of inputs, and convert."""
        least, most = self.inputs
        count = len(node.inputs)
        node.require(least <= count <= most, f"has {count} inputs, and the operator takes {least} to {most}")
        for name in node.attributes:
            node.require(name in self.attributes, f"has the attribute {name!r}, which is not supported")
        return self.convert(node)


CONVERTERS: dict[tuple[str, str], NodeConverter] = {}
"""Converters by domain and node type; the name of the default domain is empty."""


def converts(
    domain: str, op: str, inputs: tuple[int, int], attributes: str = "", outputs: int | None = None
) -> Callable[[Callable[[OnnxNode], relax.Expr]], Callable[[OnnxNode], relax.Expr]]:
    """Decorator: registers the converter of a node type.

    Parameters
    ----------
    domain, op
        The domain of the operator, and its name.
    inputs
        The minimum and maximum number of inputs.
    attributes
        The names of the supported attributes, separated by spaces.
    outputs
        The number of supported outputs, if the operator has more. If ONNX defines the operator as a function,
        a node with more outputs is expanded.
    """

    def register(convert: Callable[[OnnxNode], relax.Expr]) -> Callable[[OnnxNode], relax.Expr]:
        assert (domain, op) not in CONVERTERS, f"{domain}.{op} has a converter"
        CONVERTERS[domain, op] = NodeConverter(convert, inputs, frozenset(attributes.split()), outputs)
        return convert

    return register
