"""The ranges of a function's values from their histograms, and the quantization steps of rounded values."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import relax

from annotated_region.expr_map import ExprMap
from annotated_region.quantizing.histogram import Histogram
from annotated_region.quantizing.plan import QuantizationPlan
from annotated_region.quantizing.ranges import ValueRange, chosen_range
from annotated_region.quantizing.reading import OpStep
from annotated_region.quantizing.roles import operands_of, rounded_positions
from annotated_region.quantizing.steps import Steps, steps_of

__all__ = ["RangeChoice", "SeenValues"]


@dataclass(frozen=True, slots=True)
class RangeChoice:
    """How histograms become ranges and steps.

    Attributes
    ----------
    method, percentile
        As for `ranges.chosen_range`.
    dtype
        The dtype of rounded values: ``"uint8"`` or ``"int8"``.
    symmetric
        Whether the zero point of int8 is 0.
    """

    method: str
    percentile: float
    dtype: str
    symmetric: bool


@dataclass(frozen=True)
class SeenValues:
    """The observed values of a function.

    Attributes
    ----------
    histograms
        The histograms by variable; results of carriers have none.
    choice
        How these become ranges.
    ranges
        The ranges computed so far; None for values that were always 0.
    """

    histograms: ExprMap[Histogram]
    choice: RangeChoice
    ranges: ExprMap[ValueRange | None]

    @staticmethod
    def of(histograms: ExprMap[Histogram], choice: RangeChoice) -> SeenValues:
        """The observed values given by histograms."""
        return SeenValues(histograms, choice, ExprMap())

    def range_of(self, plan: QuantizationPlan, value: relax.Var) -> ValueRange | None:
        """The range of a value, derived through carriers if it has no histogram; None if always 0."""
        if value not in self.ranges:
            self.ranges[value] = self._range(plan, value)
        return self.ranges[value]

    def _range(self, plan: QuantizationPlan, value: relax.Var) -> ValueRange | None:
        if value in self.histograms:
            histogram = self.histograms[value]
            choice = self.choice
            return None if histogram.is_zero else chosen_range(histogram, choice.method, choice.percentile)
        operands = [
            each for each in operands_of(plan.source.makers[value].view) if isinstance(each, relax.Var)
        ]
        return _joined([self.range_of(plan, each) for each in operands])

    def steps(self, plan: QuantizationPlan) -> ExprMap[Steps]:
        """The steps of each rounded value, shared within a group. Values that were always 0 have none."""
        right = _right_operands(plan)
        result: ExprMap[Steps] = ExprMap()
        for group in plan.groups():
            sources = [value for value in group if not plan.carried_from(value)]
            reach = _joined([self.range_of(plan, value) for value in sources])
            # Engines require an int8 right operand; the left operand may be int8 or uint8.
            dtype = "int8" if any(value in right for value in group) else self.choice.dtype
            if reach is not None:
                steps = steps_of(reach, dtype, symmetric=self.choice.symmetric)
                for value in group:
                    result[value] = steps
        return result

    def reads_zeros(self, plan: QuantizationPlan, step: OpStep) -> bool:
        """Whether a rounded operand of a product was 0 in all inputs."""
        operands = [step.view.args[position] for position in rounded_positions(step.view)]
        return any(self.range_of(plan, each) is None for each in operands if isinstance(each, relax.Var))


def _joined(ranges: list[ValueRange | None]) -> ValueRange | None:
    known = [each for each in ranges if each is not None]
    if not known:
        return None
    result = known[0]
    for each in known[1:]:
        result = result.joined(each)
    return result


def _right_operands(plan: QuantizationPlan) -> ExprMap[None]:
    rights = (step.view.args[1] for step in plan.products if len(rounded_positions(step.view)) > 1)
    return ExprMap((value, None) for value in rights)
