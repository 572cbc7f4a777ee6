"""TransformLayout: stores the tensors of chosen ops in another layout.

The ops get what is asked for, and the transposes that this needs. What follows an op takes over its layout if
there is a rule for it:

    x -> conv -> relu -> flatten            conv to NHWC
    x -> T -> conv' -> relu' -> T^-1 -> flatten

1.  A chosen op with a layout attribute: its operands are transposed, its attributes are changed by the rule.
2.  An op with a rule that takes the layout in which its operands come: it stays in that layout.
3.  Any other op: it gets what it got before.

So the result is right whichever rules exist. No choice is made here: which ops to choose is the caller's;
`PlanLayout` chooses.
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
        The wanted layout by op name, such as ``{"relax.nn.conv2d": "NHWC"}``; ``"NHWC/OHWI"`` tells that of
        the kernel as well, ``"NCHW8c"`` has blocks.

    Raises
    ------
    InvalidModuleError
        The module is not well formed.

    Notes
    -----
    A lowered module stays lowered. In a mixed one, lowered calls that change become ops. A layout that an op
    cannot have, such as blocks of 8 for 3 channels, leaves the op as it was.
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
    """The module of a plan, lowered if it was."""
    if not plan.was_lowered:
        return plan.mod
    return relax.transform.DeadCodeElimination()(LegalizeWithOpInfo()(plan.mod))
