"""Names for the unknown extents of a model's inputs.

TVM 0.27's importer gives all extents without a name one variable, so that images of unknown height and width
would have to be square; and it takes the -1 that older exporters write for a number, and 0 for an extent
without a name. It reads ``batch-size``
as a difference of two extents that no input has, and ``past + 2 * n`` from left to right.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from annotated_region.importing.onnx_models.functions import OnnxGraph

if TYPE_CHECKING:
    import onnx

__all__ = ["with_named_extents"]

_NAME = re.compile(r"[^\W\d]\w*")
_FORMULA = re.compile(r"\w+(\s*(\+|-|\*|//?)\s*\w+)+")
_NAMELESS = ("", "?", "-1")


def with_named_extents(graph: OnnxGraph) -> OnnxGraph:
    """The graph, with extents of inputs that TVM reads as numbers, names, or formulas of names.

    An unknown extent gets a name: that of the input, and the axis. A text that is no name, and no formula of
    names that other extents have, becomes one, the same wherever the text stands.
    """
    texts = {extent.dim_param for value in graph.input for extent in _extents(value)}
    names = {text for text in texts if _NAME.fullmatch(text)}
    replaced = {
        text: _new_name(text, names)
        for text in sorted(texts - names - set(_NAMELESS))
        if not text.isdecimal() and not _is_formula(text, names)
    }
    return replace(graph, input=[_named(value, names, replaced) for value in graph.input])


def _is_formula(text: str, names: set[str]) -> bool:
    """Whether TVM reads a text as what it says: from left to right, of names of other extents and numbers."""
    if not _FORMULA.fullmatch(text):
        return False
    operators = re.findall(r"//|[-+*/]", text)
    operands = [each.strip() for each in re.split(r"//|[-+*/]", text)]
    is_known = all(each in names or each.isdecimal() for each in operands)
    return is_known and (len(operators) == 1 or set(operators) <= {"+", "-"})


def _named(value: onnx.ValueInfoProto, taken: set[str], replaced: Mapping[str, str]) -> onnx.ValueInfoProto:
    named = type(value)()
    named.CopyFrom(value)
    for axis, extent in enumerate(_extents(named)):
        if extent.dim_param in replaced:
            extent.dim_param = replaced[extent.dim_param]
        is_known = extent.HasField("dim_value") and extent.dim_value > 0
        if extent.dim_param in _NAMELESS and not is_known:
            extent.dim_param = _new_name(f"{value.name}_{axis}", taken)
    return named


def _new_name(wanted: str, taken: set[str]) -> str:
    """A name that is not taken, and that TVM does not read as a formula, such as ``x/1``."""
    name = re.sub(r"\W", "_", wanted)
    if not name.isidentifier():
        name = f"extent_{name}"
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _extents(value: onnx.ValueInfoProto) -> list[onnx.TensorShapeProto.Dimension]:
    return list(value.type.tensor_type.shape.dim)
