"""How much an op is worth to the backend: whole numbers and truth values alone are worth no region."""

from __future__ import annotations

from collections.abc import Iterator

import tvm
from tvm import relax

from annotated_region.backends.dnnl.ops.checks import TRUTH, WHOLE
from annotated_region.targets.op_view import OpView

__all__ = ["LEAST_WORK", "work_of"]

LEAST_WORK = 1.0
"""Of a region: one op on other elements than whole numbers and truth values.

Shapes, positions and masks are a few numbers. On the host they take less time than the call of a region,
unless they are computed inside of one that is called anyway.
"""

PRODUCTS = ("conv", "matmul", "attention")


def work_of(op: OpView) -> float:
    """0 for an op on whole numbers and truth values, 10 for a convolution or a product, 1 for the others."""
    if all(dtype in (TRUTH, *WHOLE) for type_ in (*op.arg_types, op.out_type) for dtype in _dtypes(type_)):
        return 0.0
    return 10.0 if any(word in op.name for word in PRODUCTS) else 1.0


def _dtypes(type_: tvm.ir.Type) -> Iterator[str]:
    """The types of the elements of all tensors in a type."""
    if isinstance(type_, relax.TensorType):
        yield str(type_.dtype)
    for field in getattr(type_, "fields", ()):
        yield from _dtypes(field)
