"""The origin of a node of an exported program: its PyTorch module, and the line of the model's code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import fx

__all__ = ["node_origin"]

_FRAME = re.compile(r'^\s*File "(?P<file>.*)", line (?P<line>\d+), in ', re.MULTILINE)
_LONGEST_TRACE = 1 << 16  # the maximum number of characters of a stack trace to scan


def node_origin(node: fx.Node) -> str:
    """The path of the module that computes a node, and where, as reports and errors name it."""
    modules: Mapping[str, Any] = node.meta.get("nn_module_stack") or {}
    path, kind = list(modules.values())[-1] if modules else (node.name, "")
    # The path of the model itself is empty, so its class name is used.
    name = str(path) or str(getattr(kind, "__qualname__", kind)).rpartition(".")[2] or node.name
    line = _line_of(str(node.meta.get("stack_trace") or ""))
    return f"{name} ({line})" if line else name


def _line_of(trace: str) -> str:
    """The last line of a stack trace outside PyTorch's own modules; empty if there is none."""
    frames = [(PurePath(found["file"]), found["line"]) for found in _FRAME.finditer(trace[-_LONGEST_TRACE:])]
    own = [frame for frame in frames if not _is_torch(frame[0])]
    return f"{own[-1][0].name}:{own[-1][1]}" if own else ""


def _is_torch(file: PurePath) -> bool:
    return ("torch", "nn") in zip(file.parts, file.parts[1:], strict=False)
