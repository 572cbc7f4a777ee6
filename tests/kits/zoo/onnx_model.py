"""A network of the zoo that is an ONNX graph: its inputs, its forms, and the function that writes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx

from kits.onnx_network import Network
from kits.zoo.signature import Form, Input, forms_of

__all__ = ["OnnxModel"]


@dataclass(frozen=True, slots=True)
class OnnxModel:
    """A network as an ONNX graph.

    Attributes
    ----------
    name
        Tells it from the zoo's other ONNX networks.
    inputs
        What it takes.
    write
        Adds the nodes to a network that has the inputs, and answers the names of the results.
    forms
        How it is imported.
    tolerance
        The largest error that is taken for rounding, as part of the largest answer.
    """

    name: str
    inputs: tuple[Input, ...]
    write: Callable[[Network], Sequence[str]]
    forms: tuple[Form, ...] = forms_of({})
    tolerance: float = 1e-4

    def proto(self, form: Form) -> onnx.ModelProto:
        """The graph, with the symbols that the form binds replaced by their values."""
        net = Network(self.name)
        for each in self.inputs:
            net.input(each.name, each.known(form.bound), whole=each.kind.dtype == "int64")
        return onnx.shape_inference.infer_shapes(net.model_of(dict.fromkeys(self.write(net))))
