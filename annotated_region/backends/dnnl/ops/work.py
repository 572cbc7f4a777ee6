"""The work of an op for the backend: ops on only integers, booleans and scalars do not justify a region."""

from __future__ import annotations

from collections.abc import Iterator

import tvm
from tvm import relax

from annotated_region.backends.dnnl.ops.checks import TRUTH, WHOLE
from annotated_region.targets.op_view import OpView

__all__ = ["LEAST_WORK", "work_of"]

LEAST_WORK = 1.0
"""The minimum work of a region: one op on float tensors with more than one element.

Shapes, positions, masks and scales have few elements. On the host they take less time than calling a region,
unless they are part of a region that is called anyway.
"""

PRODUCTS = ("conv", "matmul", "attention")


def work_of(op: OpView) -> float:
    """0 for an op on only integers, booleans and scalars; 10 for a product, 1 for other ops."""
    tensors = [tensor for type_ in (*op.arg_types, op.out_type) for tensor in _tensors(type_)]
    if all(tensor.ndim == 0 or str(tensor.dtype) in (TRUTH, *WHOLE) for tensor in tensors):
        return 0.0
    return 10.0 if any(word in op.name for word in PRODUCTS) else 1.0


def _tensors(type_: tvm.ir.Type) -> Iterator[relax.TensorType]:
    """The types of all tensors in a type."""
    if isinstance(type_, relax.TensorType):
        yield type_
    for field in getattr(type_, "fields", ()):
        yield from _tensors(field)
