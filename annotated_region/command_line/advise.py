"""``advise``: the declined ops whose claims would improve the placement most."""

from __future__ import annotations

import argparse

from rich.table import Table

from annotated_region.advising.advice import Advice
from annotated_region.advising.advise import advise
from annotated_region.command_line.models import read_model
from annotated_region.command_line.placement import policy_of
from annotated_region.command_line.terminal import console, plain
from annotated_region.documents import written_document

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    mods = [read_model(model, options.limits) for model in options.models]
    advice = advise(mods, options.targets, policy_of(options), measure=options.measure)[: options.top]
    if options.json:
        print(written_document("advice", {"advice": [each.to_dict() for each in advice]}, indent=2))
    elif advice:
        console().print(_table(advice))
    else:
        print("no claim of a declined op would improve the placement")
    return 0


def _table(advice: list[Advice]) -> Table:
    table = Table(title="If the target claimed it", title_justify="left")
    for column in ("target", "op", "count", "why not", "regions", "host ops", "crossings", "us saved", "how"):
        table.add_column(column, overflow="fold")
    for each in advice:
        numbers = (
            f"{each.regions_before} -> {each.regions_after}",
            f"{each.host_before} -> {each.host_after}",
            f"{each.crossings_before} -> {each.crossings_after}",
            f"{each.seconds_saved * 1e6:.3g}",
            "estimated" if each.doubt is None else f"measured, +- {each.doubt * 1e6:.3g}",
        )
        name = each.op.removeprefix("relax.")
        table.add_row(*map(plain, (each.target, name, str(len(each.ops)), each.reason, *numbers)))
    return table
