"""Partitions, builds and runs networks of the zoo, and compares them with an independent answer."""

from __future__ import annotations

import faulthandler
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import numpy as np
import onnxruntime
import tvm
from tvm import relax

import annotated_region as ar
from annotated_region.host_targets import UNOPTIMIZED
from kits.host_machines import linked_machine
from kits.zoo.onnx_model import OnnxModel
from kits.zoo.signature import Form, arrays

__all__ = ["Case", "Ran", "ran", "onnx_case", "watched"]

LONGEST = 240
"""Seconds after which a build is taken for endless; all take a few."""

Answers = Sequence[np.ndarray]


@dataclass(frozen=True, slots=True)
class Case:
    """A network in one form, and what is right.

    Attributes
    ----------
    label
        The name of the network, the road and the form.
    module
        What was imported.
    calls
        The arguments of each call, by name.
    expected
        The results of each call, from an engine that is neither TVM nor a backend of this package.
    tolerance
        The largest error that is taken for rounding, as part of the largest answer.
    """

    label: str
    module: tvm.IRModule
    calls: Sequence[Mapping[str, np.ndarray]]
    expected: Sequence[Answers]
    tolerance: float


@dataclass(frozen=True, slots=True)
class Ran:
    """What a target made of a case.

    Attributes
    ----------
    regions
        How many external functions.
    host
        The ops that TVM computes.
    error
        The largest error of all calls, as part of the largest answer; NaN where an answer is.
    seconds
        What partitioning and building took.
    """

    regions: int
    host: tuple[str, ...]
    error: float
    seconds: float


def onnx_case(model: OnnxModel, form: Form) -> Case:
    """A network from ONNX, and what ONNX Runtime says."""
    proto = model.proto(form)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # idle threads that spin slow down what is run next
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=providers)
    calls = [arrays(model.inputs, sizes) for sizes in form.calls]
    expected = [session.run(None, call) for call in calls]
    module = ar.from_onnx(proto)
    return Case(f"{model.name} from ONNX, {form.name}", module, calls, expected, model.tolerance)


@contextmanager
def watched(label: str, seconds: float = LONGEST) -> Iterator[None]:
    """Fails with the label when the block does not end; one that never returns to Python ends the process."""

    def give_up(signum: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"{label}: no end within {seconds} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    faulthandler.dump_traceback_later(2 * seconds, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def ran(case: Case, target: str) -> Ran:
    """Partition a case for a target (or leave it to ``"tvm"``), build it, run all of its calls."""
    begin = time.perf_counter()
    with watched(f"{case.label} for {target}"):
        partitioned = case.module if target == "tvm" else ar.partition(case.module, [target])
        machine = linked_machine(ar.build(partitioned, UNOPTIMIZED))
    seconds = time.perf_counter() - begin
    errors = [
        _error(_answers(machine, call), expected)
        for call, expected in zip(case.calls, case.expected, strict=True)
    ]
    return Ran(_regions(partitioned), _ops_on_host(partitioned), float(np.max(errors)), seconds)


def _answers(machine: relax.VirtualMachine, call: Mapping[str, np.ndarray]) -> Answers:
    """The results of a call, in memory that another call has filled with what is not a number."""
    _results(machine, [_poisoned(value) for value in call.values()])
    return _results(machine, list(call.values()))


def _poisoned(value: np.ndarray) -> np.ndarray:
    return np.full_like(value, np.nan) if value.dtype == np.float32 else value


def _results(machine: relax.VirtualMachine, given: Sequence[np.ndarray]) -> Answers:
    result = machine["main"](*(tvm.runtime.tensor(value) for value in given))
    return [result.numpy()] if hasattr(result, "numpy") else [part.numpy() for part in result]


def _error(found: Answers, expected: Answers) -> float:
    """The largest error of all results, each as part of its largest answer; NaN if one is there."""
    assert [each.shape for each in found] == [each.shape for each in expected]
    parts = [
        np.abs(one - other).max() / np.abs(other).max() for one, other in zip(found, expected, strict=True)
    ]
    return float(np.max(parts))


def _regions(module: tvm.IRModule) -> int:
    functions = (each for each in module.functions.values() if isinstance(each, relax.Function))
    return sum(bool(each.attrs) and "Codegen" in each.attrs for each in functions)


def _ops_on_host(module: tvm.IRModule) -> tuple[str, ...]:
    found: dict[str, None] = {}

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.Op):
            found[str(expr.op.name).removeprefix("relax.")] = None

    relax.analysis.post_order_visit(module["main"], visit)
    return tuple(sorted(found))
