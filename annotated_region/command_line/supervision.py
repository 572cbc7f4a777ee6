"""Runs the work of the program in a child process, so that a crash becomes an error line.

    program, waits ---- fork ----> worker: reads, partitions, compiles, runs; forks the server of imports
         |                                   |
         +-- signals: once, politely ------> +-- KeyboardInterrupt, once
         +<- wait status --------------------+

Passes, code generators and models can crash their process (SIGSEGV, SIGFPE), and the kernel kills a process
if memory runs out. The parent process does none of the work, and survives.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType

from annotated_region.importing.confinement.limits import die_with_parent

__all__ = ["INTERRUPTED", "ended_in_child"]

INTERRUPTED = 130
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT)
# A terminal sends an interrupt to the whole process group, and some programs send two at once.
_PATIENCE = 1.0


def ended_in_child(
    work: Callable[[], int],
    crashed: Callable[[int], int],
    *,
    clean_up: Callable[[int], None] = lambda _child: None,
    backtrace: bool = False,
) -> int:
    """Run some work in a child of this process; returns the exit code.

    The first Ctrl-C is a KeyboardInterrupt in the child; one that comes a second later or more kills it.
    Any other terminating signal ends both.

    Parameters
    ----------
    work
        Returns an exit code.
    crashed
        Called with the signal that ended the child; returns the exit code of this process.
    clean_up
        Called with the process id of a child that a signal ended, whichever process sent the signal.
    backtrace
        Whether TVM may print its stack when the child crashes.
    """
    sys.stdout.flush()
    # The parent process may ignore some signals: nohup ignores SIGHUP, a shell's & SIGINT.
    heard = [number for number in _ENDINGS if signal.getsignal(number) != signal.SIG_IGN]
    signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    child = os.fork()
    if child == 0:
        _work(work, heard, () if backtrace else _CRASHES)
    watch = _Watch(child)
    wakeups = _wakeups()
    for number in heard:
        signal.signal(number, watch.forward)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, heard)
    code = os.waitstatus_to_exitcode(_status_of(child, wakeups))
    if code >= 0:
        return code
    clean_up(child)
    if watch.first_interrupt is not None:
        return INTERRUPTED
    if -code in heard:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return crashed(-code)


def _wakeups() -> int:
    """A file descriptor with a byte to read after each signal that has a handler, and each end of a child."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reader


def _status_of(child: int, wakeups: int) -> int:
    """Wait until a child has ended.

    Not in ``waitpid``: Python runs a handler before or after a system call. For a signal that arrives between
    Python's last look and the beginning of the call, that would be after the end of the child.
    """
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        os.read(wakeups, 64)


class _Watch:
    """Forwards signals to a child."""

    def __init__(self, child: int) -> None:
        self.child = child
        self.first_interrupt: float | None = None

    def forward(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if number != signal.SIGINT:
            self._send(number)
        elif self.first_interrupt is None:
            self.first_interrupt = now
            self._send(number)
        elif now > self.first_interrupt + _PATIENCE:
            self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        with suppress(ProcessLookupError):  # it has ended meanwhile, and its exit code is on its way
            os.kill(self.child, number)


def _work(
    work: Callable[[], int], heard: Sequence[signal.Signals], silenced: Sequence[signal.Signals]
) -> None:
    """Run the work in the child; does not return."""
    code = 1
    try:
        die_with_parent()
        for number in (*heard, *silenced):
            signal.signal(number, _interrupt_once if number == signal.SIGINT else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, heard)
        code = int(work())  # anything else would let the child out of here, as a second program
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception:  # printed as Python would; the process ends below
        traceback.print_exc()
    finally:
        # Libraries are not unloaded, because some crash then.
        os._exit(code)


def _interrupt_once(_number: int, _frame: FrameType | None) -> None:
    # The same interrupt arrives from the terminal and from the program; it must not interrupt the cleanup.
    signal.signal(signal.SIGINT, lambda *_: None)
    raise KeyboardInterrupt
