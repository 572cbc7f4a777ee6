"""check: compares each region on its target with the host, on the host's values; then the whole program.

The program runs once on the host, with its regions as host functions. After each call of such a function, the
region runs on its target with the same arguments, and both results are compared immediately: only the values
of one region are held at a time, and errors do not propagate to other regions.

    host:     x -> [ region 0 ] -> a -> softmax -> b -> [ region 1 ] -> y
                   |          |                         |          |
    target:        x -> . -> a'  compared with a        b -> . -> y'  compared with y
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import numpy as np
import tvm
from tvm import relax

from annotated_region.checked import checked
from annotated_region.checking.bisection import culprit_of
from annotated_region.checking.check_report import CheckReport
from annotated_region.checking.comparison import ResultCheck, compared
from annotated_region.checking.failure import Failure
from annotated_region.checking.judged_report import judged_report
from annotated_region.checking.pieces import first_wrong_piece, has_pieces
from annotated_region.checking.program import ENTRY, MAIN, CheckedProgram, PlacedFunction
from annotated_region.checking.reference import built_reference, require_reference, require_runs_here
from annotated_region.checking.region_check import Culprit, RegionCheck
from annotated_region.checking.region_values import RegionValues
from annotated_region.checking.running import FAILURES, Value, arrays_of
from annotated_region.checking.tolerance import Tolerance, tolerance_for
from annotated_region.compilation.executable import machine_of, targets_of
from annotated_region.costs.model import HOST
from annotated_region.errors import AnnotatedRegionError, RunError
from annotated_region.inputs import Arguments, arguments_for
from annotated_region.passes.build import build
from annotated_region.passes.pipeline import placed_module
from annotated_region.policies.policy import Policy
from annotated_region.printable import first_line
from annotated_region.reports.reporting import report_of

__all__ = ["check"]

Options = Mapping[str, Mapping[str, object]]


@checked
def check(
    mod: tvm.IRModule,
    targets: str | Sequence[str],
    policy: Policy | None = None,
    inputs: Mapping[str, np.ndarray] | Sequence[np.ndarray] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    reference: str = HOST,
    *,
    prepare: bool = True,
    pins: Mapping[str, str] | None = None,
    bans: Mapping[str, str | Sequence[str]] | None = None,
    min_work: Mapping[str, float] | None = None,
    options: Options | None = None,
    extents: Mapping[str, int] | None = None,
    bisect: bool = True,
) -> CheckReport:
    """Run each region of a module on its target and on the host, and compare the results.

    The module is partitioned and built as by `partition` and `build`. Each region gets the values that the
    host computes, so that errors neither accumulate nor mask each other; then the whole program runs on its
    targets, to detect accumulated errors. The host runs the prepared module: preparation itself is not
    checked.

    Parameters
    ----------
    mod, targets, policy, prepare, pins, bans, min_work
        As for `partition`.
    inputs
        The inputs of ``main``, by parameter name or in parameter order. By default, seeded random values are
        made that suit the use of each parameter; the report lists them.
    rtol, atol
        The tolerance, as in numpy's `allclose`; the default depends on the types and the number of ops
        of each region (see `annotated_region.checking.tolerance`).
    reference
        What computes the reference results, and the values that each region gets: ``"host"``, which is TVM,
        or another target, such as ``"onnxruntime"``, with TVM for the ops that it does not claim.
    options
        By target, the options of its code generator, as for `build`.
    extents
        By name, the values of symbolic extents that `inputs` do not determine.
    bisect
        Whether to search for a minimal failing set of ops in each failing region.

    Returns
    -------
    A report on every region, on the whole program, and on the faulty ops.

    Raises
    ------
    InputError
        The inputs do not match the parameters, or cannot be made; or the reference is one of the targets.
    InvalidModuleError
        The module is not well formed, or has no function called main.
    BackendUnavailableError
        A target, or the reference, cannot run on this machine.
    BuildError
        The host cannot build the module; the message names the op.
    RunError
        The program fails on the host, or as a whole on its targets.

    Examples
    --------
    >>> report = ar.check(mod, ["dnnl"])            # doctest: +SKIP
    >>> report.ok, report.culprit                   # doctest: +SKIP
    """
    names = [targets] if isinstance(targets, str) else list(targets)
    for target in names:
        require_runs_here(target)
    require_reference(reference, names)
    placed, session = placed_module(
        mod, names, policy, prepare=prepare, pins=pins, bans=bans, min_work=min_work, keeps_notes=True
    )
    placement = report_of(session.take(placed).values(), session.notes, names)
    program = CheckedProgram.of(mod, placed, session)
    arguments = arguments_for(program.main, inputs, extents)
    with ExitStack() as builds:
        checker = _Checker(program, options or {}, rtol, atol, reference, builds)
        whole = checker.run(arguments)
    culprits, notes = checker.culprits() if bisect else ((), tuple(checker.notes))
    regions = checker.regions()
    return CheckReport(
        regions,
        whole,
        culprits,
        arguments.made,
        arguments.extents,
        notes,
        checker.failures,
        reference,
        judged_report(regions, culprits, placement),
    )


class _Checker:
    """Runs a program on the host, and each region of it on its target.

    Attributes
    ----------
    failures
        By symbol, the first failing call of each failing region; after bisection, of its smallest part.
    notes
        What was not checked, and why.
    """

    def __init__(
        self,
        program: CheckedProgram,
        options: Options,
        rtol: float | None,
        atol: float | None,
        reference: str,
        builds: ExitStack,
    ) -> None:
        self.program = program
        self.options = options
        self.asked = (rtol, atol)
        self.reference = reference
        self.failures: dict[str, Failure] = {}
        self._calls = dict.fromkeys(program.regions, 0)
        self._results: dict[str, tuple[ResultCheck, ...]] = {}
        self.notes: list[str] = []
        self._quantized: dict[str, RegionValues] = {}
        self._raised: BaseException | None = None
        # The host is built first, because its error names the op that cannot be built.
        self._host = built_reference(program.on_host(), reference)
        executable = build(program.on_targets(), options=options)
        self._targets = builds.enter_context(machine_of(executable))

    def tolerance(self, function: PlacedFunction) -> Tolerance:
        """The tolerance for the results of a region."""
        return tolerance_for(function.host_function, function.target, self.options, *self.asked)

    def run(self, arguments: Arguments) -> tuple[ResultCheck, ...]:
        """Check every region, then the whole program; returns the results of the latter."""
        host = relax.VirtualMachine(self._host, tvm.cpu())
        host.set_instrument(self._after_call)
        wanted = self._answers(host, arguments, f"on the reference {self.reference!r}")
        if self._raised is not None:
            raise self._raised
        del host
        self._check_pieces()
        if any(failure.error for failure in self.failures.values()):
            return ()  # the whole program would raise the same error
        found = self._answers(self._targets, arguments, "on its targets")
        tolerance = self._program_tolerance()
        names = [f"result {number}" for number in range(len(wanted))]
        return tuple(
            compared(name, one, other, tolerance)
            for name, one, other in zip(names, found, wanted, strict=True)
        )

    def _answers(self, machine: relax.VirtualMachine, arguments: Arguments, where: str) -> list[np.ndarray]:
        try:
            return arrays_of(machine[MAIN](*arguments.tensors()))
        except FAILURES as error:
            if self._raised is not None:
                raise self._raised from error
            raise RunError(f"the program fails {where}: {first_line(error)}") from error

    def _program_tolerance(self) -> Tolerance:
        """The widest tolerance of any region, because its error propagates to all that follow."""
        each = [self.tolerance(function) for function in self.program.regions.values()]
        plain = tolerance_for(
            self.program.main, next(iter(targets_of(self.program.partitioned)), HOST), {}, *self.asked
        )
        return max([*each, plain], key=lambda tolerance: (tolerance.of_largest, tolerance.rtol))

    def _after_call(
        self, _function: object, name: str, is_before: bool, answer: object, *arguments: Value
    ) -> None:
        """Called by TVM around every call of the program on the host."""
        if is_before or name not in self.program.regions or self._raised is not None:
            return
        try:
            self._compare(self.program.regions[name], arguments, arrays_of(answer))
        except BaseException as error:  # raised again after the run; TVM would keep only its text
            self._raised = error
            raise

    def _compare(
        self, function: PlacedFunction, arguments: Sequence[Value], wanted: list[np.ndarray]
    ) -> None:
        symbol = function.symbol
        self._calls[symbol] += 1
        error, found = "", []
        try:
            found = arrays_of(self._targets[ENTRY.format(symbol)](*arguments))
        except FAILURES as failure:
            error = first_line(failure)
        tolerance = self.tolerance(function)
        names = [leaf.name for leaf in function.external.results]
        results = tuple(
            compared(name, one, other, tolerance)
            for name, one, other in zip(names, found, wanted, strict=False)
        )
        self._results[symbol] = _worse(self._results.get(symbol, ()), results)
        if self._calls[symbol] == 1 and not error and self.asked == (None, None) and has_pieces(function):
            self._quantized[symbol] = RegionValues.of_call(function, arguments)
        if symbol in self.failures or not (error or any(not result.ok for result in results)):
            return
        self.failures[symbol] = Failure(
            function,
            function.nodes,
            RegionValues.of_call(function, arguments),
            dict(zip(names, wanted, strict=True)),
            dict(zip(names, found, strict=False)),
            tolerance,
            self.options,
            error,
            self.reference,
        )

    def _check_pieces(self) -> None:
        """Check quantized regions piece by piece, because their results reveal little about inner errors."""
        for symbol, values in self._quantized.items():
            try:
                wrong = first_wrong_piece(self.program.regions[symbol], values, self.options, self.reference)
            except AnnotatedRegionError as error:
                self.notes.append(f"{symbol} was checked only as a whole, not in pieces: {first_line(error)}")
                continue
            if wrong is not None:
                self.failures[symbol] = wrong.failure
                self._results[symbol] = (*self._results[symbol], *wrong.results)

    def regions(self) -> tuple[RegionCheck, ...]:
        """The result of the check for each region."""
        return tuple(
            RegionCheck(
                symbol,
                function.target,
                function.ops(),
                self._calls[symbol],
                self._results.get(symbol, ()),
                self.failures[symbol].error if symbol in self.failures else "",
            )
            for symbol, function in self.program.regions.items()
        )

    def culprits(self) -> tuple[tuple[Culprit, ...], tuple[str, ...]]:
        """The minimal failing sets, and notes on regions without one."""
        found: list[Culprit] = []
        notes = list(self.notes)
        for symbol, failure in list(self.failures.items()):
            bisected = culprit_of(failure)
            if bisected is None:
                notes.append(f"{symbol} fails in the program but not in isolation, so it cannot be bisected")
                continue
            self.failures[symbol] = bisected.failure
            ops = failure.function.ops(bisected.failure.nodes)
            found.append(Culprit(symbol, failure.function.target, ops, bisected.builds))
        return tuple(found), tuple(notes)


def _worse(known: tuple[ResultCheck, ...], new: tuple[ResultCheck, ...]) -> tuple[ResultCheck, ...]:
    """The worse of two calls: the one that fails, or has the larger error."""

    def badness(results: tuple[ResultCheck, ...]) -> tuple[bool, float]:
        return any(not each.ok for each in results), max((each.relative for each in results), default=0.0)

    return new if not known or badness(new) > badness(known) else known
