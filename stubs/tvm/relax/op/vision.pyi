"""Calls of the ops on boxes.

Each takes expressions and attributes, which TVM checks when it infers the type of the call.
"""

from collections.abc import Callable

from ...ir import Call

_Op = Callable[..., Call]

roi_align: _Op
