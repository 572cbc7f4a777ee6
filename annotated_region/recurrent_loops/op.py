"""The op of a loop over a sequence, ``relax.recurrent.loop``, by which targets claim it.

Registered when this module is imported. Its operands are those of the loop's function, and its results are
the states of all steps and the last ones; it is lowered to that function (see `writer`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import tvm
from tvm import relax

from annotated_region.errors import OpInfoError
from annotated_region.recurrent_loops.loop import (
    FUNCTIONS,
    GATES,
    LANES,
    LoopFunction,
    RecurrentLoop,
    tiles_of,
)
from annotated_region.tvm_adapter.arithmetic import Extent, provably_equal
from annotated_region.tvm_adapter.ops import register_relax_op, show_in_tvmscript
from annotated_region.tvm_adapter.types import expect, shape_of, tensor_type

__all__ = ["LOOP", "attributes_of_loop", "loop_of_attributes", "recurrent_loop"]

LOOP: Final = "relax.recurrent.loop"
_FLAGS = ("is_reversed", "has_bias", "resets_behind", "has_peepholes", "is_coupled", "has_lengths")
_LISTS = ("functions", "alphas", "betas")


def attributes_of_loop(loop: RecurrentLoop) -> dict[str, object]:
    """The attributes of the op."""
    return {
        "cell": loop.cell,
        "hidden": loop.hidden,
        "functions": tuple(each.name for each in loop.functions),
        "alphas": tuple(each.alpha for each in loop.functions),
        "betas": tuple(each.beta for each in loop.functions),
        "clip": 0.0 if loop.clip is None else loop.clip,
        **{name: getattr(loop, name) for name in _FLAGS},
    }


def loop_of_attributes(attrs: Mapping[str, Any], dtype: str) -> RecurrentLoop:
    """The loop of a call with these attributes.

    Raises
    ------
    OpInfoError
        They are not those of a loop.
    """
    try:
        columns = zip(*(attrs[name] for name in _LISTS), strict=True)
        functions = tuple(LoopFunction(str(name), float(alpha), float(beta)) for name, alpha, beta in columns)
        cell = next(each for each in GATES if each == attrs["cell"])
        if len(functions) != FUNCTIONS[cell]:
            raise OpInfoError(f"a cell {cell!r} has {FUNCTIONS[cell]} functions, not {len(functions)}")
        flags = {name: bool(attrs[name]) for name in _FLAGS}
        clip = float(attrs["clip"]) or None
        return RecurrentLoop(cell, int(attrs["hidden"]), dtype, functions, clip, **flags)
    except (KeyError, StopIteration, TypeError, ValueError) as error:
        raise OpInfoError(f"these are not the attributes of {LOOP}: {dict(attrs)}") from error


def recurrent_loop(*operands: relax.Expr, **attrs: object) -> relax.Call:
    """A call of the op, as ``R.recurrent.loop`` in TVMScript makes it."""
    return relax.Call(tvm.ir.Op.get(LOOP), list(operands), tvm.ir.make_node("ir.DictAttrs", **attrs))


def _loop_of(call: relax.Call) -> RecurrentLoop:
    attrs = {str(key): _plain(value) for key, value in expect(tvm.ir.DictAttrs, call.attrs).items()}
    loop = loop_of_attributes(attrs, str(tensor_type(call.args[0]).dtype))
    if len(call.args) != len(loop.operands):
        raise OpInfoError(f"{LOOP} reads {', '.join(loop.operands)}; it has {len(call.args)} operands")
    return loop


def _plain(value: object) -> object:
    if isinstance(value, tvm.tirx.IntImm | tvm.tirx.FloatImm):
        return value.value
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    return value


def _results_of(call: relax.Call, _context: object = None) -> tvm.ir.TupleType:
    """The states of all steps [length, batch, hidden], and each part of the last one [batch, hidden].

    Raises
    ------
    OpInfoError
        The operands are not those of a loop with these attributes.
    """
    loop, gates = _loop_of(call), tensor_type(call.args[0])
    length, batch, _ = shape_of(call.args[0]).values
    columns = GATES[loop.cell] * loop.hidden
    expected: dict[str, list[Extent]] = {
        "gates": [length, batch, columns],
        "weight": [GATES[loop.cell] * tiles_of(loop.hidden), loop.hidden, LANES],
        "bias": [columns],
        "peepholes": [3 * loop.hidden],
        "lengths": [batch],
    }
    for name, operand in zip(loop.operands, call.args, strict=True):
        wanted, found = expected.get(name, [batch, loop.hidden]), shape_of(operand).values
        if len(wanted) != len(found) or not all(map(provably_equal, wanted, found)):
            raise OpInfoError(f"{LOOP} of {loop.hidden} columns reads {name} of shape {found}, not {wanted}")
    last = relax.TensorType([batch, loop.hidden], gates.dtype)
    return tvm.ir.TupleType(
        [relax.TensorType([length, batch, loop.hidden], gates.dtype), *[last] * loop.states]
    )


def _lowered(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    from annotated_region.recurrent_loops.writer import function_of  # noqa: PLC0415

    function = builder.add_func(function_of(_loop_of(call)), "recurrent_loop")
    return relax.call_tir(function, list(call.args), list(_results_of(call).fields))


register_relax_op(
    LOOP,
    "A recurrent layer over a sequence of any length.",
    {"gates": "The input's part of the gates.", "weight": "The state's weight in tiles."},
    {"FInferType": _results_of, "FPurity": True, "FLegalize": _lowered},
)
show_in_tvmscript("recurrent", {"loop": recurrent_loop})
