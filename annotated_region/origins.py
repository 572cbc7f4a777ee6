"""Origins: what a binding was made from in the imported model.

An origin is a string: the name of an ONNX node, a PyTorch module path with a source line, or, if the
importer recorded nothing, the original name of the binding. It is stored as a TVM span whose source name is
the string and whose line is 0, a line number that no parser emits. Both the variable and its bound call
carry the span:

*   a pass that replaces the call (``LegalizeOps``) keeps the variable;
*   a pass that binds the call to another variable (``FuseOpsByPattern``, ``CanonicalizeBindings``) keeps the
    call. The call's span takes precedence, because the call is what computes.

Structural equality and hashing ignore spans, so equal regions stay equal whatever their origins. TVMScript
does not print spans: `annotated_region.passes.WriteOrigins` writes origins into an attribute.
"""

from __future__ import annotations

from typing import TypeVar

from tvm import relax
from tvm.ir import SourceName, Span

from annotated_region.printable import printable

__all__ = [
    "LONGEST_ORIGIN",
    "bounded",
    "described",
    "origin_of",
    "recorded_origin",
    "span_of",
    "with_span",
]

Expr = TypeVar("Expr", bound=relax.Expr)

LONGEST_ORIGIN = 200
"""The longest origin, in characters; node names in a file can be arbitrarily long."""

_GAP = "..."
_TAIL = 60
_NO_LINE = 0


def bounded(text: str) -> str:
    """A name from a file as an origin: one printable line of at most `LONGEST_ORIGIN` characters."""
    # The first cut only saves time: escaping makes the text longer, never shorter.
    escaped = printable(_cut(text)).replace("\n", "\\n")
    return _cut(escaped)


def _cut(text: str) -> str:
    if len(text) <= LONGEST_ORIGIN:
        return text
    # Node names are paths, whose last component is the most specific.
    return text[: LONGEST_ORIGIN - _TAIL - len(_GAP)] + _GAP + text[-_TAIL:]


def span_of(origin: str) -> Span:
    """The span that encodes an origin."""
    return Span(SourceName(origin), _NO_LINE, _NO_LINE, _NO_LINE, _NO_LINE)


def with_span(value: Expr, span: Span | None) -> Expr:
    """A copy of a call with another span; any other expression unchanged."""
    if not isinstance(value, relax.Call):
        return value
    return type(value)(value.op, value.args, value.attrs, value.ty_args, span, value.ty)


def recorded_origin(expr: relax.Expr) -> str | None:
    """The origin recorded on a call or a variable; None if there is none."""
    span = expr.span
    if span is None or not isinstance(span, Span) or span.line != _NO_LINE:
        return None
    return str(span.source_name.name)


def origin_of(var: relax.Var, value: relax.Expr) -> str:
    """The origin of the binding of `var` to `value`; the variable's name if none is recorded."""
    return recorded_origin(value) or recorded_origin(var) or var.name


def described(var: relax.Var) -> str:
    """A variable as messages show it: its name, and its origin if that differs."""
    origin = recorded_origin(var)
    return repr(var.name) if origin in (None, var.name) else f"{var.name!r} (from {origin!r})"
