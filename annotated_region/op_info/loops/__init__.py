"""The normal form of lowered code: the computation of a PrimFunc, block by block, as plain values."""

from annotated_region.op_info.loops.program import Block, LoopTensor, Program
from annotated_region.op_info.loops.reading import NotNormalError, read_program

__all__ = ["Block", "NotNormalError", "Program", "LoopTensor", "read_program"]
