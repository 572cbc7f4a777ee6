"""The program ``annotated-region``, also ``python -m annotated_region``."""

from __future__ import annotations

import signal
import sys

from annotated_region.command_line.run import main

__all__ = ["main", "program"]


def program() -> int:
    """Run the program in a process that begins with it."""
    try:
        return main(in_child=True)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done, and Python would complain while it ends


if __name__ == "__main__":
    sys.exit(program())
