"""The log of an engine, from running the script of a reproducer in a separate process."""

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
    """The log of an engine while ``show.py`` of a folder runs; empty if it has none, or the script fails.

    Logging is enabled by the environment variables of the backend, as in
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
    logged = [line for line in finished.stdout.splitlines() if line.startswith(log.prefix)]
    # Times at the end of lines are removed, so that the same fault gives the same bytes.
    return "".join(f"{re.sub(_TIME, '', line)}\n" for line in logged)
