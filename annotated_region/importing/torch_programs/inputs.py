"""Inputs with extents that ``torch.export`` writes as symbols although their values are fixed.

An axis that is exported as dynamic, and is 2 for the model's own reasons, has a symbol with the value 2. TVM
0.27's importer makes a variable named "2" of it, which equals no other 2: shapes are unknown from there on,
and any number of rows is accepted.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING

from annotated_region.importing.torch_programs.decompositions import decomposed

if TYPE_CHECKING:
    import torch
    from torch import fx

__all__ = ["with_fixed_extents"]


def with_fixed_extents(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """A decomposed copy of the program with numbers in the types of its inputs.

    PyTorch finds some values only while it decomposes, as in a loop over blocks, the last of which is a part.
    """
    copy = decomposed(program)
    for node, shape in _fixed_inputs(copy):
        # TVM's importer reads this before `val`.
        node.meta["tensor_meta"] = SimpleNamespace(shape=shape, dtype=node.meta["val"].dtype)
    return copy


def _fixed_inputs(program: torch.export.ExportedProgram) -> Iterator[tuple[fx.Node, list[object]]]:
    """The inputs with such extents, and their shapes with numbers instead."""
    for node in program.graph.find_nodes(op="placeholder"):
        shape = list(getattr(node.meta.get("val"), "shape", ()))
        fixed = [_fixed(extent) for extent in shape]
        if any(
            isinstance(new, int) and not isinstance(old, int) for new, old in zip(fixed, shape, strict=True)
        ):
            yield node, fixed


def _fixed(extent: object) -> object:
    expression = getattr(getattr(extent, "node", None), "expr", None)
    return extent if expression is None or not expression.is_Integer else int(expression)
