"""Runs the work of the program in a child process, so that whatever ends that process is an error line.

    program, waits ---- fork ----> worker: reads, partitions, compiles, runs; forks the server of imports
         |                                   |
         +-- signals: once, politely ------> +-- KeyboardInterrupt, once
         +<- wait status --------------------+

Passes, code generators and models that are run can crash the process that they are in (SIGSEGV, SIGFPE),
and the kernel kills a process for which there is no memory. The program does none of the work and survives.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from types import FrameType

from annotated_region.importing.limits import die_with_parent

__all__ = ["INTERRUPTED", "ended_in_child"]

INTERRUPTED = 130
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT)
# A terminal sends an interrupt to the whole group of processes, and some programs do so twice at once.
_PATIENCE = 1.0


def ended_in_child(
    work: Callable[[], int],
    crashed: Callable[[int], int],
    *,
    clean_up: Callable[[int], None] = lambda _child: None,
    backtrace: bool = False,
) -> int:
    """The exit code of some work, done in a child of this process.

    The first Ctrl-C is a KeyboardInterrupt in the child; one that comes a second later or more kills it.
    Any other signal that ends programs ends both.

    Parameters
    ----------
    work
        Gives an exit code.
    crashed
        Told the signal that ended the child; gives the exit code of this process.
    clean_up
        Told the process id of a child that a signal ended, from whichever process it came.
    backtrace
        Whether TVM may print its stack when the child crashes.
    """
    sys.stdout.flush()
    # The parent process may have set some to be ignored: nohup does with SIGHUP, a shell's & with SIGINT.
    heard = [number for number in _ENDINGS if signal.getsignal(number) != signal.SIG_IGN]
    signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    child = os.fork()
    if child == 0:
        _work(work, heard, () if backtrace else _CRASHES)
    watch = _Watch(child)
    for number in heard:
        signal.signal(number, watch.forward)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, heard)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code >= 0:
        return code
    clean_up(child)
    if watch.first_interrupt is not None:
        return INTERRUPTED
    if -code in heard:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return crashed(-code)


class _Watch:
    """Hands signals on to a child."""

    def __init__(self, child: int) -> None:
        self.child = child
        self.first_interrupt: float | None = None

    def forward(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if number != signal.SIGINT:
            os.kill(self.child, number)
        elif self.first_interrupt is None:
            self.first_interrupt = now
            os.kill(self.child, number)
        elif now > self.first_interrupt + _PATIENCE:
            os.kill(self.child, signal.SIGKILL)


def _work(
    work: Callable[[], int], heard: Sequence[signal.Signals], silenced: Sequence[signal.Signals]
) -> None:
    """Be the worker; does not return."""
    code = 1
    try:
        die_with_parent()
        for number in (*heard, *silenced):
            signal.signal(number, _interrupt_once if number == signal.SIGINT else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, heard)
        code = work()
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception:  # as Python would tell it, had the process not to end below
        traceback.print_exc()
    finally:
        # Libraries have nothing to do any more, and some crash while they are unloaded.
        os._exit(code)


def _interrupt_once(_number: int, _frame: FrameType | None) -> None:
    # The same interrupt arrives from the terminal and from the program; what is being cleaned up goes on.
    signal.signal(signal.SIGINT, lambda *_: None)
    raise KeyboardInterrupt
