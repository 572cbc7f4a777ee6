"""How much an op is worth to the backend: whole numbers, truth values and scalars alone make no region."""

from __future__ import annotations

from collections.abc import Iterator

import tvm
from tvm import relax

from annotated_region.backends.dnnl.ops.checks import TRUTH, WHOLE
from annotated_region.targets.op_view import OpView

__all__ = ["LEAST_WORK", "work_of"]

LEAST_WORK = 1.0
"""Of a region: one op on other elements than whole numbers and truth values, and on more than one number.

Shapes, positions, masks and scales are a few numbers. On the host they take less time than the call of a
region, unless they are computed inside of one that is called anyway.
"""

PRODUCTS = ("conv", "matmul", "attention")


def work_of(op: OpView) -> float:
    """0 for an op on whole numbers, truth values and scalars alone; 10 for a product, 1 for the others."""
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
