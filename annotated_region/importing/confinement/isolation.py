"""Imports a model in a separate process with limits, and receives the module as data.

    this process ---- job, file, pipe, memory ---> server (TVM loaded, no model seen)
         ^                                            | fork
         |                                            v
         +------ text by pipe, weights in memory -- child (confined, one model, then it ends)

Loading TVM takes more than a second, so a server process loads it once and forks a child for each model in
milliseconds. The server starts with the first imported model, or, at the start of a program before any
work, as a fork of that program (`start_server_here`), which is almost free. It ends
with the process that uses it.

A child that crashes, hangs or exhausts its memory raises an error with the model's name. This process
measures the time: at the limit, the server kills the child and all its descendants.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import tvm

from annotated_region.errors import ModelError
from annotated_region.importing.confinement.limits import Limits
from annotated_region.importing.confinement.server import KILL, LARGEST_JOB, READY, forked_server
from annotated_region.importing.confinement.shared_memory import made
from annotated_region.importing.reading import DEFECT, OUT_OF_MEMORY, module_of

__all__ = ["Job", "import_isolated", "start_server_here"]

_PART = 2**20
_START_SECONDS = 120.0
_ROOT = str(Path(__file__).parents[3])
_SERVER = "annotated_region.importing.confinement.server"
_PROGRAM = f"import sys; from {_SERVER} import load, serve; load(); serve(int(sys.argv[1]))"


@dataclass(frozen=True, slots=True)
class Job:
    """One model to import.

    Attributes
    ----------
    kind
        The kind of the file; a key of `annotated_region.importing.reading.READERS`.
    name
        The name of the model in messages.
    folder
        The folder of its external data.
    options
        Further arguments of the reader; must be representable as JSON.
    """

    kind: str
    name: str
    folder: str
    options: Mapping[str, object]


def import_isolated(job: Job, file: int, limits: Limits) -> tvm.IRModule:
    """The module in the file with this descriptor, imported in a child.

    Raises
    ------
    ModelError
        The file holds no such module, or the child crashed or exceeded a limit.
    """
    weights = made(limits.file)
    try:
        return module_of(_answered(job, file, weights, limits), weights, job.name)
    finally:
        os.close(weights)


def _answered(job: Job, file: int, weights: int, limits: Limits) -> bytearray:
    with _Server.lock:
        server = _Server.current()
        try:
            return server.run(job, file, weights, limits)
        except ModelError:
            raise
        except ConnectionError as error:
            server.stop()
            raise ModelError(
                f"{job.name} cannot be imported: the process that imports it has ended"
            ) from error
        except BaseException:
            # On any exception, including KeyboardInterrupt, the child must not outlive this call.
            server.stop()
            raise


def start_server_here() -> None:
    """Fork the server of later imports from this process, which must have loaded but not yet used TVM."""
    with _Server.lock:
        _Server.instance = _Server.forked()


@dataclass(slots=True)
class _Server:
    """The connection of this process to its server."""

    connection: socket.socket
    owner: int
    program: subprocess.Popen[bytes] | None

    lock: ClassVar[threading.RLock] = threading.RLock()
    instance: ClassVar[_Server | None] = None

    @staticmethod
    def current() -> _Server:
        """The server of this process; a server inherited from a parent process is not used."""
        found = _Server.instance
        if found is None or found.owner != os.getpid():
            found = _Server.instance = _Server.spawned()
        return found

    @staticmethod
    def forked() -> _Server:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.fork() == 0:
            forked_server(theirs, ours)
        theirs.close()
        return _Server(ours, os.getpid(), None).ready()

    @staticmethod
    def spawned() -> _Server:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        paths = [_ROOT, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        with theirs:
            # -P: the current folder may hold untrusted files, so it must not be on the import path.
            program = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1"},
                start_new_session=True,
            )
        server = _Server(ours, os.getpid(), program)
        atexit.register(server.stop)
        return server.ready()

    def ready(self) -> _Server:
        """Wait until the server has finished loading, and return it."""
        readable, *_ = select.select([self.connection], [], [], _START_SECONDS)
        if not readable or self.connection.recv(len(READY)) != READY:
            self.stop()
            raise ModelError(
                "the process that imports models did not start; pass isolated=False to import without one"
            )
        return self

    def stop(self) -> None:
        """Close the connection, which ends the server and its child."""
        self.connection.close()
        if self.owner != os.getpid():
            return
        if self.program is not None:
            self.program.wait()
            atexit.unregister(self.stop)
        if _Server.instance is self:
            _Server.instance = None

    def run(self, job: Job, file: int, weights: int, limits: Limits) -> bytearray:
        """The answer of the child that runs a job."""
        end = time.monotonic() + limits.time
        message = json.dumps({"limits": asdict(limits), **asdict(job)}).encode()
        if len(message) >= LARGEST_JOB:
            raise ModelError(f"the options for {job.name} are too long")
        answered = bytearray()
        pipe, others = os.pipe()
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PART)
        try:
            try:
                socket.send_fds(self.connection, [message], [file, others, weights])
            finally:
                os.close(others)
            problem = _receive(pipe, answered, end, limits)
        finally:
            os.close(pipe)
        status = self._status(end, kill=problem is not None)
        if problem is None and os.WIFEXITED(status) and os.WEXITSTATUS(status) == 1:
            raise RuntimeError(bytes(answered.rpartition(DEFECT)[2]).decode("utf-8", "replace"))
        problem = problem or _problem_of(status, limits)
        if problem:
            raise ModelError(f"{job.name} cannot be imported: {problem}")
        return answered

    def _status(self, end: float, kill: bool) -> int:
        if kill or not select.select([self.connection], [], [], max(end - time.monotonic(), 0))[0]:
            self.connection.send(KILL)
        answer = self.connection.recv(LARGEST_JOB)
        if not answer:
            raise ConnectionResetError
        status: int = json.loads(answer)
        return status


def _receive(pipe: int, answered: bytearray, end: float, limits: Limits) -> str | None:
    """Read a pipe to its end; returns the reason if a limit is exceeded."""
    while select.select([pipe], [], [], max(end - time.monotonic(), 0))[0]:
        part = os.read(pipe, _PART)
        if not part:
            return None
        answered += part
        if len(answered) > limits.file:
            return f"the module has more than {limits.file} bytes, the limit of file; see --limits"
    return _too_long(limits)


def _too_long(limits: Limits) -> str:
    return f"it takes longer than {limits.time:g} seconds, the limit of time; see --limits"


def _problem_of(status: int, limits: Limits) -> str | None:
    """The reason of a failure, from the wait status of a child; None if it ended with 0."""
    if status == 0:
        return None
    if os.WIFSIGNALED(status):
        ending = signal.Signals(os.WTERMSIG(status))
        if ending in (signal.SIGXCPU, signal.SIGKILL):
            return _too_long(limits)
        return (
            f"TVM or onnx crashed on it ({ending.name}), which a malformed model or the limit of memory, "
            f"{limits.memory} bytes, leads to; see --limits"
        )
    if os.waitstatus_to_exitcode(status) == OUT_OF_MEMORY:
        return f"it takes more than {limits.memory} bytes, the limit of memory; see --limits"
    return f"the process that read it ended with status {os.waitstatus_to_exitcode(status)}"
