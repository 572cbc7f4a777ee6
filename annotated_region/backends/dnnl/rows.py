"""Generates the C++ structs of the tables from the Python classes whose values fill them.

Each field is declared once, so names, order and types cannot diverge between the languages::

    class Norm(Parameters):                       struct NormRow {
        epsilon: float              =>              float epsilon;
                                                  };
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from functools import cache

from annotated_region.backends.dnnl import index_parameters, parameters, recurrent_parameters
from annotated_region.backends.dnnl.graph import DataType, Kind, PostOp, Quantized
from annotated_region.backends.dnnl.index_parameters import (
    Bounds,
    Coordinates,
    Outside,
    PixelRounding,
    ResizeMethod,
    SampleMethod,
)
from annotated_region.backends.dnnl.parameters import (
    Border,
    Causal,
    Combination,
    Comparison,
    Mask,
    PairFunction,
    Parameters,
    Property,
    ScalarFunction,
    WholeFunction,
)
from annotated_region.backends.dnnl.recurrent_parameters import CellKind, LoopActivation

__all__ = ["declarations", "literal"]

ENUMERATIONS: Mapping[str, type[Enum]] = {
    "Kind": Kind,
    "Type": DataType,
    **{
        each.__name__: each
        for each in (
            Mask,
            Causal,
            WholeFunction,
            PairFunction,
            Comparison,
            Property,
            Bounds,
            Border,
            Combination,
            ScalarFunction,
            SampleMethod,
            Outside,
            ResizeMethod,
            Coordinates,
            PixelRounding,
            CellKind,
            LoopActivation,
        )
    },
}
"""The enums shared by both languages, by their C++ names."""

TYPES = {
    "bool": "bool",
    "int": "int64_t",
    "int | relax.Expr": "int64_t",
    "float": "float",
    "str": "dnnl_alg_kind_t",
    "tuple[int, ...]": "List<int64_t>",
    "tuple[int | relax.Expr, ...]": "List<int64_t>",
    "TensorId | None": "int",
    **{name: name for name in ENUMERATIONS},
}
"""The C++ type of a field; an absent tensor is -1, a string is the name of an algorithm of oneDNN."""


@cache
def declarations() -> str:
    """The enumerations and structs in C++, and `X(kind)` of each kind."""
    rooms = (parameters, index_parameters, recurrent_parameters)
    known = (each for room in rooms for each in vars(room).values())
    classes = [PostOp, Quantized, *filter(_is_row, known)]
    kinds = " ".join(f"X({_enumerator(kind)})" for kind in Kind)
    lines = [
        f"#define ANNOTATED_REGION_KINDS(X) {kinds}",
        'namespace annotated_region_dnnl __attribute__((visibility("hidden"))) {',
        *(_enumeration(name, members) for name, members in ENUMERATIONS.items()),
        *map(_struct, classes),
        "}",
    ]
    return "\n".join(lines)


def _enumeration(name: str, members: type[Enum]) -> str:
    return f"enum class {name} : int {{ {', '.join(map(_enumerator, members))} }};"


def _is_row(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Parameters) and bool(fields(value))


def _struct(class_: type) -> str:
    body = "".join(f"  {TYPES[str(field.type)]} {field.name};\n" for field in fields(class_))
    return f"struct {class_.__name__}Row {{\n{body}}};"


def _enumerator(member: Enum) -> str:
    return member.name.lower()


def literal(value: object) -> str:
    """The C++ literal of a field that is not a list."""
    if value is None:
        return "-1"
    if isinstance(value, Enum):
        names = (name for name, members in ENUMERATIONS.items() if isinstance(value, members))
        return f"{next(names)}::{_enumerator(value)}"
    if isinstance(value, str):
        return f"dnnl_{value}"
    return _float(value) if isinstance(value, float) else str(value).lower()


def _float(value: float) -> str:
    """A float32 literal with exactly this value, which may be infinite."""
    assert not math.isnan(value)
    if math.isinf(value):
        return "infinity" if value > 0 else "-infinity"
    return f"{value.hex()}f" if value else f"{value}f"
