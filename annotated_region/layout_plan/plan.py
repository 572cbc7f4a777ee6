"""The plan of one binding block: the layout of each op, its cost, and a lower bound."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from annotated_region.layout_plan.options import Demands, StepOption, options_of, use_rank
from annotated_region.layout_plan.problem import LayoutProblem, Node, Option, Use, evaluate
from annotated_region.layout_plan.reading import ComputingBinding, bytes_of
from annotated_region.layout_plan.solver import LayoutSolution, greedy, solve
from annotated_region.layout_plan.views import Root, Storage, TensorView

__all__ = ["BlockPlan", "Cost", "Planner", "best_plan", "following_plan"]


@dataclass(frozen=True, slots=True, order=True)
class Cost:
    """The run-time cost of a plan, compared lexicographically.

    Attributes
    ----------
    bytes
        The total size of all transposed tensors.
    transposes
        The number of transposes.
    changed
        The number of ops that change layout; a tie-breaker.
    """

    bytes: int = 0
    transposes: int = 0
    changed: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.bytes + other.bytes, self.transposes + other.transposes, self.changed + other.changed
        )


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """The chosen option of each step of a block.

    Attributes
    ----------
    chosen
        The option of each step.
    cost
        The cost of the plan.
    lower_bound
        No plan with the same rules and demands costs less.
    """

    chosen: tuple[StepOption, ...]
    cost: Cost
    lower_bound: Cost


Planner = Callable[[Sequence[ComputingBinding], Sequence[TensorView], Sequence[Root]], BlockPlan]
"""Computes a plan from the steps of a block, the values that enter or leave it unchanged, and all roots."""


def best_plan(demands: Demands) -> Planner:
    """The planner that minimizes `Cost`: bytes, then transposes, then changes."""

    def plan(
        steps: Sequence[ComputingBinding], fixed: Sequence[TensorView], roots: Sequence[Root]
    ) -> BlockPlan:
        return _planned(steps, fixed, roots, demands, solve)

    return plan


def following_plan(demands: Demands) -> Planner:
    """The greedy planner: op by op, a demanded layout or the one that adds the least cost."""

    def follow(problem: LayoutProblem) -> LayoutSolution:
        choice = greedy(problem)
        return LayoutSolution(choice, evaluate(problem, choice), 0)

    def plan(
        steps: Sequence[ComputingBinding], fixed: Sequence[TensorView], roots: Sequence[Root]
    ) -> BlockPlan:
        return _planned(steps, fixed, roots, demands, follow)

    return plan


def _planned(
    steps: Sequence[ComputingBinding],
    fixed: Sequence[TensorView],
    roots: Sequence[Root],
    demands: Demands,
    solver: Callable[[LayoutProblem], LayoutSolution],
) -> BlockPlan:
    options = options_of(steps, fixed, demands)
    scale = _Scale(1 + sum(len(step.operands) + len(step.results) for step in steps) + len(fixed), roots)
    problem = scale.problem(options, fixed)
    solution = solver(problem)
    chosen = tuple(option[index] for option, index in zip(options, solution.choice, strict=False))
    return BlockPlan(chosen, scale.cost(solution.cost), scale.cost(solution.lower_bound))


class _Scale:
    """Packs bytes, transposes and changes into one integer that compares lexicographically: ``(bytes * most +
    transposes) * most + changes``.

    Parameters
    ----------
    most
        An upper bound, exclusive, on the numbers of transposes and of changes: the digit base.
    roots
        All values.
    """

    def __init__(self, most: int, roots: Sequence[Root]) -> None:
        self.most = most
        self.weights = tuple(0 if root.is_constant else (bytes_of(root) * most + 1) * most for root in roots)

    def cost(self, number: int) -> Cost:
        """Unpack an integer."""
        rest, changed = divmod(number, self.most)
        moved, transposes = divmod(rest, self.most)
        return Cost(moved, transposes, changed)

    def problem(
        self, options: Sequence[tuple[StepOption, ...]], fixed: Sequence[TensorView]
    ) -> LayoutProblem:
        """The problem in integers; an extra node with one option uses what enters or leaves the block."""
        numbers: dict[tuple[int, Storage], int] = {}

        def number(uses: Iterable[tuple[int, Storage]]) -> frozenset[Use]:
            ordered = sorted(uses, key=use_rank)
            return frozenset([(use[0], numbers.setdefault(use, len(numbers))) for use in ordered])

        nodes: list[Node] = [
            tuple(Option(number(option.uses), int(option.change is not None)) for option in row)
            for row in options
        ]
        given = [(view.root.number, view.storage()) for view in fixed if not view.root.is_constant]
        nodes.append((Option(number(given)),))
        return LayoutProblem(self.weights, tuple(nodes))
