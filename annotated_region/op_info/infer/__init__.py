"""Infers which ops a PrimFunc computes from its loops alone, with certainty or not at all.

The PrimFunc is brought into normal form (`annotated_region.op_info.loops`). Consecutive blocks are shown to
readers, which propose Relax calls with the attributes that they read from factors, guards and numbers. A
proposal counts only when TVM's own legalization of it has the same normal form; so a claim is a proof, and
a changed coefficient, guard, start value or combiner of a reduction is found out.
"""

from __future__ import annotations

from annotated_region.op_info.infer.compose import (
    composition_of,
    infer_op_info,
    op_infos,
    proved_composition_of,
)

__all__ = ["composition_of", "infer_op_info", "op_infos", "proved_composition_of"]
