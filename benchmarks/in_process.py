"""Builds and runs the candidates of TVM's meta-schedule in this process, one after the other.

Meta-schedule's own workers each load TVM and its tensor intrinsics, which takes longer than building a
candidate of one layer. Nothing protects a search with these from a candidate that crashes or does not end.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tvm
from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.arg_info import TensorInfo
from tvm.s_tir.meta_schedule.builder import BuilderInput, BuilderResult, PyBuilder
from tvm.s_tir.meta_schedule.runner import PyRunner, PyRunnerFuture, RunnerInput, RunnerResult
from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

__all__ = ["InProcessBuilder", "InProcessRunner"]


@derived_object
class InProcessBuilder(PyBuilder):  # type: ignore[misc]
    """Compiles each candidate into a shared library, in a folder of its own that meta-schedule removes."""

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """The library of each candidate, or what went wrong."""
        return [_built(candidate) for candidate in build_inputs]


def _built(candidate: BuilderInput) -> BuilderResult:
    file = Path(tempfile.mkdtemp(), "candidate.so")
    try:
        mod = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(candidate.mod)
        tvm.compile(mod, candidate.target).export_library(str(file))
    except Exception as error:  # a schedule may break any pass of TVM; the search goes on without it
        return BuilderResult(None, str(error))
    return BuilderResult(str(file), None)


@derived_object
class InProcessRunner(PyRunner):  # type: ignore[misc]
    """Runs each candidate a few times after a first run that does not count; the fastest run counts.

    Parameters
    ----------
    repeats
        How often a candidate is timed. The least of a few times is what other programs on the machine
        disturb least.
    """

    def __init__(self, repeats: int = 5) -> None:
        super().__init__()
        self.repeats = repeats

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[PyRunnerFuture]:
        """The time of each candidate, already known."""
        return [_Known(_timed(candidate, self.repeats)) for candidate in runner_inputs]


@derived_object
class _Known(PyRunnerFuture):  # type: ignore[misc]
    """A result that nobody has to wait for."""

    def __init__(self, known: RunnerResult) -> None:
        super().__init__()
        self.known = known

    def done(self) -> bool:
        return True

    def result(self) -> RunnerResult:
        return self.known


def _timed(candidate: RunnerInput, repeats: int) -> RunnerResult:
    try:
        library = tvm.runtime.load_module(candidate.artifact_path)
        arguments = [_some_tensor(each) for each in candidate.args_info]
        measured = library.time_evaluator("main", tvm.cpu(), number=1, repeat=repeats)(*arguments)
    except Exception as error:  # a candidate may fail in any way; the search goes on without it
        return RunnerResult(None, str(error))
    return RunnerResult([min(measured.results)], None)


def _some_tensor(described: TensorInfo) -> tvm.runtime.Tensor:
    """Numbers between zero and one."""
    shape = tuple(int(extent) for extent in described.shape)
    return tvm.runtime.tensor(np.random.default_rng(0).random(shape).astype(str(described.dtype)))
