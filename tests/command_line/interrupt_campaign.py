"""Sends Ctrl-C to the program at random moments, and says how it ended.

    PYTHONPATH=.:tests python tests/command_line/interrupt_campaign.py --moments 100 --longest 8 --seed 0

Moments count from where the package begins to load: before that, Python itself ends by the signal.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from kits.command_line.command_line_kit import small_model

__all__ = ["interrupted_run", "wait_until_mapped"]

LOADING = "libtvm"  # what is mapped into the process while the package loads, and before it has loaded
KINDS = (
    ("partition", "-o", "x.so"),
    ("partition", "-o", "x.py"),
    ("draw", "-o", "x.html"),
    ("bench", "--rounds", "100"),
    ("explain", "--policy", "least-cost", "--cost", "measured"),
)


def interrupted_run(
    model: Path,
    folder: Path,
    moment: float,
    kind: tuple[str, ...] = KINDS[0],
    wholly: bool = False,
) -> str:
    """``interrupted`` or ``done``: how a command ends that is interrupted `moment` seconds after its start.

    Anything else, be it another status, a message, or a file half written, fails an assertion. The signal
    goes to the program, or `wholly` to all its processes at once, as a terminal sends it.
    """
    folder.mkdir()
    program = [sys.executable, "-m", "annotated_region"]
    command = [*program, kind[0], str(model), "--targets", "dnnl", *kind[1:]]
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        wait_until_mapped(process.pid, LOADING)
        time.sleep(moment)
        (os.killpg if wholly else os.kill)(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=300)
    assert process.returncode in (0, 130), (process.returncode, errors)
    assert errors == "", errors
    whole = [kind[2]] if kind[1] == "-o" else []
    left = sorted(path.name for path in folder.iterdir() if path.name != "cache")
    # It may be interrupted behind the last write.
    assert left == whole or (left == [] and process.returncode == 130), left
    return "interrupted" if process.returncode else "done"


def wait_until_mapped(process: int, name: str) -> None:
    """Wait until a process has loaded a library with this in its name."""
    while name not in Path(f"/proc/{process}/maps").read_text(encoding="utf-8"):
        time.sleep(0.002)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moments", type=int, default=100)
    parser.add_argument("--longest", type=float, default=8.0, help="seconds")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance, ends = random.Random(options.seed), Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        model = small_model(Path(name))
        for number in range(options.moments):
            moment, kind = chance.uniform(0.0, options.longest), chance.choice(KINDS)
            wholly = chance.random() < 0.5
            ends[interrupted_run(model, Path(name, str(number)), moment, kind, wholly)] += 1
    print(f"{options.moments} moments: {dict(ends)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
