"""The functions of loops over sequences with the info by which targets claim them."""

from __future__ import annotations

from tvm import tirx

from annotated_region.op_info.attach import attach
from annotated_region.op_info.info import ArgRole, Composition, OpInfo, Parameter, Result
from annotated_region.op_info.kinds import kind_of
from annotated_region.recurrent_loops.loop import RecurrentLoop
from annotated_region.recurrent_loops.op import LOOP, attributes_of_loop
from annotated_region.recurrent_loops.writer import function_of

__all__ = ["described_loop"]


def described_loop(loop: RecurrentLoop) -> tirx.PrimFunc:
    """The function of a loop, with its op info."""
    roles = tuple(ArgRole(name, Parameter(place)) for place, name in enumerate(loop.operands))
    info = OpInfo(LOOP, kind_of(LOOP), attributes_of_loop(loop), roles)
    results = tuple(Result(0, field) for field in range(1 + loop.states))
    return attach(function_of(loop), Composition((info,), results))
