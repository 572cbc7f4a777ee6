"""Copies of functions."""

from .expr import Function

def copy_with_new_vars(func: Function) -> Function: ...
