"""Arguments that several commands share, and what they mean."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import shtab

from annotated_region.costs import CostModel, MeasuredCost, RooflineCost, UnitCost
from annotated_region.errors import ModelError
from annotated_region.importing.limits import Limits
from annotated_region.policies.least_cost import LeastCost
from annotated_region.policies.policy import Policy, Priority

__all__ = ["add_limits_argument", "add_placement_arguments", "complete_files", "policy_of"]


def add_placement_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the targets, and how conflicts between targets are settled."""
    model = parser.add_argument("model", help="an ONNX file (.onnx), or a Relax module as TVMScript (.py)")
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
