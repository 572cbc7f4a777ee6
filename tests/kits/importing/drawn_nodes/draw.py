"""What draws a model of one ONNX operator, with the numbers that it is called with."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
import onnx
from onnx import helper, numpy_helper

__all__ = ["FLOATS", "INTEGERS", "Family", "Item", "NodeDraw", "by_name"]

FLOATS = ("float32", "float32", "float32", "float16", "float64")
INTEGERS = ("int64", "int32", "int8", "uint8")

Item = TypeVar("Item")


class NodeDraw:
    """A model under construction.

    Attributes
    ----------
    rng
        Makes all choices.
    opset
        The version of the operators.

    Parameters
    ----------
    seed
        Of all choices and numbers.
    opset
        The version of the operators.
    """

    def __init__(self, seed: int, opset: int) -> None:
        self.rng = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.opset = opset
        self.feeds: dict[str, np.ndarray] = {}
        self._constants: dict[str, np.ndarray] = {}
        self._nodes: list[onnx.NodeProto] = []
        self._results: list[str] = []
        self._is_symbolic = self.maybe(0.25)
        self._operands = 0

    # -- choices ----------------------------------------------------------------------------------

    def maybe(self, chance: float = 0.5) -> bool:
        """True as often as `chance` says."""
        return self.rng.random() < chance

    def one(self, items: Sequence[Item]) -> Item:
        """One of several."""
        return self.rng.choice(items)

    def some(self, **choices: Sequence[object]) -> dict[str, object]:
        """Attributes, each left out in one of two cases, else with one of its values."""
        return {name: self.one(values) for name, values in choices.items() if self.maybe()}

    def shape(self, low: int = 1, high: int = 4, most: int = 4) -> tuple[int, ...]:
        """Extents of up to `most`, of a rank from `low` to `high`."""
        return tuple(self.rng.randint(1, most) for _ in range(self.rng.randint(low, high)))

    def axes(self, rank: int, count: int | None = None) -> list[int]:
        """Different axes, some counted from the end, in any order."""
        count = self.rng.randint(1, rank) if count is None else count
        return [self.axis_of(each, rank) for each in self.rng.sample(range(rank), count)]

    def axis_of(self, axis: int, rank: int) -> int:
        """An axis, in one of two cases counted from the end."""
        return axis - rank if self.maybe() else axis

    # -- operands ---------------------------------------------------------------------------------

    def array(self, shape: Sequence[int], dtype: str = "float32") -> np.ndarray:
        """Numbers around zero; whole ones for integers, small ones without sign for unsigned ones."""
        if dtype == "bool":
            return np.asarray(self.numbers.random(tuple(shape)) < 0.5)
        if dtype.startswith("uint"):
            return np.asarray(self.numbers.integers(0, 9, tuple(shape)), dtype)
        if dtype.startswith("int"):
            return np.asarray(self.numbers.integers(-9, 10, tuple(shape)), dtype)
        return np.asarray(self.numbers.standard_normal(tuple(shape)) * 2, dtype)

    def tensor(self, shape: Sequence[int], dtype: str = "float32") -> str:
        """An operand of random numbers, now and then a constant."""
        return self.given(self.array(shape, dtype), 0.25)

    def given(self, array: np.ndarray, constant: float = 0.85) -> str:
        """An operand of these numbers, a constant as often as `constant` says."""
        self._operands += 1
        name = f"x{self._operands}"
        (self._constants if self.maybe(constant) else self.feeds)[name] = array
        return name

    def input(self, array: np.ndarray) -> str:
        """An operand of these numbers that is an input of the model."""
        return self.given(array, 0.0)

    def constant(self, array: np.ndarray) -> str:
        """An operand of these numbers that is a constant."""
        return self.given(array, 1.0)

    def longs(self, numbers: Sequence[int], constant: float = 0.85) -> str:
        """A vector of int64."""
        return self.given(np.array(numbers, "int64").reshape(len(numbers)), constant)

    # -- the model --------------------------------------------------------------------------------

    def node(self, kind: str, *operands: str, **attributes: object) -> str:
        """Add an operator with one result; see `nodes`."""
        return self.nodes(kind, operands, 1, attributes)[0]

    def nodes(
        self,
        kind: str,
        operands: Sequence[str],
        count: int,
        attributes: Mapping[str, object],
        without: Sequence[int] = (),
    ) -> list[str]:
        """Add an operator; attributes of None are left out, trailing operands without a name, too.

        The results have names, but those at the places `without`.
        """
        names = list(operands)
        while names and not names[-1]:
            names.pop()
        made = ["" if index in without else f"y{len(self._nodes)}_{index}" for index in range(count)]
        known = {name: value for name, value in attributes.items() if value is not None}
        self._nodes.append(helper.make_node(kind, names, made, **known))
        return made

    def results(self, names: Sequence[str]) -> None:
        """What the model computes."""
        self._results = list(names)

    def model(self) -> onnx.ModelProto:
        """The model; without a result of its own, that of the last operator."""
        names = self._results or [name for name in self._nodes[-1].output if name]
        read = {name for node in self._nodes for name in node.input}
        graph = helper.make_graph(
            self._nodes,
            "drawn",
            [self._port(name, array) for name, array in self.feeds.items() if name in read],
            [onnx.ValueInfoProto(name=name) for name in names],
            [numpy_helper.from_array(array, name) for name, array in self._constants.items() if name in read],
        )
        versions = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=versions, ir_version=10)

    def _port(self, name: str, array: np.ndarray) -> onnx.ValueInfoProto:
        """An input; the batch of a symbolic model has a name, if no other axis has to be as long."""
        extents: list[int | str] = list(array.shape)
        if self._is_symbolic and array.ndim > 1 and array.shape[0] not in self._other_extents():
            extents[0] = f"n{array.shape[0]}"
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), extents)

    def _other_extents(self) -> set[int]:
        """Of axes that are not the first one of an input, and 1, which broadcasts."""
        inputs = (array.shape[array.ndim > 1 :] for array in self.feeds.values())
        return {1}.union(*inputs, *(array.shape for array in self._constants.values()))


Family: TypeAlias = Callable[[NodeDraw], None]
"""Draws the model of an operator."""


def by_name(*families: Family) -> dict[str, Family]:
    """Families by the names of their functions."""
    return {each.__name__: each for each in families}
