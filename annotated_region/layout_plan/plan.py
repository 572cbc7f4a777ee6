"""The plan for one binding block: which op runs in which layout, what that costs, and how good it is."""

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
    """What a plan costs at run time.

    Attributes
    ----------
    bytes
        The bytes of all tensors that are transposed.
    transposes
        How many that are.
    changed
        How many ops have another layout than before; it decides between plans that are equal otherwise.
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
    """What each step of a block does.

    Attributes
    ----------
    chosen
        The option of each step.
    cost
        What the plan costs.
    lower_bound
        No plan with the same rules and demands costs less.
    """

    chosen: tuple[StepOption, ...]
    cost: Cost
    lower_bound: Cost


Planner = Callable[[Sequence[ComputingBinding], Sequence[TensorView], Sequence[Root]], BlockPlan]
"""Makes a plan from the steps of a block, what enters or leaves the block as it is, and all roots."""


def best_plan(demands: Demands) -> Planner:
    """The planner that moves the fewest bytes; of equal plans, with the fewest transposes, then changes."""

    def plan(
        steps: Sequence[ComputingBinding], fixed: Sequence[TensorView], roots: Sequence[Root]
    ) -> BlockPlan:
        return _planned(steps, fixed, roots, demands, solve)

    return plan


def following_plan(demands: Demands) -> Planner:
    """The planner that gives ops what is demanded, and lets each other op take on what it meets."""

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
    """Puts bytes, transposes and changes into one number, in this order of importance.

    Parameters
    ----------
    most
        More than there can be transposes, or changes.
    roots
        The values.
    """

    def __init__(self, most: int, roots: Sequence[Root]) -> None:
        self.most = most
        self.weights = tuple(0 if root.is_constant else (bytes_of(root) * most + 1) * most for root in roots)

    def cost(self, number: int) -> Cost:
        """The parts of a number."""
        rest, changed = divmod(number, self.most)
        moved, transposes = divmod(rest, self.most)
        return Cost(moved, transposes, changed)

    def problem(
        self, options: Sequence[tuple[StepOption, ...]], fixed: Sequence[TensorView]
    ) -> LayoutProblem:
        """The problem in numbers; one more node uses what enters or leaves the block."""
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
