"""The program ``annotated-region``, also ``python -m annotated_region``."""

from __future__ import annotations

import signal
import sys

from annotated_region.command_line.run import main

__all__ = ["main", "program"]


def program() -> int:
    """Run the program in a child process, as the console script does."""
    try:
        return main(in_child=True)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt at exit would print a traceback


if __name__ == "__main__":
    sys.exit(program())
