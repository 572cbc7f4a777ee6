"""Infers which ops a PrimFunc computes from its loops only; results are proved, never guessed.

The PrimFunc is converted to a normal form (`annotated_region.op_info.loops`). Readers inspect consecutive
blocks and propose Relax calls, with attributes derived from factors, guards and numbers. A proposal is
accepted only if TVM's own legalization of it has the same normal form; so acceptance is a proof, and any
difference in a coefficient, guard, initial value or combiner of a reduction rejects it.
"""

from __future__ import annotations

from annotated_region.op_info.infer.compose import (
    composition_of,
    infer_op_info,
    op_infos,
    proved_composition_of,
)

__all__ = ["composition_of", "infer_op_info", "op_infos", "proved_composition_of"]
