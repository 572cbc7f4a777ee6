"""Node classes of TVM that the last two releases added or renamed, by the names that the other rooms use."""

from __future__ import annotations

from tvm import tirx
from tvm.ir import GenericConst as Constant
from tvm.ir import StringImm as TextConstant
from tvm.ir import TensorLoad
from tvm.relax import prim_value
from tvm.relax.dpl import TypePattern
from tvm.s_tir import SBlock, SBlockRealize  # until 0.27 in tirx, under other names
from tvm.sym import Analyzer, ConstIntBound

__all__ = [
    "Analyzer",
    "BITWISE",
    "BitwiseNot",
    "BufferType",
    "ConstIntBound",
    "Constant",
    "PrimExpr",
    "SBlock",
    "SBlockRealize",
    "TensorLoad",
    "TextConstant",
    "TypePattern",
    "prim_value",
]

# 0.26 gave one base class to the expressions of all dialects; before it this was tirx.PrimExpr.
PrimExpr = tirx.Expr
# 0.27 made operators of these calls.
BITWISE = (tirx.BitwiseAnd, tirx.BitwiseOr, tirx.BitwiseXor, tirx.LShift, tirx.RShift)
BitwiseNot = tirx.BitwiseNot
# 0.26 made the buffer a type of a variable; before it the buffers of a function stood in its buffer map.
BufferType = tirx.BufferType
