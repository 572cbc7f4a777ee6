"""Literal functions for tables of cases, written as TVMScript."""

from __future__ import annotations

import textwrap

import tvm
from tvm import relax

import annotated_region  # noqa: F401  the annotations must be known before they can be parsed

__all__ = ["function_of"]

_TYPE = 'R.Tensor((2, 4), "float32")'


def function_of(body: str, params: str = "x, y", pure: bool = True, name: str = "main") -> relax.Function:
    """A function over matrices and a condition ``c``; ``begin`` and ``end`` are short for the annotations."""
    text = textwrap.dedent(body).strip("\n")
    for short in ("begin", "end"):
        text = text.replace(f" {short}(", f" R.annotation.compiler_{short}(")
        text = text.replace(f"({short}(", f"(R.annotation.compiler_{short}(")
    listed = ", ".join(f"{param.strip()}: {_TYPE}" for param in params.split(","))
    source = (
        "@I.ir_module\n"
        "class Module:\n"
        f"    @R.function(pure={pure})\n"
        f'    def {name}({listed}, c: R.Tensor((), "bool")):\n' + textwrap.indent(text, " " * 8)
    )
    return tvm.script.from_source(source)[name]
