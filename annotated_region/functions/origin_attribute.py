"""Origins as an attribute of a function, which TVMScript prints; spans it leaves out."""

from __future__ import annotations

import keyword
from collections import Counter

import tvm
from tvm import relax
from tvm.ir import Span

from annotated_region.errors import InvalidModuleError
from annotated_region.expr_map import ExprMap
from annotated_region.functions.marking import bindings_in, marked
from annotated_region.origins import bounded, recorded_origin, span_of

__all__ = ["ORIGINS", "with_attribute", "without_attribute"]

ORIGINS = "annotated_region.origins"
"""The attribute: a map from the names of variables to origins."""


def with_attribute(func: relax.Function) -> relax.Function:
    """The function with its origins in an attribute; the function itself if it has none to tell.

    Left out are variables that TVMScript would give another name, because it is no name or not the only one.
    """
    bindings = list(bindings_in(func.body))
    names = Counter(var.name for var in (*func.params, *(binding.var for binding in bindings)))
    told: dict[str, str] = {}
    for binding in bindings:
        name = binding.var.name
        origin = recorded_origin(binding.value) or recorded_origin(binding.var)
        if origin not in (None, name) and names[name] == 1 and _is_name(name):
            told[name] = str(origin)
    return func.with_attr(ORIGINS, told) if told else func


def _is_name(name: str) -> bool:
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name)


def without_attribute(func: relax.Function, where: str) -> relax.Function:
    """The function with the origins of its attribute at its bindings; itself if it has no such attribute.

    Raises
    ------
    InvalidModuleError
        The attribute of the function, which is called `where`, is no map from names to texts.
    """
    if not func.attrs or ORIGINS not in func.attrs:
        return func
    told = _read(func.attrs[ORIGINS], where)
    named = [binding for binding in bindings_in(func.body) if binding.var.name in told]
    spans: ExprMap[Span | None] = ExprMap((each, span_of(told[each.var.name])) for each in named)
    return marked(func.without_attr(ORIGINS), spans)


def _read(attribute: object, where: str) -> dict[str, str]:
    if isinstance(attribute, tvm.ir.Map):
        told = dict(attribute.items())
        if all(isinstance(text, str) for pair in told.items() for text in pair):
            return {str(name): bounded(str(origin)) for name, origin in told.items()}
    raise InvalidModuleError(
        f"{where}: the attribute {ORIGINS!r} is no map from the names of variables to texts; remove it"
    )
