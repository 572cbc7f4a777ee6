"""Lets an interrupt end the program silently while the package and TVM are still loading.

Imported before everything else; without effect in any other process that imports the package. The program
also loads TVM later than other importers: after its arguments have been parsed.
"""

from __future__ import annotations

import os
import signal
import sys

__all__ = ["IN_PROGRAM", "is_program"]

_INTERRUPTED = 130


def is_program(words: list[str], name: str) -> bool:
    """Whether this process was started as ``annotated-region`` or ``python -m annotated_region``.

    Parameters
    ----------
    words
        `sys.orig_argv`.
    name
        ``sys.argv[0]``; it is ``-m`` while ``python -m`` imports the package of the module to run.
    """
    if name != "-m":
        # Processes spawned by Python inherit argv[0], but not the command line.
        return os.path.basename(name) == "annotated-region" and name in words
    return "-m" in words and words[words.index("-m") + 1 :][:1] == ["annotated_region"]


IN_PROGRAM = is_program(sys.orig_argv, sys.argv[0])
"""Whether this process is the program."""

if IN_PROGRAM and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
