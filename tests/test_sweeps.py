"""`--one-in` leaves forms of sweeps out, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

FILE = Path(__file__).parent / "backends" / "dnnl" / "test_dnnl_high_ranks.py"
SWEEP = "test_numbers_are_those_of_numpy"


@cache
def collected(*options: str) -> list[str]:
    """The names of the tests of a file with a sweep and other tests."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *options]
    done = subprocess.run([*command, str(FILE)], capture_output=True, text=True, check=True)
    return [line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line]


def forms(names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(f"{SWEEP}[")]


def test_a_sweep_is_thinned_to_its_first_form_and_some_others() -> None:
    every, some = forms(collected()), forms(collected("--one-in=3"))
    assert len(every) >= 12
    assert some[0] == every[0]
    assert 1 < len(some) < len(every) / 2
    assert set(some) < set(every)


def test_what_is_no_sweep_is_run_whole() -> None:
    every, some = collected(), collected("--one-in=3")
    assert [name for name in every if name not in forms(every)] == [
        name for name in some if name not in forms(some)
    ]
