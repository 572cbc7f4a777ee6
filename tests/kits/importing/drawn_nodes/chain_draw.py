"""What draws a model of several ONNX operators, of which one reads the results of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

from kits.importing.drawn_nodes.answers import answers_of
from kits.importing.drawn_nodes.draw import Family, Item, NodeDraw
from kits.importing.drawn_nodes.joins import JOINS, cast_to

__all__ = ["ChainDraw"]

LONGEST = 9
"""Axes of more elements are in no operand of a further operator."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """A model as it was before an operator that did not fit."""

    nodes: int
    feeds: dict[str, np.ndarray]
    constants: dict[str, np.ndarray]
    results: tuple[str, ...]


class ChainDraw(NodeDraw):
    """A model under construction whose random operands may be results of other operators.

    Operands that are constants are initializers or results of `Constant`; vectors of whole numbers may be
    computed from the extents of tensors by `Shape`, `Gather` and `Concat`.
    """

    def __init__(self, seed: int, opset: int) -> None:
        super().__init__(seed, opset)
        self._known: dict[str, np.ndarray] = {}
        self._random: list[np.ndarray] = []
        self._joins = 0
        self._is_symbolic = self.maybe(0.6)
        self._names_inner = self.maybe(0.3)

    def one(self, items: Sequence[Item]) -> Item:
        """One of several; of types mostly that of an earlier result."""
        dtypes = {str(each.dtype) for each in self._known.values()}
        usual = [each for each in items if isinstance(each, str) and each in dtypes]
        return super().one(usual if usual and self.maybe(0.75) else items)

    # -- operands ---------------------------------------------------------------------------------

    def shape(self, low: int = 1, high: int = 4, most: int = 4) -> tuple[int, ...]:
        """That of an earlier result, if there is one of such a rank."""
        fitting = [
            each.shape
            for each in self._known.values()
            if low <= each.ndim <= high and max(each.shape, default=0) <= LONGEST and each.size
        ]
        return self.one(fitting) if fitting and self.maybe(0.8) else super().shape(low, high, most)

    def array(self, shape: Sequence[int], dtype: str = "float32") -> np.ndarray:
        """Numbers that a result may stand for."""
        self._random.append(super().array(shape, dtype))
        return self._random[-1]

    def given(self, array: np.ndarray, constant: float = 0.85) -> str:
        """An operand of these numbers; where they are random, a result of other operators."""
        is_random = any(array is each for each in self._random)
        if is_random and constant < 1 and self.maybe(0.2 if constant > 0.5 else 0.7):
            found = self._joined(array.shape, str(array.dtype))
            if found:
                return found
        name = super().given(array, constant)
        if name in self._constants and self.maybe(0.3):
            value = numpy_helper.from_array(self._constants.pop(name), name)
            self._nodes.append(helper.make_node("Constant", [], [name], value=value))
        return name

    def _joined(self, shape: tuple[int, ...], dtype: str) -> str:
        """An earlier result of this shape, or that of an operator that is added; empty if neither."""
        fitting = [name for name, value in self._known.items() if value.shape == shape]
        if fitting and self.maybe(0.85):
            name = self.one(fitting)
            value = self._known[name]
            if str(value.dtype) == dtype:
                return name
            if (
                dtype in ("float32", "float64", "bool")
                or np.abs(value.astype("float64")).max(initial=0.0) < 100
            ):
                return cast_to(self, name, dtype) if not dtype.startswith("uint") else ""
            return ""
        if self._joins == 0:
            return ""
        self._joins -= 1
        return self.one(JOINS)(self, shape, dtype)

    def longs(self, numbers: Sequence[int], constant: float = 0.85) -> str:
        """A vector of int64; in one of three cases computed from extents, where they are such numbers."""
        sources = self._sources()
        if not numbers or not any(each in sources for each in numbers) or not self.maybe(0.35):
            return super().longs(numbers, constant)
        parts: list[str] = []
        for number in numbers:
            if number in sources and self.maybe(0.75):
                parts.append(self._extent(*self.one(sources[number])))
            else:
                parts.append(self.constant(np.array([number], "int64")))
        return self.node("Concat", *parts, axis=0) if len(parts) > 1 or self.maybe(0.3) else parts[0]

    def _sources(self) -> dict[int, list[tuple[str, int]]]:
        """The tensors and axes that have an extent."""
        found: dict[int, list[tuple[str, int]]] = {}
        for name, value in {**self.feeds, **self._known}.items():
            for axis, extent in enumerate(value.shape):
                found.setdefault(extent, []).append((name, axis))
        return found

    def _extent(self, name: str, axis: int) -> str:
        """The extent of an axis as a vector of one number."""
        shape = self.node("Shape", name)
        if self.maybe(0.3) and self.opset >= 10:
            bounds = [self.constant(np.array([each], "int64")) for each in (axis, axis + 1)]
            return self.node("Slice", shape, *bounds)
        if self.maybe():
            return self.node("Gather", shape, self.constant(np.array([axis], "int64")), axis=0)
        number = self.node("Gather", shape, self.constant(np.array(axis, "int64")), axis=0)
        if self.opset >= 13:
            return self.node("Unsqueeze", number, self.constant(np.array([0], "int64")))
        return self.node("Unsqueeze", number, axes=[0])

    # -- the model --------------------------------------------------------------------------------

    def extended(self, family: Family) -> bool:
        """Add an operator of a family, if it reads what is before it and ONNX Runtime takes it."""
        mark = _Mark(len(self._nodes), dict(self.feeds), dict(self._constants), tuple(self._results))
        self._results, self._joins = [], self.one([0, 1, 1, 2]) if not self._known else self.one([0, 0, 1])
        family(self)
        names = self._results or [name for name in self._nodes[-1].output if name]
        self._results = list(names)
        new = self._nodes[mark.nodes :]
        is_joined = not self._known or any(name in self._known for node in new for name in node.input)
        found = answers_of(self.model(), self.feeds) if is_joined else None
        if found is None or not all(isinstance(each, np.ndarray) for each in found):
            del self._nodes[mark.nodes :]
            self.feeds, self._constants, self._results = mark.feeds, mark.constants, list(mark.results)
            return False
        if mark.results and self.maybe(0.25):
            self._results += [name for name in mark.results if name not in names][:1]
        self._known |= dict(zip(names, found, strict=True))
        return True

    def longer_feeds(self) -> dict[str, np.ndarray] | None:
        """The inputs with one element more along each axis of a named extent; None if none has a name."""
        longer = dict(self.feeds)
        for name, array in self.feeds.items():
            for axis, extent in enumerate(self._extents(array)):
                if isinstance(extent, str):
                    longer[name] = np.concatenate([longer[name], longer[name].take([0], axis)], axis)
        is_same = all(longer[name].shape == array.shape for name, array in self.feeds.items())
        return None if is_same else longer

    def _port(self, name: str, array: np.ndarray) -> onnx.ValueInfoProto:
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        return helper.make_tensor_value_info(name, kind, self._extents(array))

    def _extents(self, array: np.ndarray) -> list[int | str]:
        """Those of an input: of the batch, or of all axes, those that no constant has are named."""
        extents: list[int | str] = list(array.shape)
        if not self._is_symbolic:
            return extents
        fixed = {0, 1}.union(*(each.shape for each in self._constants.values()))
        axes = range(array.ndim if self._names_inner else min(array.ndim - 1, 1))
        for axis in axes:
            if array.shape[axis] not in fixed:
                extents[axis] = f"n{array.shape[axis]}"
        return extents
