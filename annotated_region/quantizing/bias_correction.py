"""Takes out of biases what rounding adds to the results of products on average.

The rounding errors of a weight add up to a shift of each channel, because the values that it is multiplied
with have a mean. That shift is known from the calibration inputs, and is taken off the bias behind the
product, at no cost when the model runs (Nagel et al. 2019, "Data-free quantization through weight
equalization and bias correction", section 4.2, with measured means).

Means of few inputs hold chance, too. So of all channels' means together the share stays that is more than
chance explains: the positive-part estimator of James and Stein (1961, "Estimation with quadratic loss").
One input alone tells nothing of chance, and corrects nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from tvm import relax

from annotated_region.expr_map import ExprMap
from annotated_region.quantizing.reading import OpStep, ReadFunction

__all__ = ["ChannelShifts", "corrected_biases"]


@dataclass
class ChannelShifts:
    """By how much rounding shifts the channels of one product's result, input by input.

    Attributes
    ----------
    count
        How many inputs there were.
    total, squares
        The shift of each channel, and its square, added up.
    """

    count: int = 0
    total: np.ndarray = field(default_factory=lambda: np.zeros(1))
    squares: np.ndarray = field(default_factory=lambda: np.zeros(1))

    def add(self, shifts: np.ndarray) -> None:
        """Take the shifts of another input."""
        wide = shifts.astype(np.float64)
        self.total, self.squares = self.total + wide, self.squares + wide**2
        self.count += 1

    def certain(self) -> np.ndarray:
        """The mean shift of each channel, made smaller by the share that chance explains."""
        if self.count < 2:
            return np.zeros_like(self.total)
        mean = self.total / self.count
        spread = np.maximum(self.squares / self.count - mean**2, 0) / (self.count - 1)
        size = float(np.square(mean).sum())
        certain: np.ndarray = mean * (max(0.0, 1 - float(spread.sum()) / size) if size else 0.0)
        return certain


def corrected_biases(source: ReadFunction, shifts: ExprMap[ChannelShifts]) -> ExprMap[np.ndarray]:
    """By the variable of the ``add`` that brings it, each product's bias less its shift, where it has one."""
    result: ExprMap[np.ndarray] = ExprMap()
    for product in shifts:
        step, certain = _bias_behind(source, product), shifts[product].certain()
        bias = None if step is None else step.view.constant(1)
        if step is not None and bias is not None and bias.size == certain.size and certain.any():
            result[step.var] = (bias - certain.reshape(bias.shape)).astype(bias.dtype)
    return result


def _bias_behind(source: ReadFunction, product: relax.Var) -> OpStep | None:
    reader = source.only_reader(product)
    is_bias = reader is not None and reader.view.name == "relax.add" and product.same_as(reader.view.args[0])
    return reader if is_bias else None
