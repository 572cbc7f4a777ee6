"""A model built as it is placed now, and timed in turn with builds of other placements."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import tvm
from tvm import relax

from annotated_region.compilation.executable import machine_of
from annotated_region.errors import InputError, RunError
from annotated_region.inputs import Arguments, arguments_for
from annotated_region.measuring.in_turn import time_in_turn
from annotated_region.measuring.timing import Clock, Time
from annotated_region.passes.host_repairs.repairing import compile_for_host
from annotated_region.tvm_adapter.types import expect

__all__ = ["TimedModel"]

Run = Callable[[], object]
_FAILURES = (RuntimeError, ValueError, TypeError, MemoryError)


class TimedModel:
    """The ``main`` of a partitioned module, built once; inputs are generated.

    Parameters
    ----------
    mod
        The partitioned module.
    builds
        Frees what was built when it is closed.
    clock
        Tells the time; that of the wall if none is given.

    Raises
    ------
    InputError
        There is no ``main``, or its inputs cannot be generated, as with symbolic extents.
    AnnotatedRegionError
        The module cannot be built or run.
    """

    def __init__(self, mod: tvm.IRModule, builds: ExitStack, clock: Clock | None = None) -> None:
        self._clock = clock
        self._arguments = _arguments(mod)
        self._run = self._built(mod, builds)

    def beside(self, other: tvm.IRModule) -> tuple[Time, Time]:
        """The time of a run, and that of another placement of the same model.

        Raises
        ------
        AnnotatedRegionError
            The other one cannot be built or run.
        """
        with ExitStack() as builds:
            mine, others = time_in_turn([self._run, self._built(other, builds)], self._clock)
        return mine, others

    def _built(self, mod: tvm.IRModule, builds: ExitStack) -> Run:
        machine = builds.enter_context(machine_of(compile_for_host(mod)))
        run: Run = partial(machine["main"], *self._arguments.tensors())
        try:
            run()
        except _FAILURES as error:
            raise RunError(f"the model fails when it runs: {str(error).strip()}") from error
        return run


def _arguments(mod: tvm.IRModule) -> Arguments:
    mains = [func for name, func in mod.functions_items() if name.name_hint == "main"]
    if not mains:
        raise InputError("the module has no function main to run; name the one to time so")
    return arguments_for(expect(relax.Function, mains[0]))
