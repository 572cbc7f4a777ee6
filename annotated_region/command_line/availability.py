"""Whether the targets that a command names can run here, and do here what their options ask for."""

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
    """Check that all targets can run here, for commands whose result is worth nothing otherwise.

    Raises
    ------
    UnknownTargetError
        One of them is not registered.
    BackendUnavailableError
        One of them lacks its library or its device.
    """
    for target, reason in _unavailable(targets):
        leave = f"leave it out of --targets{', ' if remedy else ''}{remedy}"
        raise BackendUnavailableError(f"target {target!r} cannot run here: {reason}. Or {leave}")


def tell_unavailable(options: argparse.Namespace) -> None:
    """Say on the standard error which targets get nothing because they cannot run here."""
    if options.cross_compile:
        return
    for target, reason in _unavailable(options.targets):
        print(f"note: target {target!r} gets nothing: {printable(reason)}", file=sys.stderr)


def tell_remarks(options: argparse.Namespace) -> None:
    """Say on the standard error which options of the targets do not hold on this machine."""
    for target, remarks in remarks_on(generator_options(options), options.targets).items():
        for remark in remarks:
            print(f"note: target {target!r}: {printable(remark)}", file=sys.stderr)


def _unavailable(targets: Sequence[str]) -> Iterator[tuple[str, str]]:
    for target in targets:
        reason = unavailability(backend_of(target))
        if reason:
            yield target, reason
