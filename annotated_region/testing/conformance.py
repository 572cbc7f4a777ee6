"""check_backend: does a backend compute what its rules claim? Generated graphs, run on it and on TVM.

The graphs are built from the ops that the backend's rules and patterns name, and from one op that it does not
claim, so that regions have borders. Hypothesis makes them. They are built many at a time; one that fails is
cut down to the smallest part of it that fails, too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import tvm
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from tvm import relax

import annotated_region as ar
from annotated_region.backend import backend_of
from annotated_region.errors import BackendUnavailableError, ConformanceError
from annotated_region.rules import patterns_of, rules_of
from annotated_region.testing.conformance_recipes import EXTENTS, RECIPES, Recipe

__all__ = ["Conformance", "backend_graphs", "check_backend", "conformance_test"]

T = TypeVar("T")
_BATCH = 10  # graphs that are built together
_GAPS = ("relax.tanh", "relax.negative", "relax.abs")


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
    untried
        Ops that its rules or patterns name, and that no recipe is known for; hand one in as ``recipes=``.
    never_placed
        Ops that were tried, and that the backend declined every time.
    """

    target: str
    graphs: int
    placed: Mapping[str, int]
    untried: tuple[str, ...]
    never_placed: tuple[str, ...]

    def __str__(self) -> str:
        placed = ", ".join(f"{name.removeprefix('relax.')} x{count}" for name, count in self.placed.items())
        lines = [f"{self.target}: {self.graphs} graphs agree with TVM; placed: {placed or 'nothing'}"]
        for what, names in (("no recipe", self.untried), ("declined every time", self.never_placed)):
            lines += [f"{what}: {', '.join(name.removeprefix('relax.') for name in names)}"] if names else []
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
        The tolerance, as `numpy.allclose` means it. Inputs are of order one.
    recipes
        How to try ops that the kit does not know, or to try them otherwise; see `conformance_recipes`.

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
    reason = backend_of(target).unavailable()
    if reason is not None:
        raise BackendUnavailableError(f"{target} cannot be checked on this machine: {reason}")
    known = {**RECIPES, **(recipes or {})}
    claimed = _claimed_ops(target)
    check = _Check(target, rtol, atol)
    for batch in _batches(_made(_graphs(claimed, known, max_ops), examples, start)):
        failure = check.first_failure(batch)
        if failure is not None:
            smallest = check.smallest(failure)
            raise ConformanceError(
                f"{target} fails on this graph: {smallest}\n\n{smallest.mod.script()}", smallest.mod
            ) from smallest.__cause__
    return Conformance(
        target,
        check.graphs,
        dict(sorted(check.placed.items())),
        tuple(name for name in claimed if name not in known),
        tuple(name for name in claimed if name in check.tried and name not in check.placed),
    )


def conformance_test(target: str, **options: Any) -> Callable[[], None]:
    """A test for pytest, in one line.

        test_my_backend = conformance_test("my_backend")

    Options are those of `check_backend`.
    """

    def test() -> None:
        print(check_backend(target, **options))

    return test


def backend_graphs(
    target: str, max_ops: int = 6, recipes: Mapping[str, Recipe] | None = None
) -> st.SearchStrategy[tvm.IRModule]:
    """The strategy of the kit: modules made of the ops that a backend's rules and patterns name."""
    return _graphs(_claimed_ops(target), {**RECIPES, **(recipes or {})}, max_ops)


class _GraphError(Exception):
    """A graph on which the backend fails."""

    def __init__(self, message: str, mod: tvm.IRModule) -> None:
        super().__init__(message)
        self.mod = mod


def _made(graphs: st.SearchStrategy[tvm.IRModule], examples: int, start: int) -> list[tvm.IRModule]:
    """As many graphs as asked for."""
    made: list[tvm.IRModule] = []

    @seed(start)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),
    )
    @given(graphs)
    def make(mod: tvm.IRModule) -> None:
        made.append(mod)

    make()
    return made


def _batches(mods: Sequence[tvm.IRModule]) -> Iterator[Sequence[tvm.IRModule]]:
    for first in range(0, len(mods), _BATCH):
        yield mods[first : first + _BATCH]


@dataclass(slots=True)
class _Check:
    """Runs graphs on the backend and on TVM, and counts what it sees."""

    target: str
    rtol: float
    atol: float
    graphs: int = 0
    placed: Counter[str] = field(default_factory=Counter)
    tried: Counter[str] = field(default_factory=Counter)

    def first_failure(self, mods: Sequence[tvm.IRModule]) -> _GraphError | None:
        """What goes wrong with the first of the graphs that something goes wrong with."""
        try:
            self._run(mods)
        except _GraphError as failure:
            if len(mods) == 1 or failure.__cause__ is None:
                return failure
            # An error of the build does not say which graph it is about; one by one, they do.
            alone = (self.first_failure([mod]) for mod in mods)
            return next((found for found in alone if found is not None), failure)
        return None

    def smallest(self, failure: _GraphError) -> _GraphError:
        """The failure of the shortest run of ops in the graph that fails alone; O(ops^2) builds at worst."""
        for part in _parts(failure.mod):
            found = self.first_failure([part])
            if found is not None:
                return found
        return failure

    def _run(self, mods: Sequence[tvm.IRModule]) -> None:
        names = [f"graph{number}" for number in range(len(mods))]
        functions = {
            name: mod["main"].with_attr("global_symbol", name) for name, mod in zip(names, mods, strict=True)
        }
        together = tvm.IRModule(functions)
        try:
            report = ar.explain(together, [self.target], prepare=False)
            built = ar.build(ar.partition(together, [self.target], prepare=False))
            machine = relax.VirtualMachine(built, tvm.cpu())
            results = [_results(machine[name], mod) for name, mod in zip(names, mods, strict=True)]
        except Exception as error:
            raise _GraphError(f"{type(error).__name__}: {str(error).strip()}", mods[0]) from error
        plain = relax.VirtualMachine(tvm.compile(together, tvm.target.Target("llvm")), tvm.cpu())
        for name, mod, found in zip(names, mods, results, strict=True):
            for number, (result, right) in enumerate(zip(found, _results(plain[name], mod), strict=True)):
                self._compare(number, result, right, mod)
        self.graphs += len(mods)
        for op in (op for function in report.functions for op in function.ops):
            self.tried[op.op] += 1
            self.placed.update([op.op] if op.placed == self.target else [])

    def _compare(self, number: int, result: np.ndarray, right: np.ndarray, mod: tvm.IRModule) -> None:
        if result.shape != right.shape:
            raise _GraphError(f"result {number} has shape {result.shape} instead of {right.shape}", mod)
        close = np.isclose(result, right, self.rtol, self.atol, equal_nan=True)
        if not close.all():
            at = tuple(int(index) for index in np.argwhere(~close)[0])
            raise _GraphError(
                f"result {number} has {result[at]:.6g} instead of {right[at]:.6g} at {at}; "
                f"{np.count_nonzero(~close)} of {close.size} values differ",
                mod,
            )


def _parts(mod: tvm.IRModule) -> Iterator[tvm.IRModule]:
    """Runs of neighbouring ops as modules, short ones first; what they read becomes parameters."""
    bindings = [binding for block in mod["main"].body.blocks for binding in block.bindings]
    for length in range(1, len(bindings)):
        for first in range(len(bindings) - length + 1):
            yield _cut_out(bindings[first : first + length])


def _cut_out(bindings: Sequence[relax.Binding]) -> tvm.IRModule:
    params: dict[relax.Var, relax.Var] = {}
    inside: dict[relax.Var, relax.Var] = {}
    renamed = []
    for binding in bindings:
        for var in _variables(binding.value):
            if var not in inside:
                params.setdefault(var, relax.Var(var.name, var.ty))
        new = {**params, **inside}
        args = [_replaced(arg, new) for arg in binding.value.args]
        inside[binding.var] = relax.DataflowVar(binding.var.name, binding.var.ty)
        call = relax.Call(
            binding.value.op, args, binding.value.attrs, binding.value.ty_args, ret_ty=binding.value.ty
        )
        renamed.append(relax.VarBinding(inside[binding.var], call))
    return _module(list(params.values()), renamed)


def _replaced(arg: relax.Expr, new: Mapping[relax.Var, relax.Var]) -> relax.Expr:
    if isinstance(arg, relax.Tuple):
        return relax.Tuple([_replaced(part, new) for part in arg.fields])
    return new[arg] if isinstance(arg, tvm.ir.Var) else arg


def _results(run: Callable[..., Any], mod: tvm.IRModule) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    inputs = []
    for param in mod["main"].params:
        shape = [int(extent) for extent in param.ty.shape]
        inputs.append(tvm.runtime.tensor(_numbers(random, shape, param.name.startswith("positive"))))
    answer = run(*inputs)
    return [value.numpy() for value in ([answer] if isinstance(answer, tvm.runtime.Tensor) else answer)]


def _numbers(random: np.random.Generator, shape: Sequence[int], positive: bool) -> np.ndarray:
    if positive:
        return np.asarray(random.uniform(0.5, 1.5, shape), dtype=np.float32)
    return random.standard_normal(shape, dtype=np.float32)


def _claimed_ops(target: str) -> tuple[str, ...]:
    """The ops that the rules and the patterns of a target name."""
    names = dict.fromkeys(rules_of(target))
    for pattern in patterns_of(target):
        names.update(dict.fromkeys(_ops_in(pattern.pattern)))
    return tuple(names)


def _ops_in(pattern: Any) -> list[str]:
    """The ops that a pattern names, inner ones first."""
    if isinstance(pattern, tvm.ir.Op):
        return [str(pattern.name)]
    parts = [getattr(pattern, name, None) for name in ("args", "left", "right", "pattern", "tuple", "fields")]
    inner = [
        part for item in parts if item is not None for part in (item if hasattr(item, "__len__") else [item])
    ]
    named = [getattr(getattr(pattern, "op", None), "expr", None)]
    return [name for part in (*inner, *named) if part is not None for name in _ops_in(part)]


def _graphs(
    claimed: Sequence[str], recipes: Mapping[str, Recipe], max_ops: int
) -> st.SearchStrategy[tvm.IRModule]:
    usable = [name for name in claimed if name in recipes]
    gap = next(name for name in _GAPS if name not in claimed or name == _GAPS[-1])
    chosen = [recipes[name] for name in (*usable, gap)]

    @st.composite
    def graphs(draw: st.DrawFn) -> tvm.IRModule:
        bench = _Bench(draw)
        for recipe in draw(st.lists(st.sampled_from(chosen), min_size=1, max_size=max_ops)):
            bench.add(recipe(bench))
        return bench.module()

    return graphs()


class _Bench:
    """The `Workbench` of recipes: a function that grows at its end."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.params: list[relax.Var] = []
        self.bindings: list[relax.Binding] = []
        self.builder = relax.BlockBuilder()
        self.constants = np.random.default_rng(1)

    def value(self, rank: int | None = None) -> relax.Expr | None:
        values = [binding.var for binding in self.bindings] or self.params[:1]
        ranks = {len(value.ty.shape) for value in values} - {0} if rank is None else {rank}
        fitting = [value for value in values if len(value.ty.shape) in ranks]
        if not fitting:
            return (
                self._input(4 if rank is None else rank)
                if not self.bindings or self.draw(st.booleans())
                else None
            )
        newest = self.draw(st.integers(0, 3)) < 3
        return fitting[-1] if newest else self.draw(st.sampled_from(fitting))

    def _input(self, rank: int) -> relax.Var:
        return self._param([self.draw(st.sampled_from(EXTENTS)) for _axis in range(rank)], positive=False)

    def tensor(self, shape: Sequence[int], *, positive: bool = False, constant: bool = False) -> relax.Expr:
        if constant:
            scale = 1.0 if positive else 1.0 / math.sqrt(max(math.prod(shape[1:]), 1))
            return relax.const(_numbers(self.constants, shape, positive) * np.float32(scale))
        return self._param(shape, positive)

    def _param(self, shape: Sequence[int], positive: bool) -> relax.Var:
        name = f"{'positive' if positive else 'x'}{len(self.params)}"
        self.params.append(relax.Var(name, relax.TensorType(list(shape), "float32")))
        return self.params[-1]

    def add(self, call: relax.Expr | None) -> None:
        """Bind a call, if a recipe found one that fits."""
        if call is not None:
            typed = self.builder.normalize(call)
            var = relax.DataflowVar(f"v{len(self.bindings)}", typed.ty)
            self.bindings.append(relax.VarBinding(var, typed))

    def module(self) -> tvm.IRModule:
        """A module that returns what no op reads."""
        if not self.bindings:
            self.add(relax.op.nn.relu(self._input(1)))
        return _module(self.params, self.bindings)


def _module(params: Sequence[relax.Var], bound: Sequence[relax.Binding]) -> tvm.IRModule:
    """A module that returns what no op reads."""
    read = {arg for binding in bound for arg in _variables(binding.value)}
    loose = [binding.var for binding in bound if binding.var not in read]
    results = [relax.Var(var.name, var.ty) for var in loose]
    renamed = dict(zip(loose, results, strict=True))
    bindings = [relax.VarBinding(renamed.get(binding.var, binding.var), binding.value) for binding in bound]
    body = relax.Tuple(results) if len(results) > 1 else results[0]
    block = relax.SeqExpr([relax.DataflowBlock(bindings)], body)
    ty = relax.TupleType([var.ty for var in results]) if len(results) > 1 else results[0].ty
    function = relax.Function(list(params), block, ty).with_attr("global_symbol", "main")
    return relax.transform.Normalize()(tvm.IRModule({"main": function}))


def _variables(call: relax.Call) -> list[relax.Var]:
    fields = [part for arg in call.args for part in (arg.fields if isinstance(arg, relax.Tuple) else [arg])]
    return [part for part in fields if isinstance(part, tvm.ir.Var)]
