"""to_tuning_tasks: fused functions as tasks of TVM's meta-schedule tuner, weighted by their calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import tvm
from tvm import relax
from tvm.s_tir.meta_schedule import ExtractedTask

from annotated_region.checked import checked
from annotated_region.errors import InvalidModuleError
from annotated_region.extraction.hashed_functions import FusedFunction, Source, extract_hashed_functions
from annotated_region.host_targets import HostTarget, host_target

__all__ = ["to_tuning_tasks"]

Tunable: TypeAlias = (
    tvm.IRModule
    | relax.Function
    | tvm.tirx.PrimFunc
    | FusedFunction
    | Mapping[int, FusedFunction]
    | Iterable[tuple[str, Source]]
)


@checked
def to_tuning_tasks(what: Tunable, target: HostTarget) -> list[ExtractedTask]:
    """The tasks of TVM's meta-schedule for one function, one module, or a model zoo.

    Parameters
    ----------
    what
        A module; a single function, Relax or TensorIR; pairs of names and modules; or the result of
        `extract_hashed_functions`.
    target
        The tuning target. Meta-schedule needs ``num-cores`` of a CPU.

    Returns
    -------
    list[ExtractedTask]
        One task for each distinct function, with the number of its calls as weight, in the order of the first
        calls, as expected by ``meta_schedule.relax_integration.extracted_tasks_to_tune_contexts`` and
        ``meta_schedule.tune.tune_tasks``.

    Raises
    ------
    InvalidModuleError
        `what` is none of these, or a module is not well formed.
    UsageError
        TVM does not know the target.
    """
    machine = host_target(target)
    return [_task(name, func, machine, weight) for name, func, weight in _functions(what, machine)]


def _functions(what: Tunable, target: tvm.target.Target) -> Iterator[tuple[str, tvm.tirx.PrimFunc, int]]:
    if isinstance(what, tvm.tirx.PrimFunc):
        yield str(what.attrs.get("global_symbol", "main")), what, 1
        return
    for found in _hashed(what, target):
        yield found.name, found.func, found.count


def _hashed(what: Tunable, target: tvm.target.Target) -> Iterable[FusedFunction]:
    if isinstance(what, FusedFunction):
        return [what]
    if isinstance(what, relax.Function):
        what = tvm.IRModule({"main": what.with_attr("global_symbol", "main")})
    if isinstance(what, tvm.IRModule):
        return extract_hashed_functions(what, target).values()
    if isinstance(what, Mapping):
        return what.values()
    if isinstance(what, Iterable):
        return extract_hashed_functions(what, target).values()
    raise InvalidModuleError(
        f"expected a module, a function or pairs of names and modules, got {type(what).__name__}"
    )


def _task(name: str, func: tvm.tirx.PrimFunc, target: tvm.target.Target, weight: int) -> ExtractedTask:
    # Tuned kernels are looked up by structure, under this name for every function.
    mod = tvm.IRModule({"main": func.with_attr("global_symbol", "main").with_attr("tirx.noalias", True)})
    return ExtractedTask(name, mod, target, [mod], weight)
