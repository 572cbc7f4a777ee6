"""Runs a graph behind the passes that come before any backend: prepared, raised, in other layouts.

Each form is computed by the reference, and of a few graphs the prepared and the raised one by TVM, too,
unless TVM cannot compile the graph itself either.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

from annotated_region.errors import InvalidModuleError
from annotated_region.passes.host_repairs.repairing import repaired
from annotated_region.passes.legalize_with_op_info import LegalizeWithOpInfo
from annotated_region.passes.plan_layout import PlanLayout
from annotated_region.passes.prepare_for_inference import PrepareForInference
from annotated_region.passes.raise_to_ops import RaiseToOps
from annotated_region.passes.transform_layout import TransformLayout
from kits.host_machines import host_machine
from kits.hunt.engines import LeftOutError
from kits.hunt.partitioned_engine import PartitionedEngine

__all__ = ["COMPILED_SHARE", "build", "raised_again"]

COMPILED_SHARE = 50
"""One graph of so many is compiled by TVM, too."""

UNCOMPILED = (tvm.error.InternalError, AssertionError, AttributeError)
REFUSALS = ("shapes of x and y are inconsistent", "module 'tvm.topi.nn' has no attribute 'pixel_shuffle'")
"""What TVM says of a product along two extents that are the same expression, and of a kernel it lacks."""

CHANNELS_LAST = {
    "relax.nn.conv2d": "NHWC",
    "relax.nn.max_pool2d": "NHWC",
    "relax.nn.avg_pool2d": "NHWC",
}

Engine = Callable[[Sequence[np.ndarray]], list[np.ndarray]]


def build(mod: tvm.IRModule, seed: int) -> Mapping[str, Engine]:
    """The forms of a graph."""
    prepared = PrepareForInference()(mod)
    forms = {
        "prepared": prepared,
        "planned": PlanLayout(["dnnl"])(prepared),
        "channels last": TransformLayout(CHANNELS_LAST)(mod),
    }
    engines: dict[str, Engine] = {name: PartitionedEngine(form, _no_region) for name, form in forms.items()}
    raised = raised_again(mod)
    engines["raised"] = _no_lowering if raised is None else PartitionedEngine(raised, _no_region)
    if seed % COMPILED_SHARE == 0:
        engines["prepared, on TVM"] = _on_tvm(prepared, mod)
    if seed % COMPILED_SHARE == 0 and raised is not None:
        engines["raised, on TVM"] = _on_tvm(raised, mod)
    return engines


def raised_again(mod: tvm.IRModule) -> tvm.IRModule | None:
    """Lowered, as the host's code is, and raised again; None if TVM cannot."""
    try:
        lowered = LegalizeWithOpInfo()(repaired(mod))
    except InvalidModuleError as error:
        if not str(error).endswith(REFUSALS):
            raise
        return None
    return RaiseToOps()(lowered)


def _on_tvm(form: tvm.IRModule, mod: tvm.IRModule) -> Engine:
    """A form that TVM compiles, if it can compile what the form was made of."""
    try:
        return compiled(form)
    except UNCOMPILED:
        if _is_compilable(mod):
            raise
        return _no_compiling


def _is_compilable(mod: tvm.IRModule) -> bool:
    try:
        compiled(mod)
    except UNCOMPILED as error:
        if isinstance(error, tvm.error.InternalError) or str(error) in REFUSALS:
            return False
        raise
    return True


def _no_lowering(_inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    raise LeftOutError("TVM cannot lower the graph")


def _no_compiling(_inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    raise LeftOutError("TVM cannot compile the graph")


def _no_region(_func: relax.Function, _names: Mapping[Any, str]) -> Any:
    raise AssertionError("no pass before annotation makes a region")


def compiled(mod: tvm.IRModule) -> Engine:
    """A module that TVM compiles as a build has it, with the repairs of the host.

    Without a limit of time: the time is TVM's, and an alarm in it may hang.
    """
    signal.setitimer(signal.ITIMER_PROF, 0)
    run = host_machine(repaired(mod))["main"]

    def call(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        answer = run(*map(tvm.runtime.tensor, inputs))
        return [value.numpy() for value in ([answer] if hasattr(answer, "numpy") else answer)]

    return call
