"""The import server: a process that loads TVM once, and forks a confined child for each model.

It communicates over one message socket. A job is JSON, with descriptors of the model's file, of the pipe for
the result and of the in-memory file for weights; the answer is the child's wait status. ``kill`` ends the
child early; closing the socket ends the server. The server itself opens no model, so one model cannot affect
the import of another.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
import traceback
from contextlib import suppress
from typing import Any

from annotated_region.importing.confinement.limits import Limits
from annotated_region.importing.reading import DEFECT, OUT_OF_MEMORY, answer

__all__ = ["KILL", "LARGEST_JOB", "READY", "forked_server", "load", "serve"]

KILL, READY = b"kill", b"ready"
LARGEST_JOB = 2**17
_DESCRIPTORS = 3


def load() -> None:
    """Load the modules that children need."""
    with suppress(ImportError):
        # An optional dependency; the child reports its absence.
        import annotated_region.tvm_adapter.onnx_importer  # noqa: F401, PLC0415


def serve(descriptor: int) -> None:
    """Serve the process at the other end of a socket until it closes the connection."""
    with socket.socket(fileno=descriptor) as connection:
        connection.send(READY)
        while True:
            message, descriptors, *_ = socket.recv_fds(connection, LARGEST_JOB, _DESCRIPTORS)
            if not message:
                return
            if len(descriptors) == _DESCRIPTORS:
                connection.send(json.dumps(_status_of(json.loads(message), descriptors, connection)).encode())


def forked_server(connection: socket.socket, end_of_parent: socket.socket) -> None:
    """Run the server in a newly forked process; does not return."""
    status = 1
    try:
        os.setsid()
        end_of_parent.close()
        _forget_files(keep=connection.fileno())
        serve(connection.detach())
        status = 0
    finally:
        os._exit(status)


def _forget_files(keep: int) -> None:
    """Close inherited descriptors, so that readers of the parent's output see end-of-file when it ends."""
    silent = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silent, stream)
    os.closerange(3, keep)
    os.closerange(keep + 1, os.sysconf("SC_OPEN_MAX"))


def _status_of(job: dict[str, Any], descriptors: list[int], connection: socket.socket) -> int:
    """Run a job in a child, and return its wait status."""
    child = os.fork()
    if child == 0:
        connection.close()
        _child(job, *descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    end = os.pidfd_open(child)
    ends: list[Any] = [end, connection]
    try:
        readable, *_ = select.select(ends, [], [])
        if end not in readable:
            # Either the time limit is reached, or the parent has ended.
            _kill(child)
            connection.recv(LARGEST_JOB)
    finally:
        os.close(end)
    _, status = os.waitpid(child, 0)
    return status


def _kill(child: int) -> None:
    # The process group exists only after the child has called setsid.
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError):
            kill(child, signal.SIGKILL)


def _child(job: dict[str, Any], file: int, pipe: int, weights: int) -> None:
    status = 1
    try:
        os.setsid()
        # Writing is forbidden, and bytecode files would be useless for this short-lived process.
        sys.dont_write_bytecode = True
        gc.disable()
        Limits(**job.pop("limits")).confine()
        _send(pipe, answer(file=file, weights=weights, **job))
        status = 0
    except MemoryError:
        status = OUT_OF_MEMORY
    finally:
        # The parent reports a defect; without this text the cause would be lost.
        if status == 1:
            _send(pipe, DEFECT + traceback.format_exc().encode("utf-8", "backslashreplace"))
        os._exit(status)


def _send(pipe: int, part: bytes | memoryview) -> None:
    rest = memoryview(part)
    while rest:
        rest = rest[os.write(pipe, rest) :]
