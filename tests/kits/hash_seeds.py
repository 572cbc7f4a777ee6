"""Runs a program in processes with different hash seeds: what depends on the order of a set differs there."""

from __future__ import annotations

import os
import subprocess
import sys

__all__ = ["outputs_of"]


def outputs_of(program: str, *arguments: str, seeds: tuple[str, ...] = ("1", "4711")) -> list[str]:
    """What a program prints under each seed."""
    return [
        subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in seeds
    ]
