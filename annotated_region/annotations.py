"""The two annotation ops, ``compiler_begin`` and ``compiler_end``, as real Relax ops.

They are registered when this module is imported: pure, with the type of their argument, legalized
to their argument. An annotated module therefore type-checks, prints, parses, compiles and computes
what the unannotated one computes. In TVMScript they are ``R.annotation.compiler_begin(x,
compiler="dnnl")`` and ``R.annotation.compiler_end(...)``, with ``region="..."`` as an optional label.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Number
from typing import Final

import numpy as np
import tvm
from tvm import relax

from annotated_region.arguments import brief_repr
from annotated_region.errors import MalformedAnnotationError, UsageError
from annotated_region.tvm_adapter.ops import register_relax_op, show_in_tvmscript

__all__ = [
    "BEGIN",
    "END",
    "Annotation",
    "Key",
    "annotation_of",
    "compiler_begin",
    "compiler_end",
    "require_op",
]

BEGIN: Final = "relax.annotation.compiler_begin"
END: Final = "relax.annotation.compiler_end"


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """The identity of one region's annotations: the target and the optional label."""

    target: str
    label: str = ""

    def __str__(self) -> str:
        return f"{self.target!r} (region {self.label!r})" if self.label else f"{self.target!r}"


@dataclass(frozen=True, slots=True)
class Annotation:
    """One token of a chain: a begin or an end, and the key of its region."""

    begins: bool
    key: Key

    def __str__(self) -> str:
        return f"{'compiler_begin' if self.begins else 'compiler_end'} for {self.key}"


def compiler_begin(value: relax.Expr | float, compiler: str, region: str | None = None) -> relax.Call:
    """Mark `value` as entering a region of the target `compiler`.

    Parameters
    ----------
    value
        The expression on the edge; the call has its type and computes its value.
    compiler
        The name of the target.
    region
        A label that tells apart overlapping regions of one target.

    Raises
    ------
    MalformedAnnotationError
        `compiler` or `region` is not a non-empty string; `value` is a tuple, or neither an expression nor a
        number.
    """
    return _annotate(BEGIN, value, compiler, region)


def compiler_end(value: relax.Expr | float, compiler: str, region: str | None = None) -> relax.Call:
    """Mark `value` as leaving a region of the target `compiler`; parameters as `compiler_begin`."""
    return _annotate(END, value, compiler, region)


def annotation_of(value: relax.Expr, begin: str = BEGIN, end: str = END) -> Annotation | None:
    """The annotation that the call `value` makes; None if it is anything else.

    Parameters
    ----------
    value
        The right-hand side of a binding.
    begin, end
        The names of the two annotation ops.

    Raises
    ------
    MalformedAnnotationError
        The annotation does not have exactly one operand, has no target name, or its label is not a
        string.
    """
    if not isinstance(value, relax.Call) or not isinstance(value.op, tvm.ir.Op):
        return None
    name = value.op.name
    if name not in (begin, end):
        return None
    short = name.rpartition(".")[2]
    if len(value.args) != 1:
        raise MalformedAnnotationError(
            f'{short} takes one value, not {len(value.args)}; write {short}(x, compiler="<target>")'
        )
    attrs = value.attrs if isinstance(value.attrs, tvm.ir.DictAttrs) else tvm.ir.make_node("ir.DictAttrs")
    compiler, region = attrs.get("compiler", None), attrs.get("region", None)
    if not isinstance(compiler, str) or not compiler:
        raise MalformedAnnotationError(f'{short} names no target; write {short}(x, compiler="<target>")')
    if region is not None and (not isinstance(region, str) or not region):
        raise MalformedAnnotationError(
            f'{short} for {str(compiler)!r} has the label {region!r}; write region="<label>", or leave it out'
        )
    return Annotation(name == begin, Key(str(compiler), "" if region is None else str(region)))


def require_op(name: str, parameter: str) -> None:
    """Check that the op name passed as `parameter` is registered.

    Raises
    ------
    UsageError
        It is not.
    """
    try:
        tvm.ir.Op.get(name)
    except AttributeError as error:
        raise UsageError(
            f"the argument {parameter} is {name!r}; pass the name of a registered op of Relax"
        ) from error


def _annotate(op_name: str, value: relax.Expr | float, compiler: str, region: str | None) -> relax.Call:
    if not isinstance(compiler, str) or not compiler:
        raise MalformedAnnotationError(
            f'the target of an annotation is a non-empty string, not {compiler!r}; pass compiler="dnnl"'
        )
    if region is not None and (not isinstance(region, str) or not region):
        raise MalformedAnnotationError(
            f'the label of a region is a non-empty string, not {region!r}; pass region="left", or nothing'
        )
    attrs = {"compiler": compiler} if region is None else {"compiler": compiler, "region": region}
    if isinstance(value, tuple | list | relax.Tuple):
        raise MalformedAnnotationError("a tuple is annotated field by field; pass each of its values")
    if not isinstance(value, relax.Expr | Number | np.generic):
        raise MalformedAnnotationError(f"the argument value is {brief_repr(value)}; pass a Relax expression")
    # TVMScript allows plain numbers as operands; other ops turn them into constants as well.
    operand = value if isinstance(value, relax.Expr) else relax.const(value)
    return relax.Call(tvm.ir.Op.get(op_name), [operand], tvm.ir.make_node("ir.DictAttrs", **attrs))


def _register(name: str, description: str) -> None:
    attributes = {
        "FInferType": lambda call, _context: call.args[0].ty,
        "FPurity": True,
        "FLegalize": lambda _builder, call: call.args[0],
    }
    register_relax_op(name, description, {"value": "The value on the edge."}, attributes)


_register(BEGIN, "Marks a value that enters a region of a target.")
_register(END, "Marks a value that leaves a region of a target.")

show_in_tvmscript("annotation", {"compiler_begin": compiler_begin, "compiler_end": compiler_end})
