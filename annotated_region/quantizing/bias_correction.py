"""Corrects biases for the mean error that rounding adds to the results of products.

The rounding errors of a weight shift the mean of each channel, because the activations have nonzero means.
The shift is measured on the calibration inputs and subtracted from the bias that follows the product, at no
cost at run time (Nagel et al. 2019, "Data-free quantization through weight equalization and bias
correction", section 4.2, with measured means).

Means over few inputs are noisy. They are therefore shrunk by the share that noise explains: the positive-part
estimator of James and Stein (1961, "Estimation with quadratic loss"), over all channels together. A single
input gives no estimate of the noise, and no correction.
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
    """The shifts of the channels of one product's result by rounding, accumulated over inputs.

    Attributes
    ----------
    count
        The number of inputs.
    total, squares
        The sums of the shift of each channel, and of its square.
    """

    count: int = 0
    total: np.ndarray = field(default_factory=lambda: np.zeros(1))
    squares: np.ndarray = field(default_factory=lambda: np.zeros(1))

    def add(self, shifts: np.ndarray) -> None:
        """Accumulate the shifts of another input."""
        wide = shifts.astype(np.float64)
        self.total, self.squares = self.total + wide, self.squares + wide**2
        self.count += 1

    def certain(self) -> np.ndarray:
        """The mean shift of each channel, shrunk by the share that noise explains."""
        if self.count < 2:
            return np.zeros_like(self.total)
        mean = self.total / self.count
        spread = np.maximum(self.squares / self.count - mean**2, 0) / (self.count - 1)
        size = float(np.square(mean).sum())
        certain: np.ndarray = mean * (max(0.0, 1 - float(spread.sum()) / size) if size else 0.0)
        return certain


def corrected_biases(source: ReadFunction, shifts: ExprMap[ChannelShifts]) -> ExprMap[np.ndarray]:
    """By the variable of its ``add``, the bias of each product minus the shift, for products with a bias."""
    result: ExprMap[np.ndarray] = ExprMap()
    for product in shifts:
        step, certain = _following_bias(source, product), shifts[product].certain()
        bias = None if step is None else step.view.constant(1)
        if step is not None and bias is not None and bias.size == certain.size and certain.any():
            result[step.var] = (bias - certain.reshape(bias.shape)).astype(bias.dtype)
    return result


def _following_bias(source: ReadFunction, product: relax.Var) -> OpStep | None:
    reader = source.only_reader(product)
    is_bias = reader is not None and reader.view.name == "relax.add" and product.same_as(reader.view.args[0])
    return reader if is_bias else None
