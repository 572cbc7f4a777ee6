"""Runs a graph without targets, as users build one: TVM compiles it behind the repairs of the host."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from functools import partial

import numpy as np
import tvm
from tvm import relax

import annotated_region as ar
from annotated_region.errors import BuildError
from annotated_region.host_targets import UNOPTIMIZED
from kits.hunt.engines import Engine, LeftOutError

__all__ = ["build"]


def build(mod: tvm.IRModule) -> Engine:
    """A graph on TVM; left out where TVM cannot compile it, which is a refusal and no wrong answer.

    Compiling has no limit of time: the time is TVM's.
    """
    signal.setitimer(signal.ITIMER_PROF, 0)
    try:
        executable = ar.build(mod, UNOPTIMIZED)
    except BuildError as error:
        return partial(_left_out, str(error))
    return partial(_computed, relax.VirtualMachine(executable, tvm.cpu()))


def _computed(machine: relax.VirtualMachine, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    answer = machine["main"](*map(tvm.runtime.tensor, inputs))
    return [value.numpy() for value in ([answer] if hasattr(answer, "numpy") else answer)]


def _left_out(reason: str, _inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    culprit = reason.rpartition("; it is ")[2] if "; it is " in reason else "a pass"
    raise LeftOutError(f"TVM cannot compile {culprit.partition(' ')[0]}")
