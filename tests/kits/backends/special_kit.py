"""Runs the graphs of `special_cases` on TVM alone and on a target, and compares the kinds of numbers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import tvm
from tvm import relax, tirx

import annotated_region as ar
from annotated_region.host_targets import UNOPTIMIZED
from kits.backends.special_agreement import agree
from kits.backends.special_cases import PLACED, SPECIAL, Case, Shape
from kits.backends.special_differences import DIFFERENCES, Difference
from kits.backends.special_moves import CASES
from kits.host_machines import host_machine

__all__ = ["Outcome", "outcome"]

LENGTHS = (1, 3, 37)
"""Less than a vector, and two vectors of sixteen numbers with a rest."""

OPTIONS = {"tensorrt": {"fallback": "onnxruntime"}}


@dataclass(slots=True)
class Outcome:
    """What a target made of the cases.

    Attributes
    ----------
    failures
        Differences that no table explains, as text.
    used
        Those that one does.
    ops
        The ops that ran on the target.
    """

    failures: list[str] = field(default_factory=list)
    used: set[Difference] = field(default_factory=set)
    ops: set[str] = field(default_factory=set)


def sized(shape: Shape, size: int = 1) -> tuple[int, ...]:
    """A shape whose symbolic extents have a size."""
    return tuple(size if isinstance(each, str) else each for each in shape)


def calls_of(case: Case) -> Iterator[list[np.ndarray]]:
    """The arguments of each call."""
    if case.kind == "each":
        for size in LENGTHS:
            shape = sized(case.shapes[0], size)
            for shift in range(0, len(SPECIAL), size):
                yield [np.resize(np.roll(SPECIAL, -shift), shape)]
    elif case.kind == "residual":
        for size in LENGTHS:
            shapes = [sized(shape, size) for shape in case.shapes]
            for shift in range(len(SPECIAL)):
                yield [np.ones(shapes[0], "float32"), np.resize(np.roll(SPECIAL, -shift), shapes[1])]
    elif case.kind == "pairs":
        meshes = np.meshgrid(SPECIAL, SPECIAL, indexing="ij")
        cuts = [tuple(map(slice, shape)) for shape in case.shapes]
        yield [np.ascontiguousarray(mesh[cut]) for mesh, cut in zip(meshes, cuts, strict=True)]
    else:
        rng = np.random.default_rng(5)
        usual = [rng.uniform(0.5, 2, sized(shape)).astype("float32") for shape in case.shapes]
        for index, operand in enumerate(usual):
            for special in PLACED:
                for places in ([0], [-1], slice(None)):
                    changed = operand.copy()
                    changed.reshape(-1)[places] = special
                    yield [*usual[:index], changed, *usual[index + 1 :]]


@cache
def whole_module() -> tvm.IRModule:
    """One function a case."""
    builder = relax.BlockBuilder()
    for case in CASES.values():
        extents: dict[int | str, tirx.Var] = {"n": tirx.Var("n", "int64")}
        given = [
            relax.Var(f"x{index}", relax.TensorType([extents.get(each, each) for each in shape], "float32"))
            for index, shape in enumerate(case.shapes)
        ]
        with builder.function(case.name, given):
            with builder.dataflow():
                made = case.make(*given)
                whole = relax.Tuple(list(made)) if isinstance(made, tuple) else made
                result = builder.emit_output(builder.normalize(whole))
            builder.emit_func_output(result)
    return builder.finalize()


def answers(machine: relax.VirtualMachine, case: Case) -> list[list[np.ndarray]]:
    """The results of each call."""
    found = []
    for arguments in calls_of(case):
        result = machine[case.name](*map(tvm.runtime.tensor, arguments))
        found.append([part.numpy() for part in ([result] if hasattr(result, "numpy") else result)])
    return found


@cache
def by_tvm() -> dict[str, list[list[np.ndarray]]]:
    """What TVM computes without a target."""
    machine = host_machine(whole_module())
    return {name: answers(machine, case) for name, case in CASES.items()}


@cache
def outcome(target: str) -> Outcome:
    """What a target makes of all cases that it claims a part of."""
    result = Outcome()
    module = ar.partition(whole_module(), [target], prepare=False, cross_compile=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorRT's fallback says that it is one
        library = ar.build(module, UNOPTIMIZED, options={target: OPTIONS.get(target, {})}).jit()
        machine = relax.VirtualMachine(library, tvm.cpu())
        for name, case in CASES.items():
            ops = ops_of_regions(module, name)
            if ops:
                result.ops |= ops
                compare(target, case, answers(machine, case), result)
    return result


def ops_of_regions(module: tvm.IRModule, name: str) -> set[str]:
    """The ops in the external functions that a function calls."""
    found: set[str] = set()

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.GlobalVar):
            callee = module[expr.op]
            if isinstance(callee, relax.Function) and callee.attrs and "Codegen" in callee.attrs:
                collect(callee)

    def collect(function: relax.Function) -> None:
        def inside(expr: relax.Expr) -> None:
            if isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.Op):
                found.add(str(expr.op.name))
            elif isinstance(expr, relax.Function) and expr is not function:
                relax.analysis.post_order_visit(expr.body, inside)

        relax.analysis.post_order_visit(function.body, inside)

    relax.analysis.post_order_visit(module[name], visit)
    return found


# --- comparison


def compare(target: str, case: Case, found: list[list[np.ndarray]], result: Outcome) -> None:
    """Add what differs to an outcome; the first of each case is told."""
    known = [each for each in DIFFERENCES if each.concerns(target, case.name)]
    comparison = Comparison(known, result, is_sum=case.kind == "one")
    is_told = False
    for given, wanted, got in zip(calls_of(case), by_tvm()[case.name], found, strict=True):
        for one, other in zip(wanted, got, strict=True):
            text = comparison.difference(given, one, other)
            if text and not is_told:
                result.failures.append(f"{case.name}: {text}")
                is_told = True


@dataclass(frozen=True, slots=True)
class Comparison:
    """How the answers of one case are compared.

    Attributes
    ----------
    known
        The differences that may be there.
    result
        Where those that are there are noted.
    is_sum
        Whether numbers are sums of terms that may cancel.
    """

    known: list[Difference]
    result: Outcome
    is_sum: bool

    def difference(self, given: list[np.ndarray], wanted: np.ndarray, found: np.ndarray) -> str:
        """Where two answers differ, and no table says why; empty if nowhere."""
        if (wanted.shape, wanted.dtype) != (found.shape, found.dtype):
            return f"{found.dtype}{found.shape} is not {wanted.dtype}{wanted.shape}"
        open_ = ~agree(wanted, found, is_sum=self.is_sum)
        for each in self.known if open_.any() else ():
            explained = open_ & each.explains(given, found, is_sum=self.is_sum)
            if explained.any():
                self.result.used.add(each)
                open_ = open_ & ~explained
        if not open_.any():
            return ""
        place = tuple(int(index) for index in np.argwhere(open_)[0])
        kinds = [str(kind) for kind in np.unique([str(array[~np.isclose(array, 1)][:9]) for array in given])]
        return f"{found[place]} is not {wanted[place]} at {place} of {given[0].shape}: {kinds}"
