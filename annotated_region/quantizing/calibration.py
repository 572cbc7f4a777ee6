"""Runs a function on the calibration inputs, and collects histograms of the values to be rounded.

Only the values of one input and one portion of taps are held at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from tvm import relax

from annotated_region.arguments import require_kind
from annotated_region.errors import InputError, UsageError
from annotated_region.expr_map import ExprMap, ExprSet
from annotated_region.inputs import Arguments, arguments_for
from annotated_region.origins import described
from annotated_region.quantizing.histogram import Histogram
from annotated_region.quantizing.taps import in_portions, sizes_of, tapped

__all__ = ["Inputs", "Run", "arguments_of", "counted", "relative_error"]

Inputs = Iterable[Mapping[str, np.ndarray] | Sequence[np.ndarray] | np.ndarray]
Run = Callable[[Arguments], list[np.ndarray]]
Build = Callable[[relax.Function], Run]
"""Builds a function that returns a tuple of tensors."""

_INSTEAD = (
    "a list of inputs, each a dict of arrays by the names of the parameters, or the arrays in their order"
)


def arguments_of(func: relax.Function, inputs: Inputs) -> Iterator[Arguments]:
    """The inputs in turn, matched with the parameters of a function.

    Raises
    ------
    InputError
        An input does not match; the message gives its number, from 0. Or there are none.
    UsageError
        `inputs` is not a sequence of inputs.
    """
    number = -1
    for number, given in enumerate(inputs):
        arrays = [given] if isinstance(given, np.ndarray) else given
        require_kind(arrays, (Mapping, Sequence), f"calibration input {number}", _INSTEAD)
        if isinstance(arrays, str):
            raise UsageError(f"the calibration inputs are one input, or names; pass {_INSTEAD}")
        try:
            arguments = arguments_for(func, arrays)
        except InputError as error:
            raise InputError(f"calibration input {number}: {error}") from error
        yield arguments
    if number < 0:
        raise InputError(
            "there are no calibration inputs, so the ranges of values are unknown; pass some, in a "
            "list or another object that can be iterated repeatedly, unlike a generator"
        )


def counted(
    func: relax.Function,
    values: Sequence[relax.Var],
    inputs: Inputs,
    build: Build,
    limit: int,
    advance: Callable[[int], None],
) -> tuple[ExprMap[Histogram], int]:
    """Collect histograms of the values of some variables of a function over all inputs.

    Parameters
    ----------
    func
        The function.
    values
        Variables of its blocks, and parameters; the latter are taken from the inputs.
    inputs
        The inputs; iterated over once per portion of taps.
    build
        Builds the function with taps.
    limit
        The maximum number of bytes of tapped values per input, unless a single value exceeds it.
    advance
        Called with the number of completed runs.

    Returns
    -------
    The histograms, and the number of inputs.

    Raises
    ------
    InputError
        An input does not match, there are none, or a value is not finite.
    """
    first = next(arguments_of(func, inputs))
    params = ExprSet(func.params)
    histograms: ExprMap[Histogram] = ExprMap((value, Histogram()) for value in values)
    given = [value for value in values if value in params]
    sizes = sizes_of(func, first.extents)
    inside = list(in_portions([value for value in values if value not in params], sizes, limit))
    total = 0
    for portion in inside or [[]]:
        run = build(tapped(func, portion)) if portion else _nothing
        total = 0
        for number, arguments in enumerate(arguments_of(func, inputs)):
            for value, array in zip(portion, run(arguments), strict=True):
                _count(histograms[value], value, array, number)
            for value in given if portion is (inside or [portion])[0] else ():
                _count(histograms[value], value, arguments.arrays[value.name], number)
            total += 1
            advance(1)
    return histograms, total


def _nothing(_arguments: Arguments) -> list[np.ndarray]:
    return []


def _count(histogram: Histogram, value: relax.Var, array: np.ndarray, number: int) -> None:
    if not np.isfinite(array).all():
        raise InputError(
            f"calibration input {number} makes {described(value)} infinite or NaN, for which there is no "
            "range; leave the input out, or keep the products that read it in float (keep=)"
        )
    histogram.add(array)


def relative_error(found: Sequence[Sequence[np.ndarray]], wanted: Sequence[Sequence[np.ndarray]]) -> float:
    """The root mean square error of results, over all floats, relative to that of the reference."""
    error = size = 0.0
    for one, other in zip(found, wanted, strict=True):
        for left, right in zip(one, other, strict=True):
            if right.dtype.kind == "f":
                exact = right.astype(np.float64)
                error += float(np.square(left.astype(np.float64) - exact).sum())
                size += float(np.square(exact).sum())
    return float(np.sqrt(error / size)) if size else float(np.sqrt(error))
