"""The times of the kernels of a region, from ONNX Runtime's profiles of separate sessions.

Profiling can be enabled only when a session is created, and the profile is written when it ends. So regions
that run inside `recorded_steps` use separate sessions:

    with recorded_steps() as steps_of:      # a file for each region
        machine["main"](image)
    steps_of("onnxruntime_main_0")          # one step per node of the model, as fused by ONNX Runtime
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from annotated_region.targets.backend import StepTime

if TYPE_CHECKING:
    import onnxruntime

__all__ = ["Recording", "recorded_steps", "recording"]

_KERNEL = "_kernel_time"


@dataclass(slots=True)
class Recording:
    """Sessions that write their profiles into a folder.

    Attributes
    ----------
    folder
        The folder; it is removed with the recording.
    sessions
        The sessions by symbol of the region.
    """

    folder: Path
    sessions: dict[str, onnxruntime.InferenceSession] = field(default_factory=dict)

    def session(
        self, symbol: str, make: Callable[[str], onnxruntime.InferenceSession]
    ) -> onnxruntime.InferenceSession:
        """The session of a region; `make` creates one that profiles to a file with the given prefix."""
        if symbol not in self.sessions:
            self.sessions[symbol] = make(str(self.folder / symbol))
        return self.sessions[symbol]

    def ended(self) -> dict[str, tuple[StepTime, ...]]:
        """End all sessions; returns, by symbol, the time of each node, as the median of its runs."""
        return {
            symbol: _steps(Path(session.end_profiling()).read_text(encoding="utf-8"))
            for symbol, session in self.sessions.items()
        }


_RECORDING: ContextVar[Recording | None] = ContextVar("recording", default=None)


def recording() -> Recording | None:
    """The active recording, or None."""
    return _RECORDING.get()


@contextmanager
def recorded_steps() -> Iterator[Callable[[str], Sequence[StepTime]]]:
    """Record the kernels of the regions that run inside the block; the result returns them after it."""
    found: dict[str, tuple[StepTime, ...]] = {}
    with tempfile.TemporaryDirectory() as folder:
        record = Recording(Path(folder))
        token = _RECORDING.set(record)
        try:
            yield lambda symbol: found.get(symbol, ())
        finally:
            _RECORDING.reset(token)
            found.update(record.ended())


def _steps(text: str) -> tuple[StepTime, ...]:
    """The nodes of a profile in the order of their first run."""
    times: dict[str, list[float]] = {}
    for event in json.loads(text):
        name = str(event.get("name", ""))
        if event.get("cat") == "Node" and name.endswith(_KERNEL):
            kind = event.get("args", {}).get("op_name", "")
            label = f"{kind} {name.removesuffix(_KERNEL)}".strip()
            times.setdefault(label, []).append(1e-6 * float(event["dur"]))
    return tuple(StepTime(label, statistics.median(each)) for label, each in times.items())
