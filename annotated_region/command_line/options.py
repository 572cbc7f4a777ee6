"""Arguments that several commands share, and what they mean."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import shtab

from annotated_region.costs import CostModel, MeasuredCost, RooflineCost, UnitCost
from annotated_region.errors import BackendUnavailableError, ModelError
from annotated_region.importing.limits import Limits
from annotated_region.policies.least_cost import LeastCost
from annotated_region.policies.policy import Policy, Priority
from annotated_region.printable import printable
from annotated_region.targets.backend import backend_of, unavailability

__all__ = [
    "add_limits_argument",
    "add_placement_arguments",
    "complete_files",
    "count",
    "path",
    "policy_of",
    "require_available",
    "tell_unavailable",
]

_MOST = 1_000_000


def add_placement_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the targets, and how conflicts between targets are settled."""
    model = parser.add_argument(
        "model", type=_file_name, help="an ONNX file (.onnx), or a Relax module as TVMScript (.py)"
    )
    complete_files(model)
    add_limits_argument(parser)
    parser.add_argument(
        "--targets",
        required=True,
        type=_names,
        metavar="NAME[,NAME...]",
        help="the targets, the most preferred first",
    )
    parser.add_argument(
        "--policy",
        choices=["priority", "least-cost"],
        default="priority",
        help="who gets what several targets claim: the first, or whoever is cheapest (default: %(default)s)",
    )
    parser.add_argument(
        "--cost",
        choices=list(_COST_MODELS),
        default="roofline",
        help="what least-cost goes by; measured runs every distinct op once (default: %(default)s)",
    )
    parser.add_argument(
        "--no-prepare",
        dest="prepare",
        action="store_false",
        help="take the module as it is, do not fold anything",
    )
    parser.add_argument(
        "--cross-compile", action="store_true", help="let targets win that cannot run on this machine"
    )


def add_limits_argument(parser: argparse.ArgumentParser) -> None:
    """What the process that reads the model may use."""
    parser.add_argument(
        "--limits",
        type=_limits,
        default=Limits(),
        metavar="NAME=N[,NAME=N...]",
        help="what reading the model may take: memory, time, and file, the size of the module that results "
        "(default: memory=8G,time=300s,file=8G)",
    )


def complete_files(argument: argparse.Action) -> None:
    """Let shells offer files for an argument."""
    argument.complete = shtab.FILE  # type: ignore[attr-defined] # the documented way to tell shtab


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of names with commas between them")
    return names


def _limits(text: str) -> Limits:
    try:
        return Limits.parse(text)
    except ModelError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def count(text: str) -> int:
    """A number that counts something, for argparse."""
    digits = text.strip()
    if not digits.isdecimal() or len(digits) > len(str(_MOST)) or int(digits) > _MOST:
        shown = text if len(text) <= 20 else f"{text[:20]}..."
        raise argparse.ArgumentTypeError(f"{shown!r} is no number from 0 to {_MOST}")
    return int(digits)


def path(text: str) -> Path:
    """The path of a file, for argparse."""
    return Path(_file_name(text))


def _file_name(text: str) -> str:
    if "\0" in text or not text:
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a file")
    return text


def require_available(targets: Sequence[str], remedy: str = "") -> None:
    """Check that all targets can run here, for commands whose result is worth nothing otherwise.

    Raises
    ------
    UnknownTargetError
        Nobody has registered one of them.
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


def _unavailable(targets: Sequence[str]) -> Iterator[tuple[str, str]]:
    for target in targets:
        reason = unavailability(backend_of(target))
        if reason:
            yield target, reason


def policy_of(options: argparse.Namespace) -> Policy:
    """The policy that the arguments ask for."""
    if options.policy == "priority":
        return Priority(options.targets)
    return LeastCost(_COST_MODELS[options.cost]())


_COST_MODELS: dict[str, Callable[[], CostModel]] = {
    "roofline": RooflineCost,
    "measured": MeasuredCost,
    "unit": UnitCost,
}
