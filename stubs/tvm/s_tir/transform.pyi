"""Passes over scheduled primitive functions."""

from ..ir.transform import Pass

def RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite: bool) -> Pass: ...
