"""Source locations in a backend: file and line of rules, patterns and errors."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import tvm
import tvm_ffi

import annotated_region
from annotated_region.targets.rules import Pattern

__all__ = ["line_of_error", "line_of_pattern", "line_of_rule"]

_NOT_THE_AUTHORS = tuple(
    str(Path(package.__file__).parent) for package in (annotated_region, tvm, tvm_ffi) if package.__file__
)


def line_of_rule(rule: object) -> str:
    """The file and line of a rule or check, as ``path:line``; empty if it is not a Python function."""
    while isinstance(rule, partial):
        rule = rule.func
    rule = inspect.unwrap(rule) if callable(rule) else rule
    code = getattr(rule, "__code__", None) or getattr(type(rule).__call__, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else ""


def line_of_pattern(pattern: Pattern) -> str:
    """The file and line at which a pattern was registered."""
    return pattern.registered_at


def line_of_error(error: BaseException) -> str:
    """The innermost line of the author's code in the traceback of an error; empty if there is none."""
    frames = [frame for each in _chain(error) for frame in traceback.extract_tb(each.__traceback__)]
    theirs = [frame for frame in frames if _is_the_authors(frame.filename)]
    return f"{theirs[-1].filename}:{theirs[-1].lineno}" if theirs else ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error, followed by its chain of causes."""
    each: BaseException | None = error
    while each is not None:
        yield each
        each = each.__cause__


def _is_the_authors(filename: str) -> bool:
    return Path(filename).is_file() and not filename.startswith(_NOT_THE_AUTHORS)
