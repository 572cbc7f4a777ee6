"""`NonZero` of a list of ones, by which PyTorch's exporter counts: the places of all elements.

The result has as many columns as the data has elements, which targets know. How many numbers are not zero is
otherwise found in the call::

    NonZero(ConstantOfShape<value = 1>([n]))    =>    reshape(arange(0, n), [1, n])
"""

from __future__ import annotations

import tvm
from tvm import relax

from annotated_region.importing.onnx_models.converters.folding import known_numbers
from annotated_region.importing.onnx_models.converters.node import OnnxNode, rank_of
from annotated_region.importing.onnx_models.converters.registry import converts

__all__: list[str] = []

_FILLED_BY = {"relax.broadcast_to": 0, "relax.full": 1}
"""Ops that fill a tensor with one number, by the place of that argument."""


@converts("", "NonZero", (1, 1))
def _places(node: OnnxNode) -> relax.Expr:
    data = node.inputs[0]
    value = node.builder.lookup_binding(data) if isinstance(data, relax.Var) else data
    if data is None or not _is_full_of_ones(value) or rank_of(data) != 1:
        return node.by_tvm()
    shape = node.shape(data)
    places = node.emit(relax.op.arange(0, shape[0], 1, "int64"))
    return relax.op.reshape(places, relax.ShapeExpr([1, *shape]))


def _is_full_of_ones(value: relax.Expr | None) -> bool:
    """Whether a value is a tensor of one number that is not zero, for any of its elements."""
    if not isinstance(value, relax.Call) or not isinstance(value.op, tvm.ir.Op):
        return False
    place = _FILLED_BY.get(value.op.name)
    filling = None if place is None else known_numbers(value.args[place])
    return filling is not None and filling.size == 1 and bool(filling.ravel()[0])
