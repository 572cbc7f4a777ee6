"""Plans and rewrites each binding block of a module separately."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import tvm
from tvm import relax

from annotated_region.functions.modules import replace_functions
from annotated_region.functions.rewriting import FunctionRewriter, rebind
from annotated_region.layout_plan.plan import BlockPlan, Cost, Planner
from annotated_region.layout_plan.reading import ComputingBinding, Names, read_block, variables_of
from annotated_region.layout_plan.transposes import transposes_in
from annotated_region.layout_plan.views import TensorView
from annotated_region.layout_plan.writing import BlockWriter

__all__ = ["ModulePlan", "plan_module"]

_OVERWRITING = ("relax.call_tir_inplace", "relax.call_inplace_packed")


@dataclass(frozen=True, slots=True)
class ModulePlan:
    """A module in new layouts.

    Attributes
    ----------
    mod
        The module.
    blocks
        The plan of each planned block; functions in alphabetical order.
    was_lowered
        Whether all calls of the original module were lowered. Changed ones are ops, which have to be lowered
        again.
    """

    mod: tvm.IRModule
    blocks: tuple[BlockPlan, ...]
    was_lowered: bool

    @property
    def cost(self) -> Cost:
        """The total cost of all plans."""
        return sum((plan.cost for plan in self.blocks), Cost())

    @property
    def lower_bound(self) -> Cost:
        """A lower bound on the total cost."""
        return sum((plan.lower_bound for plan in self.blocks), Cost())


def plan_module(mod: tvm.IRModule, planner: Planner) -> ModulePlan:
    """Plan and rewrite every block of the functions of a module.

    Raises
    ------
    InvalidModuleError
        The module is not well formed.
    """
    writer = _ModuleWriter(mod, planner)
    changed = replace_functions(mod, lambda _, func: writer.function(func))
    was_lowered = "call_tir" in writer.kinds and "op" not in writer.kinds
    return ModulePlan(changed, tuple(writer.plans), was_lowered and not changed.same_as(mod))


class _ModuleWriter:
    def __init__(self, mod: tvm.IRModule, planner: Planner) -> None:
        self.mod = mod
        self.planner = planner
        self.plans: list[BlockPlan] = []
        self.kinds: set[str] = set()
        self.escaping: set[relax.Var] = set()

    def function(self, func: relax.Function) -> relax.Function:
        """The function in new layouts."""
        self.escaping = _escaping(func)
        return FunctionRewriter(self.bindings, lambda expr: expr).function(func)

    def bindings(self, block: relax.BindingBlock, rewriter: FunctionRewriter) -> Iterable[relax.Binding]:
        """The bindings of a block in new layouts."""

        def nested(binding: relax.Binding) -> relax.Binding:
            return rebind(binding, rewriter.nested(binding.value))

        if _may_overwrite(block):
            return [nested(binding) for binding in block.bindings]
        self.kinds.update(_kinds(block))
        names = Names()
        steps = read_block(block, self.mod, names)
        leaving = [binding.var for binding in block.bindings if binding.var in self.escaping]
        plan = self.planner(steps, _fixed(steps, leaving, names), names.roots)
        self.plans.append(plan)
        unchanged = all(option.change is None for option in plan.chosen)
        if unchanged and plan.cost >= transposes_in(block, self.mod):
            return [nested(binding) for binding in block.bindings]
        writer = BlockWriter(block, names, nested)
        writer.write(steps, plan.chosen)
        writer.provide(leaving)
        return writer.bindings


def _fixed(steps: list[ComputingBinding], leaving: list[relax.Var], names: Names) -> list[TensorView]:
    """The values read from outside the block, and those used outside it, in their original storage."""
    made = {view.root.number for step in steps for view in step.results if view is not None}
    read = [view for step in steps for view in step.operands]
    left = [view for var in leaving for view in names.fields(var)]
    entering = [
        TensorView.of(view.root)
        for view in (*read, *left)
        if view is not None and view.root.number not in made
    ]
    return [*dict.fromkeys(entering), *(view for view in left if view is not None)]


def _may_overwrite(block: relax.BindingBlock) -> bool:
    """Whether the bindings have dependences beyond def-use edges, through effects or in-place updates."""
    calls = [binding.value for binding in block.bindings if isinstance(binding.value, relax.Call)]
    if isinstance(block, relax.DataflowBlock):
        return any(isinstance(call.op, tvm.ir.Op) and call.op.name in _OVERWRITING for call in calls)
    return any(
        not isinstance(call.op, tvm.ir.Op) or call.op.name in _OVERWRITING or not call.op.get_attr("FPurity")
        for call in calls
    )


def _kinds(block: relax.BindingBlock) -> Iterator[str]:
    """For each call of a block, whether it is lowered or an op that can be."""
    for binding in block.bindings:
        if isinstance(binding.value, relax.Call) and isinstance(binding.value.op, tvm.ir.Op):
            if binding.value.op.name == "relax.call_tir":
                yield "call_tir"
            elif binding.value.op.get_attr("FLegalize") is not None:
                yield "op"


def _escaping(func: relax.Function) -> set[relax.Var]:
    """The variables that are used outside the block that binds them."""
    return set(_used_elsewhere(func.body))


def _used_elsewhere(body: relax.Expr) -> Iterator[relax.Var]:
    """The variables in `body` that are used outside the block that binds them."""
    if not isinstance(body, relax.SeqExpr):
        yield from variables_of(body)
        return
    for block in body.blocks:
        bound = {binding.var for binding in block.bindings}
        for binding in block.bindings:
            for var in variables_of(binding.value):
                if var not in bound:
                    yield var
            yield from _used_in_branches(binding.value)
    yield from variables_of(body.body)


def _used_in_branches(value: relax.Expr) -> Iterator[relax.Var]:
    bodies = []
    if isinstance(value, relax.If):
        bodies = [value.true_branch, value.false_branch]
    elif isinstance(value, relax.Function):
        bodies = [value.body]
    for body in bodies:
        yield from _used_elsewhere(body)
