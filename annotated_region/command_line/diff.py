"""``diff``: what is otherwise in the second of two saved reports or locks."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from annotated_region.command_line.terminal import console, plain
from annotated_region.documents import LONGEST_DOCUMENT
from annotated_region.errors import DocumentError
from annotated_region.importing.files import opened
from annotated_region.locking.lock import Lock
from annotated_region.locking.lock_diff import LockDiff
from annotated_region.reports.report import Report
from annotated_region.reports.report_diff import ReportDiff

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """Do it; the exit code."""
    difference = _difference(_saved(options.before), _saved(options.after))
    if options.json:
        print(difference.to_json(indent=2))
    else:
        console().print(plain(str(difference)), soft_wrap=True)
    return 1 if difference else 0


def _difference(before: Report | Lock, after: Report | Lock) -> ReportDiff | LockDiff:
    if isinstance(before, Report) and isinstance(after, Report):
        return before.diff(after)
    first, second = (each.to_lock() if isinstance(each, Report) else each for each in (before, after))
    return first.diff(second)


def _saved(file: Path) -> Report | Lock:
    """The report or the lock in a file; reports are JSON, whose text begins with a brace."""
    text = _text(file)
    try:
        return Report.from_json(text) if text.lstrip().startswith("{") else Lock.from_text(text)
    except DocumentError as error:
        raise DocumentError(f"{file}: {error}") from None


def _text(file: Path) -> str:
    with opened(file) as handle, os.fdopen(os.dup(handle), "rb") as stream:
        content = stream.read(LONGEST_DOCUMENT + 1)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise DocumentError(f"{file}: it is no text in UTF-8") from None
