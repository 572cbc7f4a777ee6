"""Quantizes a function: collects histograms, decides which products stay in float, rewrites the rest to int8.

Products stay in float because of the user's ``keep``, because int8 is not possible (see `roles.why_float`),
because an operand is always 0, for ``max_error``, or for ``accuracy``. For the latter, products are ranked by
their own error (`local_errors`), and the smallest sufficient number of the worst ones stays in float. The
number is found by bisection, which assumes that the total error decreases with it. If it does not, more
products than necessary may stay; the error of the result is measured in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice

import numpy as np
from tvm import relax

from annotated_region.costs.work import work_of
from annotated_region.errors import PinError
from annotated_region.expr_map import ExprMap
from annotated_region.inputs import Arguments
from annotated_region.origins import origin_of
from annotated_region.quantizing.bias_correction import ChannelShifts, corrected_biases
from annotated_region.quantizing.calibration import (
    Build,
    Inputs,
    arguments_of,
    counted,
    relative_error,
)
from annotated_region.quantizing.local_errors import RESULTS, measuring_function
from annotated_region.quantizing.plan import QuantizationPlan, planned, products_of
from annotated_region.quantizing.quantized_report import ProductReport, QuantizationReport
from annotated_region.quantizing.reading import OpStep, ReadFunction
from annotated_region.quantizing.roles import PRODUCTS
from annotated_region.quantizing.seen_values import RangeChoice, SeenValues
from annotated_region.quantizing.writing import quantized

__all__ = ["Quantizer", "Wishes"]

_EVALUATED, _MEASURED = 8, 64
"""The maximum numbers of inputs for measuring the error of the whole result, and of products."""
_NEAREST = 3


@dataclass(frozen=True, slots=True)
class Wishes:
    """The user's options; see `annotated_region.passes.Quantize`."""

    choice: RangeChoice
    keep: tuple[str, ...]
    max_error: float | None
    accuracy: float | None
    correct_bias: bool
    tap_bytes: int

    @property
    def measures(self) -> bool:
        """Whether the error of each product must be measured."""
        return self.correct_bias or self.max_error is not None or self.accuracy is not None


class Quantizer:
    """The quantization of one function.

    Parameters
    ----------
    func
        The prepared function.
    inputs
        The calibration inputs.
    build
        Builds functions to run.
    wishes
        The user's options.
    tell
        Called with a description of the current step.
    """

    def __init__(
        self, func: relax.Function, inputs: Inputs, build: Build, wishes: Wishes, tell: Callable[[str], None]
    ) -> None:
        self._func, self._inputs, self._build = func, inputs, build
        self._wishes, self._tell = wishes, tell
        self._source = ReadFunction.of(func)
        self._reasons = products_of(self._source, _kept(self._source, wishes.keep))
        self._errors: ExprMap[float] = ExprMap()
        self._shifts: ExprMap[ChannelShifts] = ExprMap()

    def quantized(self) -> tuple[relax.Function, QuantizationReport]:
        """The quantized function, and the report."""
        seen, inputs = self._seen()
        plan = planned(self._source, self._reasons)
        for step in plan.products:
            if seen.reads_zeros(plan, step):
                self._reasons[step.var] = "an operand is 0 in all calibration inputs, so it has no scale"
        error = None
        if self._wishes.measures:
            self._measure_products(seen)
        if self._wishes.max_error is not None:
            self._keep_inexact(self._wishes.max_error)
        if self._wishes.accuracy is not None:
            error = self._keep_until(self._wishes.accuracy, seen)
        return self._written(seen), QuantizationReport(
            tuple(map(self._entry, self._products())), inputs, error
        )

    def _products(self) -> list[OpStep]:
        return [step for step in self._source.steps if step.view.name in PRODUCTS]

    def _written(self, seen: SeenValues) -> relax.Function:
        plan = planned(self._source, self._reasons)
        variables = [step.var for step in plan.products if step.var in self._shifts]
        shifts = ExprMap((variable, self._shifts[variable]) for variable in variables)
        biases = corrected_biases(self._source, shifts) if self._wishes.correct_bias else ExprMap()
        return quantized(self._func, plan, seen.steps(plan), biases)

    def _seen(self) -> tuple[SeenValues, int]:
        """The histograms of all values that may be rounded, and the number of inputs."""
        plan = planned(self._source, self._reasons)
        values = [value for value in plan.rounded_values() if not plan.carried_from(value)]
        runs = 0

        def advance(done: int) -> None:
            nonlocal runs
            runs += done
            self._tell(f"calibrating: {runs} run{'s' * (runs != 1)}")

        self._tell("building the model with taps")
        histograms, total = counted(
            self._func, values, self._inputs, self._build, self._wishes.tap_bytes, advance
        )
        return SeenValues.of(histograms, self._wishes.choice), total

    def _evaluated(self) -> list[Arguments]:
        return list(self._first(_EVALUATED))

    def _first(self, count: int) -> Iterator[Arguments]:
        return islice(arguments_of(self._func, self._inputs), count)

    def _measure_products(self, seen: SeenValues) -> None:
        """Measure the error of each product in isolation."""
        plan: QuantizationPlan = planned(self._source, self._reasons)
        if not plan.products:
            return
        self._tell("measuring the error of each product")
        run = self._build(measuring_function(self._func, plan, seen.steps(plan)))
        squares = np.zeros((len(plan.products), 2))
        for step in plan.products:
            self._shifts[step.var] = ChannelShifts()
        for arguments in self._first(_MEASURED):
            results = run(arguments)
            for place, step in enumerate(plan.products):
                error, size, shifts = results[RESULTS * place : RESULTS * (place + 1)]
                squares[place] += (float(error), float(size))
                self._shifts[step.var].add(shifts)
        for step, (error, size) in zip(plan.products, squares, strict=True):
            self._errors[step.var] = float(np.sqrt(error / size)) if size else 0.0

    def _keep_inexact(self, most: float) -> None:
        for variable in self._errors:
            if self._errors[variable] > most:
                self._reasons[variable] = f"its result would be off by {self._errors[variable]:.2g} of it"

    def _keep_until(self, accuracy: float, seen: SeenValues) -> float:
        """Keep the fewest of the worst products in float that meet the accuracy; returns the error then."""
        evaluated = self._evaluated()
        run = self._build(self._func)
        wanted = [run(arguments) for arguments in evaluated]
        open_products = [step for step in self._products() if self._reasons[step.var] is None]
        # The sort is stable, so ties are in program order.
        ranked = sorted(open_products, key=lambda step: -self._errors[step.var])
        given = ExprMap((variable, self._reasons[variable]) for variable in self._reasons)

        def error_with(count: int) -> float:
            self._tell(f"accuracy: {count} of {len(ranked)} products in float")
            self._reasons = ExprMap((variable, given[variable]) for variable in given)
            for step in ranked[:count]:
                self._reasons[step.var] = "the whole result would be off by more than accuracy= allows"
            tried = self._build(self._written(seen))
            return relative_error([tried(arguments) for arguments in evaluated], wanted)

        found = error_with(0)
        if found <= accuracy:
            return found
        # Invariant: `few` in float are not enough; `many` are, or are all there is.
        few, many = 0, len(ranked)
        while many - few > 1:
            middle = (few + many) // 2
            found = error_with(middle)
            if found <= accuracy:
                many = middle
            else:
                few = middle
        return error_with(many)  # the last measurement may have been for another number

    def _entry(self, step: OpStep) -> ProductReport:
        return ProductReport(
            step.var.name,
            step.view.name,
            origin_of(step.var, step.view.call),
            work_of(step.view).flops / 2,
            self._reasons[step.var] or "",
            self._errors.get(step.var),
        )


def _kept(source: ReadFunction, names: Sequence[str]) -> ExprMap[str]:
    """By the variable of each product that matches one of these names, the reason that the user keeps it."""
    products = [step for step in source.steps if step.view.name in PRODUCTS]
    known = {step.var: _names_of(step) for step in products}
    found: ExprMap[str] = ExprMap()
    for name in names:
        matching = [variable for variable, called in known.items() if name in called]
        if not matching:
            every = list(dict.fromkeys(each for called in known.values() for each in called))
            nearest = get_close_matches(name, every, _NEAREST, cutoff=0.0)
            raise PinError(
                f"no product is called {name!r}; the nearest names are {', '.join(map(repr, nearest))}"
            )
        for variable in matching:
            found[variable] = f"it is kept ({name!r})"
    return found


def _names_of(step: OpStep) -> tuple[str, ...]:
    origin = origin_of(step.var, step.view.call)
    return (step.var.name, origin, origin.rpartition(" (")[0] or origin, step.view.name)
