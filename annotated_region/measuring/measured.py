"""MeasuredCost: each distinct unit is built and run on its target once, and the time is kept."""

from __future__ import annotations

import hashlib
import math
import os
import platform
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import tvm
import tvm_ffi
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from tvm import relax

from annotated_region.arguments import require_kind
from annotated_region.cost_units import CostUnit
from annotated_region.costs.model import HOST
from annotated_region.dataflow.graph import DataflowGraph
from annotated_region.errors import (
    AnnotatedRegionError,
    MeasurementWarning,
    ModelError,
    RegionRejectedError,
    UsageError,
)
from annotated_region.functions.external import computing_nodes, external_function
from annotated_region.measuring import timing
from annotated_region.measuring.store import CostStore, default_path
from annotated_region.measuring.timing import Time, Timed, time_copy, time_together
from annotated_region.regions.node_region import NodeRegion, largest_composites
from annotated_region.targets.backend import backend_of
from annotated_region.targets.engine_version import library_version
from annotated_region.targets.extents import size_of
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import expect

__all__ = ["MeasuredCost"]

_BATCH = 48
# Whole regions decide between placements, so they are timed in more rounds than single units.
_CARE = 3
_COPY_SIZES = (1 << 14, 1 << 22)
# What stays of a unit's time at least, however much of it entering and leaving its region seems to cost.
_LEAST_SHARE = 0.05
_REFUSED = Time(math.inf, 0.0)


class MeasuredCost:
    """Costs as measured on this machine.

    A unit's time is the least of interleaved runs of a module that holds nothing else, less what
    entering a region costs and less the crossings of its own values: those are charged by the
    objective wherever they really happen. Times are kept in an SQLite file under the structural hash
    of the unit, the content of its constants, the target, the versions of TVM and of the target's
    library, the processor and the number of threads. An interrupted measurement resumes where it was;
    several processes may share the file. To drop the times, remove it.

    What is not kept: times that stay unsteady in repeated rounds, as on a busy machine, and failures. A unit
    that its target refuses costs infinity for as long as this object lives, and so does one that the
    compiler refuses.

    Parameters
    ----------
    path
        The file; by default one in the user's own cache folder.
    rounds
        How many interleaved rounds of runs the least is taken of.
    progress
        Whether to show a progress bar with the remaining time while measuring, on a terminal's stderr.

    Raises
    ------
    ModelError
        The file is no cost database, or cannot be opened.
    UsageError
        There is no round.

    Warns
    -----
    MeasurementWarning
        Some times are unsteady, a unit could not be compiled, or the file cannot be written.

    Notes
    -----
    Where the compiler works for no unit of a target at all, the questions raise its `BuildError`.
    """

    def __init__(self, path: str | Path | None = None, rounds: int = 5, progress: bool = True) -> None:
        require_kind(rounds, int, "the argument rounds", "how many rounds to time, 1 or more")
        if rounds < 1:
            raise UsageError(f"the argument rounds is {rounds}; times need 1 round or more")
        self.store = CostStore(Path(path) if path is not None else default_path())
        self.rounds = rounds
        self.progress = progress
        self._known: dict[str, float] = {}
        # The least time of a unit, by target: entering a region of it takes no more.
        self._least: dict[str, float] = {}

    # -- the three questions ----------------------------------------------------------------------

    def launch(self, target: str) -> float:
        """See `CostModel`: the time of a region with one op on one number.

        Of a target that does not take that op, or only composites, the least time of the units that were
        measured, which is not kept.
        """
        if target == HOST:
            return 0.0
        smallest = Timed(target, _smallest())
        key = f"launch {_surroundings(target)}"
        try:
            return self._remembered(key, target, lambda: time_together([smallest], self.rounds)[0])
        except AnnotatedRegionError as error:
            # Where every unit is refused nothing will be launched.
            if target not in self._least and not isinstance(error, RegionRejectedError):
                raise
            self._known[key] = self._least.get(target, 0.0)
            return self._known[key]

    def compute(self, target: str, unit: CostUnit) -> float:
        """See `CostModel`; infinite if the target refuses to build the unit."""
        timed = _timed(target, unit)
        if timed is None:
            return 0.0
        self._measure([timed], self.rounds)
        seconds = self._known[_key(timed)]
        if target == HOST or math.isinf(seconds):
            return seconds
        entering = sum(self.transfer(size_of(param.ty), HOST, target) for param in timed.func.params)
        leaving = self.transfer(size_of(timed.func.ret_ty), target, HOST)
        return max(seconds - self.launch(target) - entering - leaving, _LEAST_SHARE * seconds)

    def transfer(self, size: int, source: str, destination: str) -> float:
        """See `CostModel`: targets on this processor share its memory, so a crossing is one copy."""
        if source == destination == HOST:
            return 0.0
        small, large = (
            self._remembered(f"copy {count} {_surroundings(HOST)}", HOST, partial(time_copy, count))
            for count in _COPY_SIZES
        )
        per_byte = max(large - small, 0.0) / (_COPY_SIZES[1] - _COPY_SIZES[0])
        return max(small - per_byte * _COPY_SIZES[0], 0.0) + per_byte * size

    def time_regions(self, graph: DataflowGraph, members: Sequence[NodeRegion]) -> list[float]:
        """See `ConfirmingCostModel`: the regions are built and timed as wholes, all in the same rounds."""
        regions = [_region(graph, member) for member in members]
        self._measure([region for region in regions if region is not None], _CARE * self.rounds)
        return [0.0 if region is None else self._known[_key(region)] for region in regions]

    # -- measuring --------------------------------------------------------------------------------

    def prepare(self, questions: Sequence[tuple[str, CostUnit]]) -> None:
        """Measure all units that are not known yet, in batches, with a progress bar."""
        units = [_timed(target, unit) for target, unit in questions]
        self._measure([unit for unit in units if unit is not None], self.rounds)

    def _measure(self, units: Sequence[Timed], rounds: int) -> None:
        """Measure those of some units that are not known yet."""
        distinct = {_key(unit): unit for unit in units}
        missing = [(key, unit) for key, unit in distinct.items() if self._look_up(key) is None]
        with self._progress(len(missing)) as advance:
            for batch in (missing[first : first + _BATCH] for first in range(0, len(missing), _BATCH)):
                times = self._times([unit for _key, unit in batch], rounds)
                self._keep({key: (time, unit.target) for (key, unit), time in zip(batch, times, strict=True)})
                advance(len(batch))
        for key, unit in distinct.items():
            if math.isfinite(self._known[key]):
                self._least[unit.target] = min(self._least.get(unit.target, math.inf), self._known[key])

    def _times(self, units: Sequence[Timed], rounds: int) -> list[Time]:
        """The time of each unit; infinite where its target or the compiler refuses it."""
        try:
            return list(time_together(units, rounds))
        except AnnotatedRegionError as error:
            if len(units) == 1:
                self._tell_refusal(units[0], error)
                return [_REFUSED]
        # One unit that its target refuses spoils the batch: find out which.
        return [time for unit in units for time in self._times([unit], rounds)]

    def _tell_refusal(self, unit: Timed, error: AnnotatedRegionError) -> None:
        """Tell what failed besides a target's own refusal; if nothing of the target works, raise that.

        Raises
        ------
        AnnotatedRegionError
            Not even the smallest unit of the target can be built and run.
        """
        if isinstance(error, RegionRejectedError) or unit.target == HOST:
            return
        time_together([Timed(unit.target, _smallest())], 1)
        _tell(
            f"a unit of target {unit.target!r} could not be measured, and counts as refused for now: {error}"
        )

    def _remembered(self, key: str, target: str, measure: Callable[[], Time]) -> float:
        known = self._look_up(key)
        if known is None:
            self._keep({key: (measure(), target)})
            known = self._known[key]
        return known

    def _look_up(self, key: str) -> float | None:
        if key not in self._known:
            stored = self.store.get(key)
            if stored is None:
                return None
            self._known[key] = stored.seconds
        return self._known[key]

    def _keep(self, measured: Mapping[str, tuple[Time, str]]) -> None:
        """Know some times, and keep those that are worth it."""
        self._known |= {key: time.seconds for key, (time, _target) in measured.items()}
        finite = {key: each for key, each in measured.items() if each[0] is not _REFUSED}
        steady = {key: each for key, each in finite.items() if each[0].is_steady}
        if len(steady) < len(finite):
            _tell(
                f"times of {len(finite) - len(steady)} of {len(finite)} units differ by more than "
                f"{timing.WIDEST_SPREAD:.0%} from run to run; they are used now and not kept. Measure "
                "again when the machine has less to do"
            )
        try:
            self.store.put(steady)
        except ModelError as error:
            _tell(f"times of {len(steady)} units are used now and not kept: {error}")

    @contextmanager
    def _progress(self, total: int) -> Iterator[Callable[[int], None]]:
        """A progress bar over `total` units; none without work, or without a terminal."""
        console = Console(stderr=True)
        if not total or not self.progress or not console.is_terminal:
            yield lambda _done: None
            return
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task("measuring units", total=total)
            yield lambda done: bar.advance(task, done)


def _tell(message: str) -> None:
    warnings.warn(message, MeasurementWarning, stacklevel=2)


def _timed(target: str, unit: CostUnit) -> Timed | None:
    """The function that computes just this unit; None if it computes nothing."""
    attributes = {} if target == HOST else {"Codegen": target}
    func = unit.function(attributes, target == HOST or backend_of(target).bind_constants)
    return None if func is None else Timed(target, func)


def _region(graph: DataflowGraph, member: NodeRegion) -> Timed | None:
    """The external function of a region; None if it computes nothing."""
    composites = [(unit.name, unit.nodes) for unit in largest_composites(member)]
    nodes = computing_nodes(graph, member.nodes)
    bound = backend_of(member.target).bind_constants
    external = external_function(graph, nodes, composites, {"Codegen": member.target}, bound)
    return None if external is None else Timed(member.target, external.func)


def _key(timed: Timed) -> str:
    """What identifies a measurement; nothing in it depends on addresses or names."""
    digest = hashlib.sha256()
    structure = int(tvm_ffi.structural_hash(timed.func, skip_tensor_content=True))
    digest.update(structure.to_bytes(8, "little", signed=structure < 0))

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, Constant) and isinstance(expr.value, tvm.runtime.Tensor):
            digest.update(np.ascontiguousarray(expr.value.numpy()).view(np.uint8).data)

    relax.analysis.post_order_visit(timed.func, visit)
    return f"unit {digest.hexdigest()} {_surroundings(timed.target)}"


def _surroundings(target: str) -> str:
    """Target, versions, processor and threads: what a time depends on besides the unit."""
    threads = os.environ.get("TVM_NUM_THREADS", str(os.cpu_count()))
    return f"{target} {_library_version(target)} tvm-{tvm.__version__} {_processor()} {threads}"


def _library_version(target: str) -> str:
    return "-" if target == HOST else library_version(target)


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip().replace(" ", "_")
    return platform.processor() or platform.machine()


def _smallest() -> relax.Function:
    """A region with next to nothing to do."""
    x = relax.Var("x", relax.TensorType((1, 1), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("smallest", [x]):
        with builder.dataflow():
            out = builder.emit_output(builder.emit(relax.op.nn.relu(x)))
        builder.emit_func_output(out)
    return expect(relax.Function, builder.get()["smallest"])
