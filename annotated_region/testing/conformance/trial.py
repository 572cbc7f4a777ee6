"""Runs graphs on a backend and on TVM, compares the results, and counts the coverage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import tvm
from tvm import relax

import annotated_region as ar
from annotated_region.compilation.executable import machine_of
from annotated_region.dataflow.walk import read_dataflow
from annotated_region.findings.wording import words_for_refusal
from annotated_region.host_targets import UNOPTIMIZED
from annotated_region.targets.matching import Matcher
from annotated_region.testing.conformance.modules import declared_types, inputs_of, main_of, types_of
from annotated_region.testing.conformance.registered import Entry, entries_of
from annotated_region.testing.conformance.smaller import parts_of, size_of, smaller_of
from annotated_region.tvm_adapter.types import expect

__all__ = ["BATCH", "Counts", "GraphError", "Graphs", "Trial", "batches", "together"]

BATCH = 10  # graphs per build
_TOLERANCE = {"float16": 3e-2}  # lower bounds; integers and booleans must be equal

Graphs = Sequence[tvm.IRModule]
Answer = list[np.ndarray]


class GraphError(Exception):
    """A graph on which the backend fails."""

    def __init__(self, message: str, mod: tvm.IRModule) -> None:
        super().__init__(message)
        self.mod = mod


@dataclass(slots=True)
class Counts:
    """Counts of ops and of registered patterns; the keys are names and types."""

    graphs: int = 0
    skipped: int = 0
    tried: Counter[tuple[str, str]] = field(default_factory=Counter)
    claimed: Counter[tuple[str, str]] = field(default_factory=Counter)
    compared: Counter[tuple[str, str]] = field(default_factory=Counter)
    composites: Counter[str] = field(default_factory=Counter)
    declined: dict[str, dict[str, None]] = field(default_factory=dict)

    def ran(self, name: str) -> int:
        """The number of runs of an op or a composite on the backend, in graphs of all types."""
        return sum(count for (known, _dtype), count in self.compared.items() if known == name)


@dataclass(slots=True)
class Trial:
    """Runs graphs on the backend and on TVM, and counts the coverage."""

    target: str
    rtol: float
    atol: float
    counts: Counts = field(default_factory=Counts)

    def first_failure(self, mods: Graphs, dtype: str = "") -> GraphError | None:
        """The failure of the first failing graph; coverage is counted under `dtype`."""
        right = answers_of(mods)
        usable = [(mod, answer) for mod, answer in zip(mods, right, strict=True) if answer is not None]
        self.counts.skipped += len(mods) - len(usable)
        return self._first_failure(usable, dtype) if usable else None

    def _first_failure(self, pairs: Sequence[tuple[tvm.IRModule, Answer]], dtype: str) -> GraphError | None:
        try:
            self._run(pairs, dtype)
        except GraphError as failure:
            if len(pairs) == 1 or failure.__cause__ is None:
                return failure
            # A build error does not name its graph, so the graphs are built one by one.
            alone = (self._first_failure([pair], dtype) for pair in pairs)
            return next((found for found in alone if found is not None), failure)
        return None

    def smallest(self, failure: GraphError) -> GraphError:
        """The failure of a smallest failing subset of the graph's ops, with reduced extents.

        Tries all sets of one op, then of two, and so on: at most ``2 ** max_ops`` graphs, built in batches.
        """
        failure = self._with_fewest_ops(failure)
        while found := self._first_of(smaller_of(failure.mod)):
            failure = found
        return failure

    def _with_fewest_ops(self, failure: GraphError) -> GraphError:
        for size in range(1, size_of(failure.mod)):
            found = self._first_of(parts_of(failure.mod, size))
            if found is not None:
                return found
        return failure

    def _first_of(self, mods: Iterator[tvm.IRModule]) -> GraphError | None:
        failures = (self.first_failure(batch) for batch in batches(mods, BATCH))
        return next((found for found in failures if found is not None), None)

    def _run(self, pairs: Sequence[tuple[tvm.IRModule, Answer]], dtype: str) -> None:
        mods = [mod for mod, _answer in pairs]
        joined = together(mods)
        try:
            report = ar.explain(joined, [self.target], prepare=False)
            partitioned = ar.partition(joined, [self.target], prepare=False)
            results = _results(ar.build(partitioned), mods)
        except Exception as error:
            raise GraphError(f"{type(error).__name__}: {str(error).strip()}", mods[0]) from error
        for (mod, right), found in zip(pairs, results, strict=True):
            for number, (result, wanted) in enumerate(zip(found, right, strict=True)):
                self._compare(number, result, wanted, mod)
        self.counts.graphs += len(mods)
        self._count_ops(report, dtype)
        for number, mod in enumerate(mods):
            self._count_patterns(mod, composites_in(partitioned, _name(number)), dtype)

    def _count_ops(self, report: ar.Report, dtype: str) -> None:
        counts = self.counts
        for op in (op for function in report.functions for op in function.ops):
            counts.tried[op.op, dtype] += 1
            counts.claimed[op.op, dtype] += self.target in op.claims
            counts.compared[op.op, dtype] += op.placed == self.target
            for reason in op.declines.values():
                counts.declined.setdefault(op.op, {})[reason] = None

    def _count_patterns(self, mod: tvm.IRModule, ran: Counter[str], dtype: str) -> None:
        counts = self.counts
        counts.composites += ran
        for entry, refusals in matches_in(mod, entries_of(self.target)):
            claimed = None in refusals
            counts.tried[entry.name, dtype] += 1
            counts.claimed[entry.name, dtype] += claimed
            counts.compared[entry.name, dtype] += claimed and ran[entry.composite] > 0
            reasons = counts.declined.setdefault(entry.name, {})
            reasons.update(dict.fromkeys(refusal for refusal in refusals if refusal))

    def _compare(self, number: int, result: np.ndarray, right: np.ndarray, mod: tvm.IRModule) -> None:
        for what, found, wanted in (
            ("shape", result.shape, right.shape),
            ("type", str(result.dtype), str(right.dtype)),
        ):
            if found != wanted:
                raise GraphError(f"result {number} has {what} {found} instead of {wanted}", mod)
        close = self._close(result, right, mod)
        if not close.all():
            at = tuple(int(index) for index in np.argwhere(~close)[0])
            raise GraphError(
                f"result {number} has {result[at]:.6g} instead of {right[at]:.6g} at {at}; "
                f"{np.count_nonzero(~close)} of {close.size} values differ",
                mod,
            )

    def _close(self, result: np.ndarray, right: np.ndarray, mod: tvm.IRModule) -> np.ndarray:
        if right.dtype.kind != "f":
            return np.asarray(result == right)
        # The coarsest type in the graph determines the precision of the result.
        least = max(_TOLERANCE.get(dtype, 0.0) for dtype in types_of(mod))
        rtol, atol = max(self.rtol, least), max(self.atol, least)
        return np.asarray(np.isclose(result, right, rtol, atol, equal_nan=True))


def batches(mods: Iterator[tvm.IRModule] | Graphs, size: int) -> Iterator[Graphs]:
    """The graphs in order, in batches of `size`."""
    rest = iter(mods)
    while batch := list(islice(rest, size)):
        yield batch


def together(mods: Graphs) -> tvm.IRModule:
    """One module with all graphs as functions ``graph0``, ``graph1``, and so on."""
    names = map(_name, range(len(mods)))
    return tvm.IRModule(
        {name: mod["main"].with_attr("global_symbol", name) for name, mod in zip(names, mods, strict=True)}
    )


def _name(number: int) -> str:
    return f"graph{number}"


def matches_in(mod: tvm.IRModule, entries: Sequence[Entry]) -> Iterator[tuple[Entry, set[str | None]]]:
    """The patterns that match in a graph, with the refusals of their matches; None for a valid match."""
    entry_of = {id(entry.pattern): entry for entry in entries if entry.pattern}
    if not entry_of:
        return
    found: dict[str, tuple[Entry, set[str | None]]] = {}
    patterns = [entry.pattern for entry in entries if entry.pattern]
    for match in Matcher(read_dataflow(main_of(mod))).matches(patterns):
        entry = entry_of[id(match.pattern)]
        why = words_for_refusal(match.refusal) if match.refusal else None
        found.setdefault(entry.name, (entry, set()))[1].add(why)
    yield from found.values()


def composites_in(partitioned: tvm.IRModule, name: str) -> Counter[str]:
    """How often each composite is in the regions that a function of a partitioned module calls."""
    called: dict[str, None] = {}

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.GlobalVar):
            called[expr.op.name_hint] = None

    relax.analysis.post_order_visit(expect(relax.Function, partitioned[name]).body, visit)
    inner = (
        binding.value
        for symbol in called
        for block in expect(relax.Function, partitioned[symbol]).body.blocks
        for binding in block.bindings
        if isinstance(binding.value, relax.Function)
    )
    return Counter(str(function.attrs["Composite"]) for function in inner)


def answers_of(mods: Graphs) -> list[Answer | None]:
    """The results of TVM alone; None if it fails, or if a type differs from the declared one."""
    try:
        answers = _results(tvm.compile(together(mods), UNOPTIMIZED), mods)
        return [
            answer if _types(answer) == declared_types(mod) else None
            for answer, mod in zip(answers, mods, strict=True)
        ]
    except Exception:  # TVM raises various errors for unsupported types of ops
        return [None] if len(mods) == 1 else [answers_of([mod])[0] for mod in mods]


def _results(executable: relax.VMExecutable, mods: Graphs) -> list[Answer]:
    with machine_of(executable) as machine:
        return [_result(machine[_name(number)], mod) for number, mod in enumerate(mods)]


def _result(run: Callable[..., Any], mod: tvm.IRModule) -> Answer:
    answer = run(*map(tvm.runtime.tensor, inputs_of(mod)))
    return [value.numpy() for value in ([answer] if isinstance(answer, tvm.runtime.Tensor) else answer)]


def _types(answer: Answer) -> list[str]:
    return [str(value.dtype) for value in answer]
