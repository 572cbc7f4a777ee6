"""Origins as a function attribute, which TVMScript prints; it does not print spans."""

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
"""The attribute: a map from variable names to origins."""


def with_attribute(func: relax.Function) -> relax.Function:
    """The function with its origins in an attribute; the function itself if it has none.

    Variables that TVMScript would rename, because their name is invalid or not unique, are left out.
    """
    bindings = list(bindings_in(func.body))
    names = Counter(var.name for var in (*func.params, *(binding.var for binding in bindings)))
    origins: dict[str, str] = {}
    for binding in bindings:
        name = binding.var.name
        origin = recorded_origin(binding.value) or recorded_origin(binding.var)
        if origin not in (None, name) and names[name] == 1 and _is_name(name):
            origins[name] = str(origin)
    return func.with_attr(ORIGINS, origins) if origins else func


def _is_name(name: str) -> bool:
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name)


def without_attribute(func: relax.Function, where: str) -> relax.Function:
    """The function with the origins of its attribute as spans; the function itself without the attribute.

    Raises
    ------
    InvalidModuleError
        The attribute of the function, named `where` in the message, is not a map from strings to strings.
    """
    if not func.attrs or ORIGINS not in func.attrs:
        return func
    origins = _read(func.attrs[ORIGINS], where)
    named = [binding for binding in bindings_in(func.body) if binding.var.name in origins]
    spans: ExprMap[Span | None] = ExprMap((each, span_of(origins[each.var.name])) for each in named)
    return marked(func.without_attr(ORIGINS), spans)


def _read(attribute: object, where: str) -> dict[str, str]:
    if isinstance(attribute, tvm.ir.Map):
        origins = dict(attribute.items())
        if all(isinstance(text, str) for pair in origins.items() for text in pair):
            return {str(name): bounded(str(origin)) for name, origin in origins.items()}
    raise InvalidModuleError(
        f"{where}: the attribute {ORIGINS!r} is not a map from variable names to strings; remove it"
    )
