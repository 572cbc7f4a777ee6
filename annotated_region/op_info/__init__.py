"""Op info: which ops lowered code computes, attached to it, kept through fusion, or inferred."""

from annotated_region.op_info.infer import infer_op_info, op_infos
from annotated_region.op_info.info import (
    ArgRole,
    Composition,
    Number,
    OpInfo,
    Parameter,
    Result,
    Shape,
    Sources,
    Value,
)
from annotated_region.op_info.kinds import OpKind
from annotated_region.op_info.layouts import LayoutChange, register_layout_rule

__all__ = [
    "ArgRole",
    "Composition",
    "LayoutChange",
    "Number",
    "OpInfo",
    "OpKind",
    "Parameter",
    "Result",
    "Shape",
    "Sources",
    "Value",
    "infer_op_info",
    "op_infos",
    "register_layout_rule",
]
