"""``cache``: shows or clears what is cached on this machine between builds."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict

from rich.table import Table

from annotated_region.cache import cache_folder
from annotated_region.cache_contents import KindOfEntry, contents, removed
from annotated_region.command_line.terminal import console, plain
from annotated_region.errors import UsageError
from annotated_region.printable import printable

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    if options.action == "show" and options.older_than is not None:
        raise UsageError("--older-than is for clear: annotated-region cache clear --older-than 30d")
    clears = options.action == "clear"
    kinds = removed(_limit(options.older_than)) if clears else contents()
    if options.json:
        print(
            json.dumps({"folder": str(cache_folder()), "kinds": [asdict(kind) for kind in kinds]}, indent=2)
        )
    else:
        print(printable(f"{'Removed from' if clears else 'Kept in'} {cache_folder()}"))
        console().print(_table(kinds))
    return 0


def _limit(older_than: int | None) -> float:
    return float("inf") if older_than is None else time.time() - older_than


def _table(kinds: list[KindOfEntry]) -> Table:
    table = Table(show_footer=True)
    table.add_column("kind", "together", overflow="fold")
    table.add_column("entries", str(sum(kind.entries for kind in kinds)), justify="right")
    table.add_column("bytes", f"{sum(kind.bytes for kind in kinds):,}", justify="right")
    for kind in kinds:
        table.add_row(plain(kind.kind), str(kind.entries), f"{kind.bytes:,}")
    return table
