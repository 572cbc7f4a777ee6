"""A command of the program: its name, its help, its arguments and its implementation."""

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
        The name on the command line.
    help
        One line of help.
    examples
        Example command lines for ``--help``.
    add_arguments
        Declares its arguments.
    work
        The module of the implementation: its function ``run`` maps the parsed arguments to an exit code. It
        is imported after the arguments are parsed.
    """

    name: str
    help: str
    examples: tuple[str, ...]
    add_arguments: Callable[[argparse.ArgumentParser], None]
    work: str
