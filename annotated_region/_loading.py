"""Where this process is the program, an interrupt while the package and TVM are loaded ends it in silence.

It is imported before all else. In any other process that imports the package nothing happens here.
"""

from __future__ import annotations

import os
import signal
import sys

__all__ = ["is_program"]

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
        return os.path.basename(name) == "annotated-region"
    return "-m" in words and words[words.index("-m") + 1 :][:1] == ["annotated_region"]


if is_program(sys.orig_argv, sys.argv[0]) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
