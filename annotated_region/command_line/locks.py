"""``partition --lock`` and ``--check``: write and replay locks, and report deviations."""

from __future__ import annotations

import argparse
import sys

from annotated_region.errors import DocumentError
from annotated_region.locking.lock import Lock
from annotated_region.printable import printable
from annotated_region.reports.report import Report

__all__ = ["lock_of", "write_or_check_lock"]


def lock_of(options: argparse.Namespace) -> Lock | None:
    """The lock to replay; None if there is none yet.

    Raises
    ------
    DocumentError
        ``--check`` has nothing to check, or the file does not contain a lock.
    """
    if options.check and options.lock is None:
        raise DocumentError("--check needs a lock file: --lock placement.lock")
    if options.lock is None or (not options.check and not options.lock.exists()):
        return None
    return Lock.read(options.lock)


def write_or_check_lock(options: argparse.Namespace, lock: Lock | None, report: Report) -> bool:
    """Write or check the lock, and print deviations; returns whether a check failed."""
    if options.lock is None:
        return False
    now = report.to_lock()
    difference = None if lock is None else lock.diff(now)
    for line in str(difference).splitlines() if difference else ():
        print(f"{options.lock}: {printable(line)}", file=sys.stderr)
    if options.check:
        return bool(difference)
    # A lock that agrees with the result is not rewritten, even if other versions are installed here.
    if lock is None or difference or [*_identities(lock)] != [*_identities(now)]:
        now.write(options.lock)
    return False


def _identities(lock: Lock) -> list[tuple[str, str, str, str, str]]:
    """The identification of ops in a lock, which edits may change without moving an op."""
    return [
        (function.name, op.key, op.op, op.local, op.around)
        for function in lock.functions
        for op in function.ops
    ]
