"""Writes local response normalization as one operator, which OpenVINO has a kernel for.

TVM imports ONNX's LRN as arithmetic around a pooling over channels, and OpenVINO computes these as they are,
at two to three times the cost::

    x --> x * x --> Unsqueeze --> AveragePool over channels --> Squeeze --> alpha * . + bias --> . ^ beta
    |                                                                                             |
    +----------------------------------------> Div <----------------------------------------------+

The bias must be a whole number: OpenVINO 2026.4 truncates it to one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from annotated_region.backends.onnx_emitter.graph import Graph, Operator

__all__ = ["write_local_responses"]

_CHAIN = ("Pow", "Add", "Mul", "Squeeze", "AveragePool", "Unsqueeze", "Mul")
"""The operators that compute the divisor, last first."""
_LARGEST = 1 << 24
"""The largest bias that is written; the plugin keeps it in 32 bits."""


@dataclass(frozen=True, slots=True)
class _OperatorValues:
    """The operators and the constants of a graph."""

    makers: Mapping[str, Operator]
    constants: Mapping[str, np.ndarray]

    def chain(self, name: str) -> Sequence[Operator]:
        """The producers of a value along their first operands, as far as they have the form above."""
        found: list[Operator] = []
        for kind in _CHAIN:
            maker = self.makers.get(name)
            if maker is None or maker.kind != kind:
                break
            found.append(maker)
            name = maker.inputs[0]
        return found

    def number(self, name: str) -> float | None:
        """The value of a constant with a single element, if it is one."""
        value = self.constants.get(name)
        return float(value.item()) if value is not None and value.size == 1 else None


def write_local_responses(graph: Graph) -> None:
    """Replace each quotient of the form above by the operator `LRN`; what only it has read is removed."""
    makers = {name: each for each in graph.operators for name in each.outputs}
    values = _OperatorValues(makers, graph.constants)
    written = [_response(graph, values, each) or each for each in graph.operators]
    if written != graph.operators:
        graph.operators = written
        graph.drop_unused()


def _response(graph: Graph, values: _OperatorValues, division: Operator) -> Operator | None:
    """The normalization that a quotient is, if it is one."""
    if division.kind != "Div" or graph.dtypes[division.outputs[0]] != "float32":
        return None
    data, divisor = division.inputs
    chain = values.chain(divisor)
    if len(chain) < len(_CHAIN):
        return None
    power, sum_, factor, squeeze, pool, unsqueeze, square = chain
    beta, bias, alpha = (values.number(each.inputs[1]) for each in (power, sum_, factor))
    size = _channels(pool)
    if beta is None or bias is None or alpha is None or size is None:
        return None
    is_response = (
        bias.is_integer()
        and abs(bias) <= _LARGEST
        and square.inputs == (data, data)
        and all(values.number(view.inputs[1]) == 1 for view in (unsqueeze, squeeze))
    )
    parameters = {"size": size, "alpha": alpha, "beta": beta, "bias": bias}
    return Operator("LRN", (data,), division.outputs, parameters) if is_response else None


def _channels(pool: Operator) -> int | None:
    """The odd number of channels that a pooling takes the mean of, zeros at both ends; None for others."""
    window = pool.attrs["kernel_shape"]
    if not isinstance(window, Sequence) or len(window) != 3:
        return None
    size = int(window[0])
    around = size // 2
    expected = {
        "kernel_shape": [size, 1, 1], "strides": [1, 1, 1], "pads": [around, 0, 0, around, 0, 0],
        "count_include_pad": 1,
    }  # fmt: skip
    return size if size % 2 == 1 and pool.attrs == expected else None
