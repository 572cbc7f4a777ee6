"""``diff``: the differences between two saved reports, checks, profiles or locks."""

from __future__ import annotations

import argparse

from annotated_region.checking.check_diff import CheckDiff
from annotated_region.checking.check_report import CheckReport
from annotated_region.command_line.saved import Saved, kind_of, read_saved
from annotated_region.command_line.terminal import console, plain
from annotated_region.errors import DocumentError
from annotated_region.locking.lock import Lock
from annotated_region.locking.lock_diff import LockDiff
from annotated_region.profiling.profile_diff import ProfileDiff
from annotated_region.profiling.times import Profile
from annotated_region.reports.report import Report
from annotated_region.reports.report_diff import ReportDiff

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    difference = _difference(read_saved(options.before), read_saved(options.after))
    if options.json:
        print(difference.to_json(indent=2))
    else:
        console().print(plain(str(difference)), soft_wrap=True)
    return 1 if difference else 0


def _difference(before: Saved, after: Saved) -> ReportDiff | LockDiff | CheckDiff | ProfileDiff:
    """The difference of two files of one kind; a report and a lock both describe a placement."""
    match before, after:
        case Report(), Report():
            return before.diff(after)
        case CheckReport(), CheckReport():
            return before.diff(after)
        case Profile(), Profile():
            return before.diff(after)
        case ((Report() | Lock()), (Report() | Lock())):
            first, second = (each.to_lock() if isinstance(each, Report) else each for each in (before, after))
            return first.diff(second)
    raise DocumentError(
        f"a {kind_of(before)} and a {kind_of(after)} cannot be compared; give two files of one kind"
    )
