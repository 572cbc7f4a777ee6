"""``draw``: the regions of a model as a picture, or as a page with every op and why."""

from __future__ import annotations

import argparse

from annotated_region.command_line.availability import tell_unavailable
from annotated_region.command_line.models import read_model
from annotated_region.command_line.placement import explained
from annotated_region.command_line.saved import saved_profile
from annotated_region.errors import DrawingError
from annotated_region.printable import printable

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """Do it; the exit code."""
    if options.output.suffix.lower() not in (".svg", ".html", ".json"):
        raise DrawingError(f"{options.output} ends neither in .svg nor in .html nor in .json")
    profile = None if options.profile is None else saved_profile(options.profile)
    report = explained(read_model(options.model, options.limits), options)
    if profile is not None:
        report = profile.beside(report)
    tell_unavailable(options)
    print(printable(str(report.draw(options.output))))
    return 0
