"""Measures the exclusive time of the calls of TVM's virtual machine.

The machine notifies an instrument before and after each call. Calls nest, so a stack holds the open ones:

    main                     | exclusive: 1 + 2
      f                      |   exclusive: 3
        dnnl_main_0  region  |     5
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter_ns

from tvm_ffi.core import Tensor

from annotated_region.compilation.executable import LinkedRegion

__all__ = ["CallClock", "Span"]

_BUILTIN = "vm.builtin."


@dataclass(slots=True)
class Span:
    """The calls of one function in one run: number, time in seconds, bytes of arguments and results."""

    calls: int = 0
    seconds: float = 0.0
    bytes_in: int = 0
    bytes_out: int = 0


@dataclass(slots=True)
class _Open:
    """An open call: its notification, its start, and the time of nested calls with their notifications."""

    notified: int
    begin: int = 0
    inside: int = 0
    has_calls: bool = False


@dataclass
class CallClock:
    """An instrument of the virtual machine.

    Attributes
    ----------
    regions
        The external functions, by symbol.
    kernels
        By name, the times of external functions and host kernels since the last `start`.
    machine
        The seconds of all other calls of the machine.
    """

    regions: Mapping[str, LinkedRegion]
    kernels: dict[str, Span] = field(default_factory=dict)
    machine: float = 0.0
    _open: list[_Open] = field(default_factory=list)

    def start(self) -> None:
        """Reset all times."""
        self.kernels, self.machine, self._open = {}, 0.0, []

    def __call__(
        self, _function: object, name: str, is_before: bool, _answer: object, *arguments: object
    ) -> None:
        """Called by TVM around each call. Its own time is excluded from the measured times."""
        now = perf_counter_ns()
        if is_before:
            if self._open:
                self._open[-1].has_calls = True
            self._open.append(_Open(now))
            self._open[-1].begin = perf_counter_ns()
            return
        ended = self._open.pop()
        elapsed = now - ended.begin
        own = 1e-9 * (elapsed - ended.inside)
        if name.startswith(_BUILTIN) or (ended.has_calls and name not in self.regions):
            self.machine += own
        else:
            self._count(name, own, arguments)
        if self._open:
            self._open[-1].inside += perf_counter_ns() - ended.notified

    def _count(self, name: str, seconds: float, arguments: tuple[object, ...]) -> None:
        span = self.kernels.setdefault(name, Span())
        span.calls += 1
        span.seconds += seconds
        region = self.regions.get(name)
        if region is not None:
            span.bytes_in += sum(map(_size, arguments[: region.inputs]))
            span.bytes_out += sum(map(_size, arguments[region.inputs :]))


def _size(value: object) -> int:
    """The bytes of a tensor; 0 for other values."""
    if not isinstance(value, Tensor):
        return 0
    return (math.prod(value.shape) * int(value.dtype.bits) + 7) // 8
