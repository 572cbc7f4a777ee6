"""What else a machine has to do while an engine is measured, and how few processors a process may have."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["LOADS", "Elsewhere", "confined", "load"]

# The kernel ends a program with the process that started it, whatever ended that: PR_SET_PDEATHSIG, SIGKILL.
_TIED = "import ctypes; ctypes.CDLL(None).prctl(1, 9)\n"
_ENDLESS = _TIED + "while True: pass"
# As a shell script or a build makes them: some ten milliseconds each, one after the other.
_SHORT = f"""{_TIED}
import subprocess, sys
while True:
    subprocess.run([sys.executable, "-S", "-c", "sum(range(200_000))"], check=False)
"""
_SETTLING = 0.3  # seconds until the scheduler has got used to a load

# The programs of each load, with their priorities.
_PROGRAMS: dict[str, tuple[tuple[str, int], ...]] = {
    "quiet": (),
    "1 busy": ((_ENDLESS, 0),),
    "2 busy": ((_ENDLESS, 0), (_ENDLESS, 0)),
    "1 of nice 10": ((_ENDLESS, 10),),
    "short ones": ((_SHORT, 0),),
    "one core": (),
    "quota": (),
}
LOADS = tuple(_PROGRAMS)
"""The last two confine the engines instead: to the first processor, or to a quota of one in time."""

_GROUP = Path("/sys/fs/cgroup/cpu/annotated_region_benchmark")
_PERIOD = 100_000  # microseconds


@contextmanager
def load(name: str) -> Iterator[list[int]]:
    """Keeps the machine busy in the way of that name; hands out the processes that do."""
    programs = [_started(text, priority) for text, priority in _PROGRAMS[name]]
    time.sleep(_SETTLING)
    try:
        yield [program.pid for program in programs]
    finally:
        for program in programs:
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            program.wait()


def _started(text: str, priority: int) -> subprocess.Popen[bytes]:
    # A group of its own, so that the short processes end with the one that starts them.
    command = ["nice", "-n", str(priority), sys.executable, "-S", "-c", text]
    return subprocess.Popen(command, process_group=0)


class Elsewhere:
    """How much the processors compute for others than some processes and their children that have ended."""

    def __init__(self, own: Sequence[int]) -> None:
        self.own = own
        self._since = time.perf_counter()
        self._before = self._used()

    def processors(self) -> float:
        """The mean count of processors that others have had since this object was made."""
        return (self._used() - self._before) / os.sysconf("SC_CLK_TCK") / (time.perf_counter() - self._since)

    def _used(self) -> int:
        counts = [int(count) for count in Path("/proc/stat").read_text("utf-8").split("\n")[0].split()[1:9]]
        return sum(counts) - sum(counts[_IDLE]) - sum(map(_ticks, self.own))


_IDLE = slice(3, 5)  # of a row of /proc/stat: idle, and waiting for a device


def _ticks(process: int) -> int:
    # Its own time in user and in system mode, and that of the children that it has waited for.
    fields = Path(f"/proc/{process}/stat").read_text("utf-8").rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15]))


@contextmanager
def confined(name: str, processes: Sequence[int]) -> Iterator[None]:
    """Confines some processes and their threads, if the load of that name asks for it.

    Raises
    ------
    OSError
        This user may make no group with a quota.
    """
    if name == "one core":
        with _pinned(processes):
            yield
    elif name == "quota":
        with _limited(processes):
            yield
    else:
        yield


@contextmanager
def _pinned(processes: Sequence[int]) -> Iterator[None]:
    everywhere = os.sched_getaffinity(0)
    _pin(processes, {min(everywhere)})
    try:
        yield
    finally:
        _pin(processes, everywhere)


def _pin(processes: Sequence[int], processors: set[int]) -> None:
    for process in processes:
        for thread in Path(f"/proc/{process}/task").iterdir():
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread.name), processors)


@contextmanager
def _limited(processes: Sequence[int]) -> Iterator[None]:
    _GROUP.mkdir(exist_ok=True)
    (_GROUP / "cpu.cfs_period_us").write_text(str(_PERIOD))
    (_GROUP / "cpu.cfs_quota_us").write_text(str(_PERIOD))
    try:
        for process in processes:
            (_GROUP / "cgroup.procs").write_text(str(process))
        yield
    finally:
        for process in processes:
            (_GROUP.parent / "cgroup.procs").write_text(str(process))
        _GROUP.rmdir()
