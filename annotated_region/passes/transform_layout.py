"""TransformLayout: changes the layout of chosen ops.

The chosen ops get the requested layouts, with transposes where needed. A layout propagates to the users of an
op that have a layout rule:

    x -> conv -> relu -> flatten            conv to NHWC
    x -> T -> conv' -> relu' -> T^-1 -> flatten

1.  A chosen op with a layout attribute: its operands are transposed, its attributes are changed by the rule.
2.  An op with a rule that accepts the layout of its operands: it runs in that layout.
3.  Any other op: its operands are transposed back to the original layout.

Case 3 makes the result correct for any set of rules. The caller chooses the ops; `PlanLayout` chooses them
by cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import tvm
from tvm import relax

from annotated_region.checked import checked_class
from annotated_region.layout_plan import Demand, ModulePlan, following_plan, plan_module
from annotated_region.op_info.info import OpInfo
from annotated_region.passes.legalize_with_op_info import LegalizeWithOpInfo
from annotated_region.passes.module_pass import ModulePass, module_pass

__all__ = ["TransformLayout", "lowered_again"]


@module_pass
@checked_class
@dataclass(frozen=True)
class TransformLayout(ModulePass):
    """Apply layouts to the chosen ops of a module, lowered or not.

    Parameters
    ----------
    layouts
        The requested layout by op name, such as ``{"relax.nn.conv2d": "NHWC"}``; ``"NHWC/OHWI"`` also gives
        the kernel layout, ``"NCHW8c"`` is blocked.

    Raises
    ------
    InvalidModuleError
        The module is not well formed.

    Notes
    -----
    A lowered module stays lowered. In a partly lowered one, lowered calls that change become ops. An op that
    cannot have the requested layout, such as blocks of 8 for 3 channels, is unchanged.
    """

    layouts: Mapping[str, str]
    _demands: Mapping[str, tuple[Demand, ...]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        demands = {name: (Demand.of(layout),) for name, layout in self.layouts.items()}
        object.__setattr__(self, "_demands", demands)

    def transform_module(self, mod: tvm.IRModule, _context: tvm.ir.transform.PassContext) -> tvm.IRModule:
        """Called by TVM's pass manager."""

        def demands(info: OpInfo) -> tuple[Demand, ...]:
            return self._demands.get(info.name, ())

        return lowered_again(plan_module(mod, following_plan(demands)))


def lowered_again(plan: ModulePlan) -> tvm.IRModule:
    """The module of a plan, lowered again if the original module was lowered."""
    if not plan.was_lowered:
        return plan.mod
    return relax.transform.DeadCodeElimination()(LegalizeWithOpInfo()(plan.mod))
