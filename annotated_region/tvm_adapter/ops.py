"""Registering Relax ops from Python, and reading and making the attributes of calls by reflection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace

import tvm
import tvm.relax.script.parser
import tvm.script.relax
from tvm import relax
from tvm.script import parser

__all__ = [
    "changed_attributes",
    "field_names",
    "parser_namespaces",
    "pattern_check_context",
    "register_relax_op",
    "show_in_tvmscript",
]


def register_relax_op(
    name: str, description: str, operands: Mapping[str, str], attributes: Mapping[str, object]
) -> None:
    """Register a Relax op whose calls have a dictionary of attributes; it lives as long as the process.

    Parameters
    ----------
    name
        The full name, such as "relax.annotation.compiler_begin".
    description
        The text of `Op.description`.
    operands
        The descriptions of the operands that every call has, by their names.
    attributes
        The attributes of the op, such as `FInferType`, `FPurity` and `FLegalize`.
    """
    if name in tvm.ir.Op.list_op_names():  # a module is loaded again: TVM refuses a second registration
        return
    tvm.ir._ffi_api.RegisterOp(name, description)
    op = tvm.ir.Op.get(name)
    op.set_num_inputs(len(operands))
    op.set_attrs_type_key("ir.DictAttrs")
    for operand, what in operands.items():
        op.add_argument(operand, "Expr", what)
    for key, value in attributes.items():
        tvm.ir.register_op_attr(name, key, value)


def show_in_tvmscript(namespace: str, functions: Mapping[str, Callable[..., relax.Call]]) -> None:
    """Let TVMScript parse ``R.<namespace>.<function>(...)`` by calling these functions.

    The parser resolves ``R.*`` on one of two modules, depending on where the script was imported from.
    """
    for module in (tvm.script.relax, tvm.relax.script.parser):
        setattr(module, namespace, SimpleNamespace(**functions))


def parser_namespaces() -> dict[str, object]:
    """The names that TVMScript's prefixes I, R and T have in a script that is parsed from text."""
    return {"I": parser.ir, "R": parser.relax, "T": parser.tirx}


def field_names(kind: type) -> tuple[str, ...]:
    """The fields that a class of TVM declares for reflection, in the order of their declaration."""
    return tuple(declared.name for declared in kind.__tvm_ffi_type_info__.fields)  # type: ignore[attr-defined]


def changed_attributes(attrs: tvm.ir.Attrs, **changes: object) -> tvm.ir.Attrs:
    """The attributes of a call with other values of some fields."""
    info = type(attrs).__tvm_ffi_type_info__  # type: ignore[attr-defined]
    fields = {name: getattr(attrs, name) for name in field_names(type(attrs))}
    made: tvm.ir.Attrs = tvm.ir.make_node(info.type_key, **fields | changes)
    return made


def pattern_check_context(**fields: object) -> relax.transform.PatternCheckContext:
    """What TVM hands to the check of a pattern; the class cannot be called from Python.

    Parameters
    ----------
    fields
        `matched_expr`, `annotated_expr`, `matched_bindings`, `var_usages` and `value_to_bound_var`.
    """
    context: relax.transform.PatternCheckContext = tvm.ir.make_node(
        "relax.transform.PatternCheckContext", **fields
    )
    return context
