"""MeasuredCost: builds and runs each distinct unit on its target once, and stores the time."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from tvm import relax

from annotated_region.checked import checked_class
from annotated_region.cost_units import CostUnit
from annotated_region.costs.model import HOST, PlacementTimes
from annotated_region.costs.roofline import RooflineCost
from annotated_region.dataflow.graph import DataflowGraph
from annotated_region.errors import (
    AnnotatedRegionError,
    MeasurementWarning,
    ModelError,
    RegionRejectedError,
    UsageError,
)
from annotated_region.ids import NodeId
from annotated_region.measuring import timing
from annotated_region.measuring.comparing import SpeedComparison
from annotated_region.measuring.identity import key_of, surroundings
from annotated_region.measuring.store import CostStore, default_path
from annotated_region.measuring.timing import Time, Timed, time_call, time_copy, time_together
from annotated_region.measuring.wholes import WholePlacement, WholePlacements, timed_unit
from annotated_region.progress import progress_bar
from annotated_region.regions.node_region import NodeRegion
from annotated_region.targets.extents import size_of
from annotated_region.tvm_adapter.types import expect

__all__ = ["MeasuredCost"]

_BATCH = 48
# The relative error of a time is assumed to be at least this: the minimum of few samples is noisy.
_LEAST_DOUBT = 0.02
_COPY_SIZES = (1 << 14, 1 << 22)
# The smallest share of a unit's time that is attributed to the unit, not to call, launch and transfers.
_LEAST_SHARE = 0.05
_REFUSED = Time(math.inf, 0.0)


@checked_class
class MeasuredCost:
    """Costs measured on this machine.

    The time of a unit is the minimum over interleaved runs of a module with only this unit, minus the call
    from Python, which a model does not spend on its parts, and, on a target, minus the launch of a region and
    the transfers of its own values: the objective charges these where they really occur.
    Times are stored in an SQLite file, keyed by the structural hash of the unit, the contents of its
    constants, the target, the versions of TVM, of this package and of the target's library, the processor and
    the number of threads. An interrupted measurement resumes; several processes may share the file. To
    discard the times, remove the file.

    Placements are compared as wholes, each with the best one so far, in interleaved rounds; a gain must be at
    least 1 % and significant, and one below 10 % must be reproduced by two further builds. Results are
    stored, keyed by the regions and ops of both placements.

    Not stored are times that vary too much in repeated rounds, as on a busy machine, and failures. A unit
    that its target or the compiler rejects costs infinity for the lifetime of this object.

    Parameters
    ----------
    path
        The file; by default one in the user's cache folder.
    rounds
        The number of interleaved rounds of runs for the minimum. Placements are compared in 5 to 80 times as
        many.
    progress
        Whether to show a progress bar with the remaining time while measuring, if stderr is a terminal.

    Raises
    ------
    ModelError
        The file is not a cost database, or cannot be opened.
    UsageError
        `rounds` is less than 1.

    Warns
    -----
    MeasurementWarning
        Some times vary too much, a unit could not be compiled, or the file cannot be written.

    Notes
    -----
    If the compiler fails on every unit of a target, the methods raise its `BuildError`.
    """

    def __init__(self, path: str | Path | None = None, rounds: int = 5, progress: bool = True) -> None:
        if rounds < 1:
            raise UsageError(f"the argument rounds is {rounds}; pass an integer of at least 1")
        self.store = CostStore(Path(path) if path is not None else default_path())
        self.rounds = rounds
        self.progress = progress
        self._known: dict[str, Time] = {}
        # The minimum time of any unit, by target: an upper bound on its launch time.
        self._least: dict[str, float] = {}

    # -- the three questions ----------------------------------------------------------------------

    def launch(self, target: str) -> float:
        """See `CostModel`: the time of a region with one op on one number, without the call from Python.

        For a target that rejects that op, or claims only composites, the minimum time of the measured units,
        which is not stored.
        """
        if target == HOST:
            return 0.0
        smallest = Timed(target, _smallest())
        key = f"launch {surroundings(target)}"
        try:
            seconds = self._remembered(key, target, lambda: time_together([smallest], self.rounds)[0])
        except AnnotatedRegionError as error:
            # If every unit is rejected, nothing will be launched.
            if target not in self._least and not isinstance(error, RegionRejectedError):
                raise
            self._known[key] = Time(self._least.get(target, 0.0), 0.0)
            seconds = self._known[key].seconds
        return self._without_call(seconds, 1)

    def compute(self, target: str, unit: CostUnit) -> float:
        """See `CostModel`; infinite if the target rejects the unit.

        The host rejects none: what TVM cannot compile alone, it often can with the ops around, which
        `annotated_region.build` repairs together; the time of such a unit is that of a `RooflineCost`.
        """
        timed = timed_unit(target, unit)
        if timed is None:
            return 0.0
        self._measure([timed], self.rounds)
        seconds = self._known[key_of(timed)].seconds
        if math.isinf(seconds):
            return RooflineCost().compute(HOST, unit) if target == HOST else seconds
        own = self._without_call(seconds, len(timed.func.params))
        if target == HOST:
            return own
        entering = sum(self.transfer(size_of(param.ty), HOST, target) for param in timed.func.params)
        leaving = self.transfer(size_of(timed.func.ret_ty), target, HOST)
        return max(own - self.launch(target) - entering - leaving, _LEAST_SHARE * seconds)

    def _without_call(self, seconds: float, arguments: int) -> float:
        """A time without that of a call from Python, which is half of what a small op takes alone."""
        key = f"call {arguments} {surroundings(HOST)}"
        call = self._remembered(key, HOST, lambda: time_call(arguments, self.rounds))
        return max(seconds - call, _LEAST_SHARE * seconds)

    def transfer(self, size: int, source: str, destination: str) -> float:
        """See `CostModel`: targets on this processor share its memory, so a transfer is one copy."""
        if source == destination == HOST:
            return 0.0
        small, large = (
            self._remembered(f"copy {count} {surroundings(HOST)}", HOST, partial(time_copy, count))
            for count in _COPY_SIZES
        )
        per_byte = max(large - small, 0.0) / (_COPY_SIZES[1] - _COPY_SIZES[0])
        return max(small - per_byte * _COPY_SIZES[0], 0.0) + per_byte * size

    def doubt(self, target: str, unit: CostUnit) -> float:
        """See `ConfirmingCostModel`: the spread of its samples, at least 2 %."""
        timed = timed_unit(target, unit)
        if timed is None:
            return 0.0
        self._measure([timed], self.rounds)
        time = self._known[key_of(timed)]
        return 0.0 if math.isinf(time.seconds) else max(time.spread, _LEAST_DOUBT) * time.seconds

    def first_of_fastest(
        self, graph: DataflowGraph, placements: Sequence[Sequence[NodeRegion]]
    ) -> PlacementTimes:
        """See `ConfirmingCostModel`: each placement runs as a whole, interleaved with the best one so far."""
        with ExitStack() as builds:
            wholes = [WholePlacement.of(graph, members) for members in placements]
            return self._fastest(WholePlacements(wholes, builds, self._warn_of_rejection), len(wholes))

    def segment_seconds(
        self, graph: DataflowGraph, segments: Sequence[tuple[Sequence[NodeId], Sequence[NodeRegion]]]
    ) -> Sequence[float]:
        """See `SegmentTimingCostModel`: each region, and what the host computes between regions, is measured
        and stored as a unit is.
        """
        placements = [WholePlacement.of(graph, members, nodes) for nodes, members in segments]
        self._measure([part for each in placements for part in each.parts.values()], self.rounds)
        return [sum(self._known[key].seconds for key in each.order) for each in placements]

    def _fastest(self, wholes: WholePlacements, count: int) -> PlacementTimes:
        """Compare each placement with the best one so far."""
        taken, seconds = 0, dict.fromkeys(range(count), math.inf)
        for number in range(1, count):
            found = self._compared(wholes, taken, number)
            if found is not None:
                seconds[taken], seconds[number] = found.current, found.candidate.seconds
                taken = number if found.is_faster else taken
            elif wholes.can_run(number):  # so the current one is rejected
                taken = number
        return PlacementTimes(taken, tuple(seconds.values()))

    def _compared(self, wholes: WholePlacements, current: int, candidate: int) -> SpeedComparison | None:
        """The comparison of two placements, measured once; None if one of them is rejected."""
        key = wholes.key_of_pair(current, candidate)
        first, second = self._look_up(f"{key} current"), self._look_up(f"{key} candidate")
        if first is not None and second is not None:
            return SpeedComparison(first.seconds, second)
        if not wholes.can_run(current, candidate):
            return None
        found = wholes.compared(current, candidate, self.rounds)
        times = {"current": Time(found.current, found.candidate.spread), "candidate": found.candidate}
        self._keep({f"{key} {name}": (time, "placement") for name, time in times.items()}, "placements")
        return found

    # -- measuring --------------------------------------------------------------------------------

    def prepare(self, questions: Sequence[tuple[str, CostUnit]]) -> None:
        """Measure all units without a known time, in batches, with a progress bar."""
        units = [timed_unit(target, unit) for target, unit in questions]
        self._measure([unit for unit in units if unit is not None], self.rounds)

    def _measure(self, units: Sequence[Timed], rounds: int) -> None:
        """Measure the units without a known time."""
        distinct = {key_of(unit): unit for unit in units}
        missing = [(key, unit) for key, unit in distinct.items() if self._look_up(key) is None]
        with progress_bar("measuring units", len(missing), self.progress) as advance:
            for batch in _batches(missing):
                times = self._times([unit for _key, unit in batch], rounds)
                self._keep({key: (time, unit.target) for (key, unit), time in zip(batch, times, strict=True)})
                advance(len(batch))
        for key, unit in distinct.items():
            seconds = self._known[key].seconds
            if math.isfinite(seconds):
                self._least[unit.target] = min(self._least.get(unit.target, math.inf), seconds)

    def _times(self, units: Sequence[Timed], rounds: int) -> list[Time]:
        """The time of each unit; infinite if its target or the compiler rejects it."""
        try:
            return list(time_together(units, rounds))
        except AnnotatedRegionError as error:
            if len(units) == 1:
                self._warn_of_rejection(units[0], error)
                return [_REFUSED]
        # One rejected unit fails the whole batch, so time them one by one.
        return [time for unit in units for time in self._times([unit], rounds)]

    def _warn_of_rejection(self, unit: Timed, error: AnnotatedRegionError) -> None:
        """Warn of a failure other than a rejection by the target; raise it if the target does not work at
        all.

        Raises
        ------
        AnnotatedRegionError
            Even the smallest unit of the target cannot be built and run.
        """
        if isinstance(error, RegionRejectedError) or unit.target == HOST:
            return
        time_together([Timed(unit.target, _smallest())], 1)
        _warn(f"a unit of target {unit.target!r} could not be measured, and is treated as rejected: {error}")

    def _remembered(self, key: str, target: str, measure: Callable[[], Time]) -> float:
        known = self._look_up(key)
        if known is None:
            self._keep({key: (measure(), target)})
            known = self._known[key]
        return known.seconds

    def _look_up(self, key: str) -> Time | None:
        if key not in self._known:
            stored = self.store.get(key)
            if stored is None:
                return None
            self._known[key] = stored
        return self._known[key]

    def _keep(self, measured: Mapping[str, tuple[Time, str]], what: str = "units") -> None:
        """Cache some times of `what` in memory, and store the steady ones."""
        self._known |= {key: time for key, (time, _target) in measured.items()}
        finite = {key: each for key, each in measured.items() if each[0] is not _REFUSED}
        steady = {key: each for key, each in finite.items() if each[0].is_steady}
        if len(steady) < len(finite):
            _warn(
                f"times of {len(finite) - len(steady)} of {len(finite)} {what} differ by more than "
                f"{timing.WIDEST_SPREAD:.0%} from run to run; they are used but not stored; measure "
                "again on an idle machine"
            )
        try:
            self.store.put(steady)
        except ModelError as error:
            _warn(f"times of {len(steady)} {what} are used but not stored: {error}")


def _batches(units: Sequence[tuple[str, Timed]]) -> Iterator[Sequence[tuple[str, Timed]]]:
    """Consecutive units, at most `_BATCH` and at most `MOST_BYTES` together; a larger unit is alone."""
    first, held = 0, 0
    for number, (_key, unit) in enumerate(units):
        size = unit.bytes
        if number > first and (number - first == _BATCH or held + size > timing.MOST_BYTES):
            yield units[first:number]
            first, held = number, 0
        held += size
    if units:
        yield units[first:]


def _warn(message: str) -> None:
    warnings.warn(message, MeasurementWarning, stacklevel=2)


def _smallest() -> relax.Function:
    """A region with almost no work."""
    x = relax.Var("x", relax.TensorType((1, 1), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("smallest", [x]):
        with builder.dataflow():
            out = builder.emit_output(builder.emit(relax.op.nn.relu(x)))
        builder.emit_func_output(out)
    return expect(relax.Function, builder.get()["smallest"])
