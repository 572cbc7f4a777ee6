"""What an engine itself says that it runs, by the script of a reproducer in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from annotated_region.targets.backend import backend_of

__all__ = ["ENGINE_LOG", "engine_log"]

ENGINE_LOG = "engine.txt"
_SECONDS = 120
_TIME = r",[0-9]+(\.[0-9]+)?(e-?[0-9]+)?$"


def engine_log(folder: Path, target: str) -> str:
    """The lines of an engine while ``show.py`` of a folder runs; empty if it has none, or the script fails.

    The engine is asked by the environment variables of its backend, as in
    ``ONEDNN_VERBOSE=1 python show.py``.
    """
    log = backend_of(target).engine_log
    if log is None:
        return ""
    try:
        finished = subprocess.run(
            [sys.executable, "show.py"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **log.environment},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    told = [line for line in finished.stdout.splitlines() if line.startswith(log.prefix)]
    # A time at the end of a line would make other bytes of the same fault.
    return "".join(f"{re.sub(_TIME, '', line)}\n" for line in told)
