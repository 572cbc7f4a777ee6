"""Reports targets that cannot run on this machine, and options that they do not support here."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from annotated_region.command_line.placement import generator_options
from annotated_region.errors import BackendUnavailableError
from annotated_region.printable import printable
from annotated_region.targets.backend import backend_of, unavailability
from annotated_region.targets.remarks import remarks_on

__all__ = ["require_available", "tell_remarks", "tell_unavailable"]


def require_available(targets: Sequence[str], remedy: str = "") -> None:
    """Check that all targets can run here, for commands that are useless otherwise.

    Raises
    ------
    UnknownTargetError
        A target is not registered.
    BackendUnavailableError
        A target lacks its library or its device.
    """
    for target, reason in _unavailable(targets):
        leave = f"leave it out of --targets{', ' if remedy else ''}{remedy}"
        raise BackendUnavailableError(f"target {target!r} cannot run here: {reason}. Or {leave}")


def tell_unavailable(options: argparse.Namespace) -> None:
    """Print a note about each target that gets nothing because it cannot run here."""
    if options.cross_compile:
        return
    for target, reason in _unavailable(options.targets):
        print(f"note: target {target!r} gets nothing: {printable(reason)}", file=sys.stderr)


def tell_remarks(options: argparse.Namespace) -> None:
    """Print a note about each option that has no effect on this machine."""
    for target, remarks in remarks_on(generator_options(options), options.targets).items():
        for remark in remarks:
            print(f"note: target {target!r}: {printable(remark)}", file=sys.stderr)


def _unavailable(targets: Sequence[str]) -> Iterator[tuple[str, str]]:
    for target in targets:
        reason = unavailability(backend_of(target))
        if reason:
            yield target, reason
