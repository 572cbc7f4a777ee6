"""The registry of converters: which function converts which node, and what of a node it knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvm import relax

from annotated_region.importing.onnx_converters.node import OnnxNode

if TYPE_CHECKING:
    import onnx

__all__ = ["CONTRIBUTED", "CONVERTERS", "NodeConverter", "converts"]

CONTRIBUTED = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""


@dataclass(frozen=True, slots=True)
class NodeConverter:
    """What converts one type of node.

    Attributes
    ----------
    convert
        Gives the result, a tuple of results if the operator has several outputs; may decline.
    inputs
        How few and how many inputs there are.
    attributes
        The attributes that it knows; a node with another one is declined.
    outputs
        How many outputs it makes; None if it makes all, or declines by itself.
    """

    convert: Callable[[OnnxNode], relax.Expr]
    inputs: tuple[int, int]
    attributes: frozenset[str]
    outputs: int | None = None

    def covers(self, node: onnx.NodeProto) -> bool:
        """Whether the node has no input, attribute or output that the converter does not know."""
        least, most = self.inputs
        made = sum(1 for place, name in enumerate(node.output, 1) if name and place > (self.outputs or place))
        is_known = all(attribute.name in self.attributes for attribute in node.attribute)
        return least <= len(node.input) <= most and is_known and not made

    def __call__(self, node: OnnxNode) -> relax.Expr:
        """Check what can be checked without the types of inputs, and convert."""
        least, most = self.inputs
        count = len(node.inputs)
        node.require(least <= count <= most, f"has {count} inputs, and the operator takes {least} to {most}")
        for name in node.attributes:
            node.require(name in self.attributes, f"has the attribute {name!r}, which is not supported")
        return self.convert(node)


CONVERTERS: dict[tuple[str, str], NodeConverter] = {}
"""By domain and type; the default domain is the empty text."""


def converts(
    domain: str, op: str, inputs: tuple[int, int], attributes: str = "", outputs: int | None = None
) -> Callable[[Callable[[OnnxNode], relax.Expr]], Callable[[OnnxNode], relax.Expr]]:
    """Decorator: register the converter of a type of node.

    Parameters
    ----------
    domain, op
        Where the operator is defined, and its name.
    inputs
        How few and how many inputs it takes.
    attributes
        The names of the attributes that the converter knows, with spaces between them.
    outputs
        How many outputs it makes, if the operator has more. What ONNX defines by other operators is taken
        apart where a node has more than the converter knows.
    """

    def register(convert: Callable[[OnnxNode], relax.Expr]) -> Callable[[OnnxNode], relax.Expr]:
        CONVERTERS[domain, op] = NodeConverter(convert, inputs, frozenset(attributes.split()), outputs)
        return convert

    return register
