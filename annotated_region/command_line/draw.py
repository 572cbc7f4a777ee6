"""``draw``: the regions of a model as a picture, or as a page with every op and the reasons."""

from __future__ import annotations

import argparse
from pathlib import Path

from annotated_region.checking.check_report import CheckReport
from annotated_region.command_line.availability import tell_unavailable
from annotated_region.command_line.models import read_model
from annotated_region.command_line.placement import explained
from annotated_region.command_line.saved import kind_of, read_saved, saved_profile
from annotated_region.errors import DrawingError, UsageError
from annotated_region.printable import printable
from annotated_region.reports.report import Report

__all__ = ["run"]

_SAVED = ".json"
_OF_MODELS = ("targets", "pin", "ban", "min_work")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    if options.output.suffix.lower() not in (".svg", ".html", ".json"):
        raise DrawingError(f"{options.output} ends neither in .svg nor in .html nor in .json")
    if Path(options.model).suffix.lower() == _SAVED:
        print(printable(str(_drawable(options).draw(options.output))))
        return 0
    if options.targets is None:
        raise UsageError("a model must be placed before it is drawn: name its targets with --targets")
    profile = None if options.profile is None else saved_profile(options.profile)
    report = explained(
        read_model(options.model, options.limits, dict(options.shape), dict(options.value)), options
    )
    if profile is not None:
        report = profile.beside(report)
    tell_unavailable(options)
    print(printable(str(report.draw(options.output))))
    return 0


def _drawable(options: argparse.Namespace) -> Report | CheckReport:
    """The saved report or check, with the times of a profile if one is named."""
    given = [name for name in _OF_MODELS if getattr(options, name)]
    if given:
        words = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise UsageError(f"{options.model} already has a placement; omit {words}")
    saved = read_saved(Path(options.model))
    if not isinstance(saved, Report | CheckReport):
        raise DrawingError(
            f"{options.model} holds a {kind_of(saved)}, which has no placement; draw the model, with "
            "--profile for times"
        )
    if options.profile is None:
        return saved
    if isinstance(saved, CheckReport):
        raise UsageError("a check is drawn by verdicts, not by times; omit --profile")
    return saved_profile(options.profile).beside(saved)
