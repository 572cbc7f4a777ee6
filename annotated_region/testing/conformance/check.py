"""The check of a backend: whether it computes everything that its rules and patterns claim.

The graphs consist of the ops that the backend's rules and patterns name, of instances of the patterns,
and of one unclaimed op, so that there are region boundaries. Their values are float32 and every other
type that the rules claim. Hypothesis generates them, and they are built in batches; a failing graph is
reduced to the fewest ops that still fail. Rules and patterns that did not run in random graphs get additional
graphs that contain them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tvm
from hypothesis import strategies as st

import annotated_region as ar
from annotated_region.checked import checked
from annotated_region.errors import BackendUnavailableError, ConformanceError
from annotated_region.targets.backend import backend_of, unavailability
from annotated_region.testing.conformance.coverage import Conformance, Covered
from annotated_region.testing.conformance.graphs import Maker, graphs_of, made
from annotated_region.testing.conformance.registered import Entry, claimed_ops, entries_of, makers_for
from annotated_region.testing.conformance.reproducer import write_reproducer
from annotated_region.testing.conformance.sources import line_of_error
from annotated_region.testing.conformance.trial import (
    BATCH,
    Counts,
    GraphError,
    Graphs,
    Trial,
    batches,
    composites_in,
    together,
)
from annotated_region.testing.recipes import DTYPES, RECIPES, Recipe

__all__ = ["backend_graphs", "check_backend", "conformance_test"]

_PROBES = 8  # graphs per type, to find the types that the rules claim
_ROUNDS = 6  # batches of additional graphs for rules and patterns that did not run
_ENOUGH = 3  # runs of an op or composite, because the numbers of a single run may hide an error
_SHARE = 4  # graphs per such batch


@checked
def check_backend(
    target: str,
    *,
    examples: int = 40,
    max_ops: int = 6,
    start: int = 0,
    rtol: float = 1e-4,
    atol: float = 1e-4,
    recipes: Mapping[str, Recipe] | None = None,
    dtypes: Sequence[str] | None = None,
    exempt: Collection[str] = (),
    save: Path | str | None = None,
) -> Conformance:
    """Run generated graphs on a backend and on TVM, and compare.

    Parameters
    ----------
    target
        The name of the backend.
    examples
        The number of graphs. Rules and patterns that ran in fewer than three get up to 24 more graphs.
    max_ops
        The maximum number of ops, or composites, per graph.
    start
        The seed of the graphs.
    rtol, atol
        The tolerance of `numpy.allclose`. Inputs are of order one. Both are at least 0.03 for
        graphs that contain float16; integers and booleans must be equal.
    recipes
        Recipes for additional ops, or replacements for those of the kit; see
        `annotated_region.testing.recipes`.
    dtypes
        The types of values to try; by default float32, and all types that the rules claim. Half of
        the graphs have the first type.
    exempt
        Ops and composites that need not run: the kit fails if any other registered one never ran.
    save
        A folder for a failing graph, saved with its inputs as a program that reproduces the difference.

    Returns
    -------
    The coverage.

    Raises
    ------
    ConformanceError
        A graph fails to build or to run, or its result differs. The message holds the smallest such
        graph that was found, as TVMScript, its seed, and the source lines of the rules and
        patterns that claim it. Or a rule or a pattern never ran.
    BackendUnavailableError
        The backend cannot run on this machine.
    """
    reason = unavailability(backend_of(target))
    if reason is not None:
        raise BackendUnavailableError(f"{target} cannot be checked on this machine: {reason}")
    known = {**RECIPES, **(recipes or {})}
    tried = tuple(dtypes) if dtypes is not None else types_claimed(target, known, start)
    trial = Trial(target, rtol, atol)
    for dtype, mods in _drawn(target, known, tried, examples, max_ops, start):
        failure = trial.first_failure(mods, dtype)
        if failure is not None:
            raise _error(target, trial.smallest(failure), start, save)
    drawn = trial.counts.graphs
    missed = [entry for entry in entries_of(target) if trial.counts.ran(entry.name) < _ENOUGH]
    wanted = [entry for entry in missed if entry.name not in exempt]
    for dtype, mods in _drawn_for(wanted, target, known, tried, max_ops, start, trial.counts):
        failure = trial.first_failure(mods, dtype)
        if failure is not None:
            raise _error(target, trial.smallest(failure), start, save)
    idle = [entry for entry in wanted if not trial.counts.ran(entry.name)]
    if idle:
        raise ConformanceError(_words_for_idle(target, idle, trial.counts, known))
    return _coverage(target, trial.counts, known, drawn)


@checked
def conformance_test(target: str, **options: Any) -> Callable[[], None]:
    """A test for pytest, in one line.

        test_my_backend = conformance_test("my_backend")

    The options are those of `check_backend`. The fixture `check_backend` of the installed pytest plugin does
    the same without an import.
    """

    def test() -> None:
        print(check_backend(target, **options))

    return test


@checked
def backend_graphs(
    target: str, max_ops: int = 6, recipes: Mapping[str, Recipe] | None = None, dtype: str = "float32"
) -> st.SearchStrategy[tvm.IRModule]:
    """The strategy of the kit: modules of ops and patterns that a backend claims."""
    return graphs_of(makers_for(target, {**RECIPES, **(recipes or {})}, dtype), max_ops, dtype)


# -- graphs ----------------------------------------------------------------------------------------


def _drawn(
    target: str, known: Mapping[str, Recipe], dtypes: Sequence[str], examples: int, max_ops: int, start: int
) -> Iterator[tuple[str, Graphs]]:
    """Batches of graphs of everything that the target claims, with their type."""
    for dtype, count in _shares(dtypes, examples):
        graphs = made(graphs_of(makers_for(target, known, dtype), max_ops, dtype), count, start)
        yield from ((dtype, batch) for batch in batches(graphs, BATCH))


def _drawn_for(
    entries: Sequence[Entry],
    target: str,
    known: Mapping[str, Recipe],
    dtypes: Sequence[str],
    max_ops: int,
    start: int,
    counts: Counts,
) -> Iterator[tuple[str, Graphs]]:
    """Graphs that contain the entries that have not run often enough, updated in each round."""
    makers = {dtype: makers_for(target, known, dtype) for dtype in dtypes}
    for step in range(_ROUNDS):
        graphs: dict[str, list[tvm.IRModule]] = {dtype: [] for dtype in dtypes}
        for entry in (entry for entry in entries if counts.ran(entry.name) < _ENOUGH):
            dtype, maker = _tried_next(entry, known, dtypes, step)
            if maker is not None:
                strategy = graphs_of(makers[dtype], min(max_ops, 3), dtype, holding=maker)
                graphs[dtype] += made(strategy, _SHARE, start + step)
        for dtype, of_type in graphs.items():
            yield from ((dtype, batch) for batch in batches(of_type, BATCH))


def _tried_next(
    entry: Entry, known: Mapping[str, Recipe], dtypes: Sequence[str], step: int
) -> tuple[str, Maker | None]:
    """The type of the graphs of one round, and the maker of `entry` for it, if there is one.

    Half of the rounds use the first supported type; the others cycle through the remaining types.
    """
    makers = {dtype: maker for dtype in dtypes if (maker := entry.maker(known, dtype)) is not None}
    if not makers:
        return dtypes[0], None
    first, *others = makers
    turn = step - _ROUNDS // 2
    dtype = others[turn % len(others)] if others and turn >= 0 else first
    return dtype, makers[dtype]


def types_claimed(target: str, known: Mapping[str, Recipe], start: int) -> tuple[str, ...]:
    """The first type, and the other types of which the target claims anything in sample graphs."""
    strategies = {dtype: graphs_of(makers_for(target, known, dtype), BATCH, dtype) for dtype in DTYPES[1:]}
    probes = {dtype: made(graphs, _PROBES, start) for dtype, graphs in strategies.items()}
    return (DTYPES[0], *(dtype for dtype, mods in probes.items() if _claims_any(target, mods)))


def _claims_any(target: str, mods: Graphs) -> bool:
    report = ar.explain(together(mods), [target], prepare=False)
    return any(op.claims for function in report.functions for op in function.ops)


def _shares(dtypes: Sequence[str], examples: int) -> Iterator[tuple[str, int]]:
    """The number of graphs of each type: half for the first one, unless it is the only one."""
    others = dtypes[1:][: examples // 2]
    share = examples // 2 // len(others) if others else 0
    yield dtypes[0], examples - share * len(others)
    yield from ((dtype, share) for dtype in others)


# -- answers ---------------------------------------------------------------------------------------


def _error(target: str, failure: GraphError, start: int, save: Path | str | None) -> ConformanceError:
    lines = [f"{target} fails on this graph: {failure}", "", failure.mod.script(), *_authors(target, failure)]
    lines.append(f"Drawn with start={start}.")
    if save is not None:
        lines.append(f"To see it again: python {write_reproducer(Path(save), target, failure.mod)}")
    error = ConformanceError("\n".join(lines), failure.mod)
    error.__cause__ = failure.__cause__
    return error


def _authors(target: str, failure: GraphError) -> list[str]:
    """The lines of the rules and patterns that claim the graph, and of the error that was raised."""
    mod = failure.mod
    raised = line_of_error(failure.__cause__) if failure.__cause__ else ""
    try:
        report = ar.explain(mod, [target], prepare=False)
        composites = composites_in(ar.partition(mod, [target], prepare=False), "main")
    except ar.AnnotatedRegionError:  # this is the failure itself, which the caller reports
        return [f"Raised at {raised}"] if raised else []
    placed = {op.op for function in report.functions for op in function.ops if op.placed == target}
    ran = [
        entry
        for entry in entries_of(target)
        if (entry.pattern.name in composites if entry.pattern else entry.name in placed)
    ]
    lines = [f"Claimed by {entry.what}, {entry.line}" for entry in ran if entry.line]
    return [*lines, *([f"Raised at {raised}"] if raised else [])]


def _words_for_idle(target: str, idle: Sequence[Entry], counts: Counts, known: Mapping[str, Recipe]) -> str:
    lines = [f"{target}: entries that never ran in {counts.graphs} graphs, which agree with TVM:"]
    for entry in idle:
        at = f", {entry.line}" if entry.line else ""
        lines.append(f"  {entry.what}{at}: {_why_idle(entry, counts, known)}")
    lines.append("Pass a recipe for ops that the kit cannot generate, or name exempt ones in `exempt`.")
    return "\n".join(lines)


def _why_idle(entry: Entry, counts: Counts, known: Mapping[str, Recipe]) -> str:
    unknown = entry.why_untried(known)
    if unknown:
        return f"not tried, {unknown}"
    tried = sum(count for (name, _dtype), count in counts.tried.items() if name == entry.name)
    claimed = sum(count for (name, _dtype), count in counts.claimed.items() if name == entry.name)
    reasons = "; ".join(counts.declined.get(entry.name, ()))
    if not tried:
        return "no graph that was made holds it"
    if claimed:
        return f"claimed {claimed} times of {tried}, always as a part of something else"
    return f"declined {tried} times of {tried}{': ' + reasons if reasons else ''}"


def _coverage(target: str, counts: Counts, known: Mapping[str, Recipe], drawn: int) -> Conformance:
    ops = claimed_ops(target)
    names = {*ops, *(entry.name for entry in entries_of(target) if entry.pattern)}
    table = [
        Covered(*key, counts.tried[key], counts.claimed[key], counts.compared[key])
        for key in sorted(counts.tried)
        if key[0] in names
    ]
    by_op = [row for row in table if row.name in ops]
    placed = {name: sum(row.compared for row in by_op if row.name == name) for name in sorted(ops)}
    by_type = {dtype: sum(row.compared for row in by_op if row.dtype == dtype) for dtype in DTYPES}
    tried = {row.name for row in by_op}
    return Conformance(
        target,
        drawn,
        {name: count for name, count in placed.items() if count},
        {dtype: count for dtype, count in by_type.items() if count},
        tuple(name for name in ops if name not in known),
        tuple(name for name in ops if name in tried and not placed[name]),
        {name: tuple(counts.declined[name]) for name in ops if name in counts.declined},
        counts.skipped,
        dict(sorted(counts.composites.items())),
        tuple(table),
        counts.graphs - drawn,
    )
