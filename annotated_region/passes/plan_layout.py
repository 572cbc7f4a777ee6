"""PlanLayout: assigns the layouts that targets demand, with as few transposes as possible.

It runs before annotation, on ops or on lowered code, and rewrites layout attributes:

    x -> T -> conv (NHWC) -> T -> relu -> T -> conv (NHWC) -> T -> flatten
    x -> conv (NCHW) -> relu -> conv (NCHW) -> flatten              for dnnl, which takes any layout
    x -> T -> conv (NHWC) -> relu -> conv (NHWC) -> T -> flatten    for a target that demands NHWC

1.  An op gets the layout that a target demands for it. Targets without a demand accept any layout.
2.  Any other op with a layout rule gets the layout that minimizes, lexicographically, the bytes transposed,
    the number of transposes and the number of changed ops.
3.  Ops without a rule, parameters and results keep their layouts.

Existing transposes take part in the plan and are removed where the reader can use the stored layout.
Constants are transposed at compile time. The search is exact for networks of usual width; see `layout_plan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tvm

from annotated_region.checked import checked_class
from annotated_region.layout_plan import Demand, ModulePlan, best_plan, plan_module
from annotated_region.op_info.info import OpInfo
from annotated_region.passes.module_pass import ModulePass, module_pass
from annotated_region.passes.transform_layout import lowered_again
from annotated_region.targets.backend import backend_of

__all__ = ["PlanLayout", "demands_of"]


@module_pass
@checked_class
@dataclass(frozen=True)
class PlanLayout(ModulePass):
    """Choose the layout of every op.

    Parameters
    ----------
    targets
        The names of the targets in order of preference. Where their demands conflict, the earlier target
        wins.

    Raises
    ------
    UnknownTargetError
        A target has no backend.
    InvalidModuleError
        The module is not well formed.

    Notes
    -----
    A demand that an op cannot meet, such as blocks of 16 for 3 channels, is ignored. Binding blocks in which
    the order of bindings matters (in-place calls, effects) are unchanged.
    """

    targets: str | Sequence[str]

    def __post_init__(self) -> None:
        named = [self.targets] if isinstance(self.targets, str) else self.targets
        object.__setattr__(self, "targets", tuple(named))

    def transform_module(self, mod: tvm.IRModule, _context: tvm.ir.transform.PassContext) -> tvm.IRModule:
        """Called by TVM's pass manager."""
        return lowered_again(self.plan(mod))

    def plan(self, mod: tvm.IRModule) -> ModulePlan:
        """The plan itself, with its cost and a lower bound on the cost of any plan."""
        demanded = [backend_of(target).layouts for target in self.targets]

        def demands(info: OpInfo) -> tuple[Demand, ...]:
            return demands_of([layouts.get(info.name, ()) for layouts in demanded])

        return plan_module(mod, best_plan(demands))


def demands_of(named: Sequence[Sequence[str]]) -> tuple[Demand, ...]:
    """The demands that satisfy as many targets as possible, earlier targets first.

    Parameters
    ----------
    named
        For each target, the layouts that it accepts; empty if it accepts any.
    """
    left: tuple[Demand, ...] = ()
    for names in named:
        wanted = tuple(map(Demand.of, names))
        both = tuple(
            shared for one in left for other in wanted if (shared := one.and_also(other)) is not None
        )
        left = both or left or wanted
    return left
