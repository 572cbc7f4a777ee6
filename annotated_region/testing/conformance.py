"""check_backend: does a backend compute what its rules claim? Generated graphs, run on it and on TVM.

The graphs are built from the ops that the backend's rules and patterns name, and from one op that it does not
claim, so that regions have borders. Their values are float32 and every other type of which the rules claim
anything. Hypothesis makes them. They are built many at a time; of one that fails, the fewest ops that fail
without the others are shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import tvm
from hypothesis import strategies as st
from tvm import relax
from tvm.relax.dpl import DFPattern

import annotated_region as ar
from annotated_region.errors import BackendUnavailableError, ConformanceError
from annotated_region.targets.backend import backend_of, unavailability
from annotated_region.targets.rules import patterns_of, rules_of
from annotated_region.testing.conformance_graphs import (
    declared_types,
    graphs_of,
    inputs_of,
    made,
    parts_of,
    size_of,
    smaller_of,
    types_of,
)
from annotated_region.testing.recipes import DTYPES, RECIPES, Recipe

__all__ = ["Conformance", "backend_graphs", "check_backend", "conformance_test"]

_BATCH = 10  # graphs that are built together
_PROBES = 8  # graphs that show whether the rules claim anything of a type
_TOLERANCE = {"float16": 3e-2}  # at least; whole numbers and truth values have to be equal

Graphs = Sequence[tvm.IRModule]
Answer = list[np.ndarray]


@dataclass(frozen=True, slots=True)
class Conformance:
    """What a check has covered.

    Attributes
    ----------
    target
        The backend.
    graphs
        How many graphs were run and compared.
    placed
        How often each op ran on the backend.
    dtypes
        How many ops ran on the backend in graphs of each type.
    untried
        Ops that its rules or patterns name, and that no recipe is known for; hand one in as ``recipes=``.
    never_placed
        Ops that were tried, and that the backend declined every time.
    declined
        For each op, the reasons for which it was declined: the other side of the edge.
    skipped
        How many graphs TVM could not run, or not in the types that they declare (its batch norm of float16
        gives float32), so that there was nothing to compare with.
    """

    target: str
    graphs: int
    placed: Mapping[str, int]
    dtypes: Mapping[str, int]
    untried: tuple[str, ...]
    never_placed: tuple[str, ...]
    declined: Mapping[str, tuple[str, ...]]
    skipped: int = 0

    def __str__(self) -> str:
        placed = ", ".join(f"{_short(name)} x{count}" for name, count in self.placed.items())
        lines = [f"{self.target}: {self.graphs} graphs agree with TVM; placed: {placed or 'nothing'}"]
        if set(self.dtypes) - {DTYPES[0]}:
            lines.append(f"ops by type: {', '.join(f'{dtype} x{n}' for dtype, n in self.dtypes.items())}")
        for what, names in (("no recipe", self.untried), ("declined every time", self.never_placed)):
            lines += [f"{what}: {', '.join(map(_short, names))}"] if names else []
        lines += [f"graphs that TVM cannot run: {self.skipped}"] if self.skipped else []
        return "\n".join(lines)


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
) -> Conformance:
    """Run generated graphs on a backend and on TVM, and compare.

    Parameters
    ----------
    target
        The name of the backend.
    examples
        How many graphs to run.
    max_ops
        How many ops a graph has at most.
    start
        Another number gives other graphs; the same number gives the same ones.
    rtol, atol
        The tolerance, as `numpy.allclose` means it. Inputs are of order one. Both are 0.03 at least for
        graphs with float16 in them; whole numbers and truth values have to be equal.
    recipes
        How to try ops that the kit does not know, or to try them otherwise; see
        `annotated_region.testing.recipes`.
    dtypes
        The types of values to try; by default float32, and those of which the rules claim anything. Half of
        the graphs are of the first type.

    Returns
    -------
    What was covered.

    Raises
    ------
    ConformanceError
        A graph fails to build or to run, or computes something else. The message holds the smallest such
        graph that was found, as TVMScript.
    BackendUnavailableError
        The backend cannot run on this machine.
    """
    reason = unavailability(backend_of(target))
    if reason is not None:
        raise BackendUnavailableError(f"{target} cannot be checked on this machine: {reason}")
    known = {**RECIPES, **(recipes or {})}
    claimed = _claimed_ops(target)
    tried = tuple(dtypes) if dtypes is not None else _dtypes(target, claimed, known, start)
    check = _Check(target, rtol, atol)
    for dtype, count in _shares(tried, examples):
        for batch in _batches(made(graphs_of(claimed, known, max_ops, dtype), count, start), _BATCH):
            failure = check.first_failure(batch, dtype)
            if failure is not None:
                raise _error(target, check.smallest(failure))
    return check.coverage(claimed, known)


def conformance_test(target: str, **options: Any) -> Callable[[], None]:
    """A test for pytest, in one line.

        test_my_backend = conformance_test("my_backend")

    Options are those of `check_backend`. Where `annotated_region` is installed, the fixture `check_backend`
    of its pytest plugin does the same without an import.
    """

    def test() -> None:
        print(check_backend(target, **options))

    return test


def backend_graphs(
    target: str, max_ops: int = 6, recipes: Mapping[str, Recipe] | None = None, dtype: str = "float32"
) -> st.SearchStrategy[tvm.IRModule]:
    """The strategy of the kit: modules made of the ops that a backend's rules and patterns name."""
    return graphs_of(_claimed_ops(target), {**RECIPES, **(recipes or {})}, max_ops, dtype)


class _GraphError(Exception):
    """A graph on which the backend fails."""

    def __init__(self, message: str, mod: tvm.IRModule) -> None:
        super().__init__(message)
        self.mod = mod


def _error(target: str, failure: _GraphError) -> ConformanceError:
    error = ConformanceError(
        f"{target} fails on this graph: {failure}\n\n{failure.mod.script()}", failure.mod
    )
    error.__cause__ = failure.__cause__
    return error


def _dtypes(target: str, claimed: Sequence[str], known: Mapping[str, Recipe], start: int) -> tuple[str, ...]:
    """The first type, and those others of which the target claims anything in some graphs."""
    probes = {dtype: made(graphs_of(claimed, known, _BATCH, dtype), _PROBES, start) for dtype in DTYPES[1:]}
    return (DTYPES[0], *(dtype for dtype, mods in probes.items() if _claims_any(target, mods)))


def _claims_any(target: str, mods: Graphs) -> bool:
    report = ar.explain(_together(mods), [target], prepare=False)
    return any(op.claims for function in report.functions for op in function.ops)


def _shares(dtypes: Sequence[str], examples: int) -> Iterator[tuple[str, int]]:
    """How many graphs of each type: half are of the first one, unless there is no other."""
    others = dtypes[1:][: examples // 2]
    share = examples // 2 // len(others) if others else 0
    yield dtypes[0], examples - share * len(others)
    yield from ((dtype, share) for dtype in others)


def _batches(mods: Iterator[tvm.IRModule] | Graphs, size: int) -> Iterator[Graphs]:
    rest = iter(mods)
    while batch := list(islice(rest, size)):
        yield batch


@dataclass(slots=True)
class _Check:
    """Runs graphs on the backend and on TVM, and counts what it sees."""

    target: str
    rtol: float
    atol: float
    graphs: int = 0
    skipped: int = 0
    placed: Counter[str] = field(default_factory=Counter)
    tried: Counter[str] = field(default_factory=Counter)
    dtypes: Counter[str] = field(default_factory=Counter)
    declined: dict[str, dict[str, None]] = field(default_factory=dict)

    def first_failure(self, mods: Graphs, dtype: str = "") -> _GraphError | None:
        """What goes wrong with the first of the graphs that something goes wrong with; `dtype` is counted."""
        right = _answers(mods)
        usable = [(mod, answer) for mod, answer in zip(mods, right, strict=True) if answer is not None]
        self.skipped += len(mods) - len(usable)
        return self._first_failure(usable, dtype) if usable else None

    def _first_failure(self, pairs: Sequence[tuple[tvm.IRModule, Answer]], dtype: str) -> _GraphError | None:
        try:
            self._run(pairs, dtype)
        except _GraphError as failure:
            if len(pairs) == 1 or failure.__cause__ is None:
                return failure
            # An error of the build does not say which graph it is about; one by one, they do.
            alone = (self._first_failure([pair], dtype) for pair in pairs)
            return next((found for found in alone if found is not None), failure)
        return None

    def smallest(self, failure: _GraphError) -> _GraphError:
        """The failure of the fewest ops of the graph that fail without the others, on small values.

        All sets of one op, then of two, and so on: ``2 ** max_ops`` graphs at worst, built in batches.
        """
        failure = self._with_fewest_ops(failure)
        while found := self._first_of(smaller_of(failure.mod)):
            failure = found
        return failure

    def _with_fewest_ops(self, failure: _GraphError) -> _GraphError:
        for size in range(1, size_of(failure.mod)):
            found = self._first_of(parts_of(failure.mod, size))
            if found is not None:
                return found
        return failure

    def _first_of(self, mods: Iterator[tvm.IRModule]) -> _GraphError | None:
        failures = (self.first_failure(batch) for batch in _batches(mods, _BATCH))
        return next((found for found in failures if found is not None), None)

    def _run(self, pairs: Sequence[tuple[tvm.IRModule, Answer]], dtype: str) -> None:
        mods = [mod for mod, _answer in pairs]
        together = _together(mods)
        try:
            report = ar.explain(together, [self.target], prepare=False)
            built = ar.build(ar.partition(together, [self.target], prepare=False))
            results = _results(built, mods)
        except Exception as error:
            raise _GraphError(f"{type(error).__name__}: {str(error).strip()}", mods[0]) from error
        for (mod, right), found in zip(pairs, results, strict=True):
            for number, (result, wanted) in enumerate(zip(found, right, strict=True)):
                self._compare(number, result, wanted, mod)
        self.graphs += len(mods)
        self._count(report, dtype)

    def _count(self, report: ar.Report, dtype: str) -> None:
        for op in (op for function in report.functions for op in function.ops):
            self.tried[op.op] += 1
            if op.placed == self.target:
                self.placed[op.op] += 1
                self.dtypes[dtype] += 1
            for reason in op.declines.values():
                self.declined.setdefault(op.op, {})[reason] = None

    def _compare(self, number: int, result: np.ndarray, right: np.ndarray, mod: tvm.IRModule) -> None:
        for what, found, wanted in (
            ("shape", result.shape, right.shape),
            ("type", str(result.dtype), str(right.dtype)),
        ):
            if found != wanted:
                raise _GraphError(f"result {number} has {what} {found} instead of {wanted}", mod)
        close = self._close(result, right, mod)
        if not close.all():
            at = tuple(int(index) for index in np.argwhere(~close)[0])
            raise _GraphError(
                f"result {number} has {result[at]:.6g} instead of {right[at]:.6g} at {at}; "
                f"{np.count_nonzero(~close)} of {close.size} values differ",
                mod,
            )

    def _close(self, result: np.ndarray, right: np.ndarray, mod: tvm.IRModule) -> np.ndarray:
        if right.dtype.kind != "f":
            return np.asarray(result == right)
        # A result is as coarse as the coarsest type on the way to it.
        least = max(_TOLERANCE.get(dtype, 0.0) for dtype in types_of(mod))
        rtol, atol = max(self.rtol, least), max(self.atol, least)
        return np.asarray(np.isclose(result, right, rtol, atol, equal_nan=True))

    def coverage(self, claimed: Sequence[str], known: Mapping[str, Recipe]) -> Conformance:
        """What was covered."""
        return Conformance(
            self.target,
            self.graphs,
            dict(sorted(self.placed.items())),
            {dtype: self.dtypes[dtype] for dtype in DTYPES if dtype in self.dtypes},
            tuple(name for name in claimed if name not in known),
            tuple(name for name in claimed if name in self.tried and name not in self.placed),
            {name: tuple(self.declined[name]) for name in claimed if name in self.declined},
            self.skipped,
        )


def _together(mods: Graphs) -> tvm.IRModule:
    """One module of all graphs; the functions are called ``graph0``, ``graph1``, and so on."""
    names = map(_name, range(len(mods)))
    return tvm.IRModule(
        {name: mod["main"].with_attr("global_symbol", name) for name, mod in zip(names, mods, strict=True)}
    )


def _name(number: int) -> str:
    return f"graph{number}"


def _answers(mods: Graphs) -> list[Answer | None]:
    """What TVM alone computes; None where it cannot, or gives another type than declared."""
    try:
        answers = _results(tvm.compile(_together(mods), tvm.target.Target("llvm")), mods)
        return [
            answer if _types(answer) == declared_types(mod) else None
            for answer, mod in zip(answers, mods, strict=True)
        ]
    except Exception:  # whatever TVM raises for an op and a type that it has no code for
        return [None] if len(mods) == 1 else [_answers([mod])[0] for mod in mods]


def _results(executable: relax.VMExecutable, mods: Graphs) -> list[Answer]:
    machine = relax.VirtualMachine(executable, tvm.cpu())
    return [_result(machine[_name(number)], mod) for number, mod in enumerate(mods)]


def _result(run: Callable[..., Any], mod: tvm.IRModule) -> Answer:
    answer = run(*map(tvm.runtime.tensor, inputs_of(mod)))
    return [value.numpy() for value in ([answer] if isinstance(answer, tvm.runtime.Tensor) else answer)]


def _types(answer: Answer) -> list[str]:
    return [str(value.dtype) for value in answer]


def _claimed_ops(target: str) -> tuple[str, ...]:
    """The ops that the rules and the patterns of a target name."""
    names = dict.fromkeys(rules_of(target))
    for pattern in patterns_of(target):
        names.update(dict.fromkeys(_ops_in(pattern.pattern)))
    return tuple(names)


def _ops_in(pattern: DFPattern) -> list[str]:
    """The ops that a pattern names, inner ones first."""
    if isinstance(pattern, tvm.ir.Op):
        return [str(pattern.name)]
    parts = [getattr(pattern, name, None) for name in ("args", "left", "right", "pattern", "tuple", "fields")]
    inner = [
        part for item in parts if item is not None for part in (item if hasattr(item, "__len__") else [item])
    ]
    named = [getattr(getattr(pattern, "op", None), "expr", None)]
    return [name for part in (*inner, *named) if part is not None for name in _ops_in(part)]


def _short(name: str) -> str:
    return name.removeprefix("relax.")
