"""PlanLayout: stores tensors in the layouts that targets demand, with as few transposes as possible.

It runs before annotation, on ops or on lowered code, and leaves ops with new attributes:

    x -> T -> conv (NHWC) -> T -> relu -> T -> conv (NHWC) -> T -> flatten
    x -> conv (NCHW) -> relu -> conv (NCHW) -> flatten              for dnnl, which takes any layout
    x -> T -> conv (NHWC) -> relu -> conv (NHWC) -> T -> flatten    for a target that demands NHWC

1.  An op of which some target demands a layout gets it. Targets that say nothing leave the choice open.
2.  Any other op with a layout rule gets what makes the plan cheapest: the fewest bytes that are transposed,
    then the fewest transposes, then the fewest changed ops.
3.  An op without a rule, and what the function takes and gives, keeps its layout.

Transposes that were there before belong to the plan as well: what can be read as it is stored is not moved.
Constants are stored anew at once. The search is exact on networks of the usual width; see `layout_plan`.
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
        The names of the targets, the most preferred first. Where their demands exclude each other, the
        first one's count.

    Raises
    ------
    UnknownTargetError
        A target has no backend.
    InvalidModuleError
        The module is not well formed.

    Notes
    -----
    A demand that an op cannot meet, such as blocks of 16 for 3 channels, is passed over. Blocks in which the
    order of bindings matters (in-place calls, effects) stay as they are.
    """

    targets: str | Sequence[str]

    def __post_init__(self) -> None:
        named = [self.targets] if isinstance(self.targets, str) else self.targets
        object.__setattr__(self, "targets", tuple(named))

    def transform_module(self, mod: tvm.IRModule, _context: tvm.ir.transform.PassContext) -> tvm.IRModule:
        """Called by TVM's pass manager."""
        return lowered_again(self.plan(mod))

    def plan(self, mod: tvm.IRModule) -> ModulePlan:
        """The plan itself: what it costs, and what no plan can be cheaper than."""
        demanded = [backend_of(target).layouts for target in self.targets]

        def demands(info: OpInfo) -> tuple[Demand, ...]:
            return demands_of([layouts.get(info.name, ()) for layouts in demanded])

        return plan_module(mod, best_plan(demands))


def demands_of(named: Sequence[Sequence[str]]) -> tuple[Demand, ...]:
    """What satisfies as many targets as possible, in their order.

    Parameters
    ----------
    named
        For each target, the layouts that it takes; none if it takes any.
    """
    left: tuple[Demand, ...] = ()
    for names in named:
        wanted = tuple(map(Demand.of, names))
        both = tuple(
            shared for one in left for other in wanted if (shared := one.and_also(other)) is not None
        )
        left = both or left or wanted
    return left
