"""Runs the program on a file in a fork of this process, and judges how it ended."""

from __future__ import annotations

import os
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import tvm_ffi

from annotated_region.__main__ import main
from annotated_region.importing.confinement.isolation import start_server_here
from kits.fuzz.text_mutations import CANARY

__all__ = ["Ending", "explained"]

LIMITS = "memory=2G,time=5s"
_SECONDS = 60.0
_ERROR = "annotated-region: error: "


@dataclass(frozen=True, slots=True)
class Ending:
    """How the program ended on one file.

    Attributes
    ----------
    code
        Its exit code; negative for a signal.
    message
        What it said.
    objection
        What is wrong with that; empty if nothing is.
    """

    code: int
    message: str
    objection: str


def explained(content: bytes, name: str, before: Callable[[], object] = lambda: None) -> Ending:
    """What ``explain`` makes of a file; nothing may come of it but a report or one line.

    `before` runs first, in the same process; tests of this judge put their crimes there.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        canary = Path(folder) / "canary"
        words = ["explain", str(path), "--targets", "dnnl", "--limits", LIMITS]

        def work() -> int:
            before()
            return main(words)

        code, message = _in_fork(work, canary)
        left = sorted(file.name for file in Path(folder).iterdir())
    objection = _objection(code, message)
    if left != [name]:
        objection = f"something ran, and left {left}"
    return Ending(code, message, objection)


def _objection(code: int, message: str) -> str:
    if code < 0:
        return f"it ended with {signal.Signals(-code).name}"
    if code not in (0, 1):
        return f"it ended with {code}"
    if "internal error" in message or "Traceback" in message:
        return "a defect of ours"
    if code == 1 and (not message.startswith(_ERROR) or not message.endswith("\n")):
        return "the error is no line of ours"
    if any(not character.isprintable() and character != "\n" for character in message):
        return "the message holds what a terminal obeys"
    return ""


def _in_fork(work: Callable[[], int], canary: Path) -> tuple[int, str]:
    """The exit code of some work in a forked process, and what it wrote to its standard error."""
    pipe, others = os.pipe()
    child = os.fork()
    if child == 0:
        _child(work, others, canary)
    os.close(others)
    text, end = bytearray(), time.monotonic() + _SECONDS
    while select.select([pipe], [], [], max(end - time.monotonic(), 0))[0]:
        part = os.read(pipe, 2**16)
        if not part:
            break
        text += part
    else:
        os.killpg(child, signal.SIGKILL)
    os.close(pipe)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, text.decode("utf-8", "backslashreplace")


def _child(work: Callable[[], int], errors: int, canary: Path) -> None:
    code = 99
    try:
        os.setsid()
        os.chdir(canary.parent)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(errors, 2)
        os.close(errors)
        # Under pytest they are something else.
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        # It is registered in this process, and in those that are forked from it.
        tvm_ffi.register_global_func(CANARY, lambda *_: canary.touch(), override=True)
        start_server_here()
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
