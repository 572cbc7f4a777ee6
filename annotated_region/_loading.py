"""Where this process is the program, an interrupt while the package and TVM are loaded ends it in silence.

It is imported before all else. In any other process that imports the package nothing happens here. The
program also loads TVM later than others do: once its arguments make sense.
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
        ``sys.argv[0]``, which is ``-m`` while ``python -m`` loads the package of the module that it will run.
    """
    if name != "-m":
        # Processes that Python spawns take over the name, but not the words.
        return os.path.basename(name) == "annotated-region" and name in words
    return "-m" in words and words[words.index("-m") + 1 :][:1] == ["annotated_region"]


IN_PROGRAM = is_program(sys.orig_argv, sys.argv[0])
"""Whether this process is the program."""

if IN_PROGRAM and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
