"""The content of a reproducer: a function of static shapes, its inputs, and both results, recomputed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import tvm
from tvm import relax

from annotated_region.checking.comparison import compared
from annotated_region.checking.failure import Failure
from annotated_region.checking.program import MAIN
from annotated_region.checking.reference import built_reference
from annotated_region.checking.running import FAILURES, arrays_of
from annotated_region.checking.tolerance import tolerance_for
from annotated_region.compilation.executable import LinkedExecutable, machine_of
from annotated_region.errors import AnnotatedRegionError
from annotated_region.functions.external import External, external_function
from annotated_region.passes.build import build
from annotated_region.passes.pipeline import partition
from annotated_region.printable import first_line
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import expect, shape_vars_of

_UNANSWERED: tuple[type[Exception], ...] = (AnnotatedRegionError, *FAILURES)

__all__ = ["FaultCase", "answered", "fault_case"]


@dataclass(frozen=True)
class FaultCase:
    """A function that is wrong on a target.

    Attributes
    ----------
    func
        Straight-line code over tensors of static shape; its constants are parameters.
    inputs, constants
        The arguments, by parameter name.
    wanted, found
        By result name, the results of the reference and of the target; `found` is empty if the target raised.
    error
        The error that the target raised; empty if it returned.
    """

    func: relax.Function
    inputs: Mapping[str, np.ndarray]
    constants: Mapping[str, np.ndarray]
    wanted: Mapping[str, np.ndarray]
    found: Mapping[str, np.ndarray]
    error: str = ""

    @property
    def module(self) -> tvm.IRModule:
        """A module with only the function."""
        return tvm.IRModule({MAIN: self.func})

    @property
    def bound(self) -> tvm.IRModule:
        """The same with its constants bound."""
        return relax.transform.BindParams(MAIN, dict(self.constants))(self.module)


def fault_case(failure: Failure) -> FaultCase:
    """The wrong part of a region as a separate function."""
    made = external_function(
        failure.function.source, failure.nodes, (), {"global_symbol": MAIN}, bind_constants=False
    )
    assert made is not None, "what fails computes something"
    func = _without_shapes(made.func, failure)
    inputs, constants = _entering(made, func, failure)
    return FaultCase(func, inputs, constants, failure.wanted, failure.found, failure.error)


def _without_shapes(func: relax.Function, failure: Failure) -> relax.Function:
    """The function without shape parameters: symbolic extents become the values of the call."""
    names = {each.name for param in func.params for each in shape_vars_of(param.ty)}
    if not names:
        return func
    known = {var.name: count for var, count in failure.values.extents.items() if var.name in names}
    fixed = expect(relax.Function, func.bind_symbolic_vars(known))
    params = [param for param in fixed.params if not isinstance(param.ty, relax.ShapeType)]
    return relax.Function(params, fixed.body, fixed.ret_ty, fixed.is_pure, fixed.attrs)


def _entering(
    made: External, func: relax.Function, failure: Failure
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The inputs and the constants, by parameter name."""
    inputs: dict[str, np.ndarray] = {}
    constants: dict[str, np.ndarray] = {}
    tensors = [argument for argument in made.arguments if not isinstance(argument, relax.ShapeExpr)]
    for param, argument in zip(func.params, tensors, strict=True):
        leaf = failure.values.leaf_of(argument)
        kind = constants if isinstance(leaf.root, Constant) else inputs
        kind[param.name] = failure.values.array_of(leaf)
    return inputs, constants


def answered(case: FaultCase, failure: Failure) -> FaultCase | None:
    """The case with both results, recomputed as in a reproducer; None if the target is not wrong.

    A function that cannot be built does not count as wrong.
    """
    target = failure.function.target
    options = {target: dict(failure.options.get(target, {}))}
    try:
        wanted = _run(built_reference(case.bound, failure.reference), case)
        cut = partition(case.bound, [target], prepare=False, min_work={target: 0.0})
        executable = build(cut, options=options, progress=False)
    except _UNANSWERED:
        return None
    names = list(case.wanted)
    right = replace(case, wanted=dict(zip(names, wanted, strict=True)), found={}, error="")
    try:
        found = _run(executable, case)
    except FAILURES as error:
        return replace(right, error=first_line(error)) if failure.error else None
    wrong = replace(right, found=dict(zip(names, found, strict=True)))
    return wrong if not failure.error and _is_wrong(wrong, failure) else None


def _run(executable: LinkedExecutable, case: FaultCase) -> Sequence[np.ndarray]:
    arguments = [tvm.runtime.tensor(array) for array in case.inputs.values()]
    with machine_of(executable) as machine:
        return arrays_of(machine[MAIN](*arguments))


def _is_wrong(case: FaultCase, failure: Failure) -> bool:
    tolerance = failure.tolerance
    if tolerance.of_largest > 0:  # the default tolerance, so recompute it for the part
        tolerance = tolerance_for(case.func, failure.function.target, failure.options)
    return any(
        not compared(name, array, case.wanted[name], tolerance).ok for name, array in case.found.items()
    )
