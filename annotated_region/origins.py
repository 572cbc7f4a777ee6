"""Origins: what of the imported model a binding was made from.

An origin is a text: the name of an ONNX node, the path of a PyTorch module and a line of its source, or,
where no importer said anything, the first name of the binding. It is kept as a TVM span whose source name is
the text and whose line is 0, which no span of a parser has. Both the variable and the call that it is bound
to get that span:

*   a pass that replaces the call (``LegalizeOps``) keeps the variable;
*   a pass that gives the call another variable (``FuseOpsByPattern``, ``CanonicalizeBindings``) keeps the
    call, whose span counts first, because it is the call that computes.

Structural equality and hashes do not look at spans, so equal regions stay equal whatever they were made
from. TVMScript does not print them: `annotated_region.passes.WriteOrigins` puts them into an attribute.
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
"""Characters of an origin; what a model calls its nodes may be as long as the file."""

_GAP = "..."
_TAIL = 60
_NO_LINE = 0


def bounded(text: str) -> str:
    """A name from a file as an origin: one line that prints, of at most `LONGEST_ORIGIN` characters."""
    # The first cut is for time alone: escapes make the text longer, never shorter.
    shown = printable(_cut(text)).replace("\n", "\\n")
    return _cut(shown)


def _cut(text: str) -> str:
    if len(text) <= LONGEST_ORIGIN:
        return text
    # Names of nodes are paths, whose last part tells most.
    return text[: LONGEST_ORIGIN - _TAIL - len(_GAP)] + _GAP + text[-_TAIL:]


def span_of(origin: str) -> Span:
    """The span that says where something comes from."""
    return Span(SourceName(origin), _NO_LINE, _NO_LINE, _NO_LINE, _NO_LINE)


def with_span(value: Expr, span: Span | None) -> Expr:
    """A call with another span; anything else as it is."""
    if not isinstance(value, relax.Call):
        return value
    return type(value)(value.op, value.args, value.attrs, value.ty_args, span, value.ty)


def recorded_origin(expr: relax.Expr) -> str | None:
    """The origin that is noted at a call or a variable; None if there is none."""
    span = expr.span
    if not isinstance(span, Span) or span.line != _NO_LINE:
        return None
    return str(span.source_name.name)


def origin_of(var: relax.Var, value: relax.Expr) -> str:
    """Where the binding of `var` to `value` comes from; its name if nothing else is known."""
    return recorded_origin(value) or recorded_origin(var) or var.name


def described(var: relax.Var) -> str:
    """A variable as messages call it: its name, and where it comes from if that says more."""
    origin = recorded_origin(var)
    return repr(var.name) if origin in (None, var.name) else f"{var.name!r} (from {origin!r})"
