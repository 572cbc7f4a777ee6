"""What the processor of this machine can do, as the system says."""

from __future__ import annotations

from pathlib import Path

__all__ = ["SAID_IN", "is_amd", "processor_flags"]

SAID_IN = Path("/proc/cpuinfo")


def processor_flags() -> set[str]:
    """The names of instruction sets; none if the system does not tell them."""
    lines = SAID_IN.read_text(encoding="utf-8").splitlines() if SAID_IN.exists() else []
    return {flag for line in lines if line.startswith("flags") for flag in line.split(":", 1)[1].split()}


def is_amd() -> bool:
    """Whether the system says that AMD made this processor."""
    return SAID_IN.exists() and "AuthenticAMD" in SAID_IN.read_text(encoding="utf-8")
