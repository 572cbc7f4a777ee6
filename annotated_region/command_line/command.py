"""What a command of the program is: its name, its help, its arguments and what it does."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Command"]


@dataclass(frozen=True, slots=True)
class Command:
    """One command of the program.

    Attributes
    ----------
    name
        What the user types.
    help
        What it does, in a line.
    examples
        Lines that a user might type; ``--help`` shows them.
    add_arguments
        Declares its arguments.
    work
        The module that does the work: its function ``run`` takes what was parsed, and gives the exit code. It
        is imported once the arguments make sense.
    """

    name: str
    help: str
    examples: tuple[str, ...]
    add_arguments: Callable[[argparse.ArgumentParser], None]
    work: str
