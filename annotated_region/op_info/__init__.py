"""Op info: the ops that lowered code computes, attached to it, preserved by fusion, or inferred."""

from annotated_region.op_info.infer import infer_op_info, op_infos
from annotated_region.op_info.info import (
    ArgRole,
    Composition,
    DerivedExtent,
    ExtentOf,
    Number,
    OpInfo,
    Parameter,
    Result,
    Shape,
    Sources,
    Value,
)
from annotated_region.op_info.kinds import OpKind

__all__ = [
    "ArgRole",
    "Composition",
    "DerivedExtent",
    "ExtentOf",
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
]
