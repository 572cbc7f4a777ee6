"""Recurrent layers over sequences of any length."""

from __future__ import annotations

import math

from annotated_region.backends.dnnl.graph import Kind
from annotated_region.backends.dnnl.ops.checks import FLOAT, Problems, tensor_problem
from annotated_region.backends.dnnl.ops.registry import OpConversion, Results, converts
from annotated_region.backends.dnnl.parameters import Begins
from annotated_region.backends.dnnl.recurrent_parameters import CellKind, LoopActivation, Recurrence
from annotated_region.backends.dnnl.views import reshape
from annotated_region.recurrent_loops.loop import LoopFunction, RecurrentLoop
from annotated_region.recurrent_loops.op import LOOP, loop_of_attributes
from annotated_region.targets.op_view import OpView

__all__: list[str] = []

_MOST_FUNCTIONS = 3


def _loop(op: OpView) -> RecurrentLoop:
    return loop_of_attributes(op.attrs, FLOAT)


def _problems(op: OpView) -> Problems:
    for name, type_ in zip(_loop(op).operands, op.arg_types, strict=True):
        known = ("int32",) if name == "lengths" else (FLOAT,)
        yield tensor_problem(type_, f"the operand {name}", known)
    for type_ in getattr(op.out_type, "fields", ()):
        yield tensor_problem(type_, "a result", (FLOAT,))


@converts(LOOP, operands=(), result=None, unless=_problems)
def _recurrent_loop(call: OpConversion) -> Results:
    """The parts of the last state are in front of those of all steps in one tensor."""
    loop, graph = _loop(call.op), call.graph
    length, batch, _ = call.extents(0)
    last = (batch, loop.hidden)
    whole = graph.add(Kind.RECURRENCE, call.operands(), (length + loop.states, *last), _parameters(loop))
    sizes = [length, *[1] * loop.states]
    begins = [loop.states, *range(loop.states)]
    parts = [
        graph.add(Kind.SLICE, (whole,), (size, *last), Begins((begin, 0, 0), (1, 1, 1)))
        for size, begin in zip(sizes, begins, strict=True)
    ]
    return (parts[0], *(reshape(graph, part, last) for part in parts[1:]))


def _parameters(loop: RecurrentLoop) -> Recurrence:
    rest = LoopFunction(LoopActivation.RELU.value)
    functions = [*loop.functions, *[rest] * _MOST_FUNCTIONS][:_MOST_FUNCTIONS]
    gate, update, squash = ((LoopActivation(each.name), each.alpha, each.beta) for each in functions)
    return Recurrence(
        CellKind(loop.cell.lower()),
        *gate,
        *update,
        *squash,
        math.inf if loop.clip is None else loop.clip,
        loop.is_reversed,
        loop.has_bias,
        loop.resets_behind,
        loop.has_peepholes,
        loop.is_coupled,
        loop.has_lengths,
    )
