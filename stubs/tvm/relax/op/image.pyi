"""Calls of the ops on images.

Each takes expressions and attributes, which TVM checks when it infers the type of the call.
"""

from collections.abc import Callable

from ...ir import Call

_Op = Callable[..., Call]

affine_grid: _Op
grid_sample: _Op
resize2d: _Op
resize3d: _Op
