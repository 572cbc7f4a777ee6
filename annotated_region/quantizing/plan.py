"""Plans which ops of a function read int8, which values are rounded, and which of these share a scale.

::

    x ---> q/dq ---> conv ---> add(bias) ---> relu ---> q/dq ---+---> conv ---> add ---> q/dq ---> ...
           w: dq ----^                                          +--------------^

Values are rounded in front of ops that read int8, but not between a product and the float ops that follow
it, which engines fuse with the product:

1.  A product reads int8, unless it is kept in float.
2.  A carrier reads int8 if all readers of its result do. Its operands and its result share a scale, so that
    nothing is rounded twice; for ``concat`` this loses nothing, because the joined tensor has one scale
    anyway.
3.  A residual sum whose result is rounded adds int8 to a float: among its operands, the product computed
    last stays in float, because the sum is fused with it. The other operand is rounded if a product computes
    it, or if it is rounded anyway.
4.  A mean reads int8 if its operand is rounded anyway.

Cases 2 to 4 depend on each other and are applied to a fixed point. This terminates, because an op that reads
int8 is never changed back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import tvm_ffi
from tvm import relax

from annotated_region.expr_map import ExprMap
from annotated_region.graphs.disjoint_sets import DisjointSets
from annotated_region.quantizing.reading import OpStep, ReadFunction
from annotated_region.quantizing.roles import (
    CARRIERS,
    CURVES,
    MEANS,
    PRODUCTS,
    is_float,
    operands_of,
    rounded_positions,
    why_float,
)

__all__ = ["QuantizationPlan", "planned", "products_of"]


@dataclass(frozen=True)
class QuantizationPlan:
    """The quantization of a function.

    Attributes
    ----------
    source
        The analyzed function.
    products
        The steps that become int8 products, in program order.
    reads
        By the variable of a step, the operands that it reads as int8.
    """

    source: ReadFunction
    products: tuple[OpStep, ...]
    reads: ExprMap[ExprMap[None]] = field(default_factory=ExprMap)

    def reads_int8(self, step: OpStep, value: relax.Var) -> bool:
        """Whether a step reads a value as int8."""
        return step.var in self.reads and value in self.reads[step.var]

    def is_rounded(self, value: relax.Var) -> bool:
        """Whether any step reads a value as int8."""
        return any(
            step is not None and self.reads_int8(step, value) for step in self.source.readers_of(value)
        )

    def rounded_values(self) -> list[relax.Var]:
        """The values that are read as int8, in the order of their first reader."""
        found: ExprMap[None] = ExprMap()
        for step in self.source.steps:
            for value in self.reads.get(step.var, ExprMap()):
                found[value] = None
        return list(found)

    def carried_from(self, value: relax.Var) -> list[relax.Var]:
        """The operands of the int8 carrier that produces a value; empty if there is none."""
        step = self.source.makers.get(value)
        if step is None or step.view.name not in CARRIERS or step.var not in self.reads:
            return []
        return list(self.reads[step.var])

    def groups(self) -> list[list[relax.Var]]:
        """The rounded values, grouped by shared scale."""
        values = self.rounded_values()
        places: ExprMap[int] = ExprMap((value, place) for place, value in enumerate(values))
        sets = DisjointSets(len(values))
        for value in values:
            for operand in self.carried_from(value):
                sets.unite(places[operand], places[value])
        members: dict[int, list[relax.Var]] = {}
        for place, value in enumerate(values):
            members.setdefault(sets.find(place), []).append(value)
        return list(members.values())


def products_of(source: ReadFunction, kept: ExprMap[str]) -> ExprMap[str | None]:
    """By the variable of each product, the reason why it stays in float; None if it becomes int8.

    Parameters
    ----------
    source
        The function.
    kept
        The reasons for products that the user keeps in float, by their variable.
    """
    return ExprMap(
        (step.var, kept.get(step.var) or why_float(step.view))
        for step in source.steps
        if step.view.name in PRODUCTS
    )


def planned(source: ReadFunction, reasons: ExprMap[str | None]) -> QuantizationPlan:
    """The plan in which the products without a reason from `products_of` are int8.

    Notes
    -----
    O(ops) per iteration; the number of iterations is at most the length of a chain of carriers and sums.
    """
    steps = tuple(step for step in source.steps if step.var in reasons and reasons[step.var] is None)
    plan = QuantizationPlan(source, steps)
    for step in steps:
        for position in rounded_positions(step.view):
            _mark(plan, step, step.view.args[position])
    while sum(_extended(plan, step) for step in reversed(source.steps)):
        pass
    return plan


def _mark(plan: QuantizationPlan, step: OpStep, value: relax.Expr) -> bool:
    """Let a step read a value as int8; returns whether that is new."""
    known = plan.reads.setdefault(step.var, ExprMap())
    if not isinstance(value, relax.Var) or value in known:
        return False
    known[value] = None
    return True


def _extended(plan: QuantizationPlan, step: OpStep) -> bool:
    """Apply cases 2 to 4 to a step; returns whether the plan changed."""
    name = step.view.name
    if name in CARRIERS:
        return _carrier(plan, step)
    if name == "relax.add":
        return _sum(plan, step)
    return name in MEANS and _mean(plan, step, step.view.args[0])


def _mean(plan: QuantizationPlan, step: OpStep, value: relax.Expr) -> bool:
    return isinstance(value, relax.Var) and plan.is_rounded(value) and _mark(plan, step, value)


def _carrier(plan: QuantizationPlan, step: OpStep) -> bool:
    readers = plan.source.readers_of(step.var)
    if not all(reader is not None and plan.reads_int8(reader, step.var) for reader in readers):
        return False
    operands = [each for each in operands_of(step.view) if isinstance(each.ty, relax.TensorType)]
    if not readers or not all(isinstance(each, relax.Var) and is_float(each) for each in operands):
        return False
    return sum(_mark(plan, step, each) for each in operands) > 0


def _sum(plan: QuantizationPlan, step: OpStep) -> bool:
    left, right = step.view.args
    if not (isinstance(left, relax.Var) and isinstance(right, relax.Var) and is_float(left)):
        return False
    if not tvm_ffi.structural_equal(left.ty, right.ty) or not _is_rounded_later(plan, step):
        return False
    fresh = {place: _following_product(plan, each) for place, each in enumerate((left, right))}
    in_pass = _last(fresh)
    others = [each for place, each in enumerate((left, right)) if place != in_pass]
    wanted = [each for each in others if plan.is_rounded(each) or _following_product(plan, each) is not None]
    return sum(_mark(plan, step, each) for each in wanted) > 0


def _is_rounded_later(plan: QuantizationPlan, step: OpStep) -> bool:
    """Whether the result of a step is rounded, directly or after a chain of curves."""
    following: OpStep | None = step
    while following is not None:
        if plan.is_rounded(following.var):
            return True
        following = plan.source.only_reader(following.var)
        if following is not None and following.view.name not in CURVES:
            return False
    return False


def _last(products: Mapping[int, OpStep | None]) -> int | None:
    """The operand whose product is computed last; None if no operand has a product."""
    found = [(product.place, place) for place, product in products.items() if product is not None]
    return max(found)[1] if found else None


def _following_product(plan: QuantizationPlan, value: relax.Expr) -> OpStep | None:
    """The int8 product that a value is fused with: only curves and constants are in between."""
    while isinstance(value, relax.Var) and len(plan.source.readers_of(value)) == 1:
        step = plan.source.makers.get(value)
        if step is None:
            return None
        if step.view.name in PRODUCTS:
            return step if step.var in plan.reads else None
        is_biased = step.view.name in ("relax.add", "relax.multiply") and step.view.constant(1) is not None
        if not is_biased and step.view.name not in CURVES:
            return None
        value = step.view.args[0]
    return None
