"""The normal form of lowered code: what a PrimFunc computes, block by block, as plain values."""

from annotated_region.op_info.loops.program import Block, Program, Tensor
from annotated_region.op_info.loops.reading import NotNormalError, read_program

__all__ = ["Block", "NotNormalError", "Program", "Tensor", "read_program"]
