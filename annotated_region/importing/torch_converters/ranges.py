"""Falling ranges, such as ``arange(8, 0, -2)``, and those with a whole step of type float.

TVM 0.27's importer counts two numbers too many for the former. For the latter, the length of a symbolic range
becomes a rounded quotient of floats, which equals no other extent.
"""

from __future__ import annotations

from typing import TypeGuard

import tvm
from tvm import relax

from annotated_region.importing.torch_converters.registry import converts
from annotated_region.importing.torch_converters.torch_node import TorchNode


@converts("arange.start_step")
def range_of_steps(node: TorchNode) -> relax.Expr | None:
    """A range with a step of a whole number, as multiples of the step from its start."""
    start, end, given = (node.argument(place) for place in range(3))
    if not isinstance(given, int | float) or given != int(given) or (isinstance(given, int) and given > 0):
        return None
    if not _is_extent(start) or not _is_extent(end):
        return None
    step = int(given)
    first = node.number_as_tensor(start, "int64")
    if first is None:
        return None
    count = (start - end - step - 1) // -step if step < 0 else (end - start + step - 1) // step
    places = node.emit(relax.op.arange(0, count, 1, "int64"))
    steps = node.emit(relax.op.multiply(places, relax.const(step, "int64")))
    return node.cast(node.emit(relax.op.add(steps, first)), node.dtype)


def _is_extent(value: object) -> TypeGuard[int | relax.Expr]:
    """Whether a value is a whole number, known or symbolic."""
    return isinstance(value, int) or (isinstance(value, relax.Expr) and isinstance(value.ty, tvm.ir.PrimType))
