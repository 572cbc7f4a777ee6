"""What the kernels of a region take, by ONNX Runtime's own profile of sessions that are made for that alone.

A session writes its profile when it ends, and can only be told to when it is made. So regions that run inside
`recorded_steps` run in sessions of their own:

    with recorded_steps() as steps_of:      # a file for each region
        machine["main"](image)
    steps_of("onnxruntime_main_0")          # one step a node of the model, as ONNX Runtime has fused it
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
        Where to; it is removed with the recording.
    sessions
        By the symbol of a region, its session.
    """

    folder: Path
    sessions: dict[str, onnxruntime.InferenceSession] = field(default_factory=dict)

    def session(
        self, symbol: str, make: Callable[[str], onnxruntime.InferenceSession]
    ) -> onnxruntime.InferenceSession:
        """The session of a region; `make` makes one that writes its profile to a file of a prefix."""
        if symbol not in self.sessions:
            self.sessions[symbol] = make(str(self.folder / symbol))
        return self.sessions[symbol]

    def ended(self) -> dict[str, tuple[StepTime, ...]]:
        """By symbol, what each node took, as the median of its runs; the sessions write their profiles."""
        return {
            symbol: _steps(Path(session.end_profiling()).read_text(encoding="utf-8"))
            for symbol, session in self.sessions.items()
        }


_RECORDING: ContextVar[Recording | None] = ContextVar("recording", default=None)


def recording() -> Recording | None:
    """What records the regions that run now, if anything does."""
    return _RECORDING.get()


@contextmanager
def recorded_steps() -> Iterator[Callable[[str], Sequence[StepTime]]]:
    """Record the kernels of the regions that run inside the block; behind it, what is given tells them."""
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
