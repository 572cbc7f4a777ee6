"""Compilers that run side by side in threads, and end together."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock

__all__ = ["Processes"]


class Processes:
    """Runs programs from several threads; `end` stops those that run, and keeps others from starting.

    An interrupt reaches a Python process alone where nothing sends it to the whole group, as a terminal does:
    in a notebook, or by ``kill``. The compilers would go on, and the threads that wait for them, too. Each
    program has a process group of its own, because ``g++`` is a driver: a signal that ends it leaves the
    compiler proper running to its end, with the pipes that the thread reads.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._ended = False

    def run(self, command: Sequence[str]) -> None:
        """Run a program to its end.

        Raises
        ------
        OSError
            It cannot be started.
        subprocess.CalledProcessError
            It fails, or `end` was called.
        """
        with self._lock:
            if self._ended:
                raise subprocess.CalledProcessError(-1, command)
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
            )
            self._running.add(process)
        try:
            output, errors = process.communicate()
        finally:
            with self._lock:
                self._running.discard(process)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command, output, errors)

    def end(self) -> None:
        """Terminate what runs, and what that has started; further programs do not start."""
        with self._lock:
            self._ended = True
            for process in self._running:
                with suppress(ProcessLookupError):  # it has ended meanwhile
                    os.killpg(process.pid, signal.SIGTERM)
