"""The ONNX graph under construction: operators, small constants, and the data types of all values.

Nothing here needs the ``onnx`` package, because rules convert ops for trial on any machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import tvm

from annotated_region.backends.onnx_emitter.dialect import Dialect
from annotated_region.targets.translation import Declined
from annotated_region.tvm_adapter.types import expect

__all__ = ["Graph", "Operator", "Port"]

LOGICAL = frozenset(
    ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "IsNaN", "IsInf", "Not", "And", "Or", "Xor")
)
COUNTING = frozenset(("Shape", "Size", "ArgMax", "ArgMin"))
# The index of the operand that determines the data type of the result, if it is not the first.
DECIDING = {"Where": 1, "OneHot": 2, "QuantizeLinear": 2, "DequantizeLinear": 1}
# The index of the first data operand, if it is not the one that determines the type.
FIRST_DATA = {"QuantizeLinear": 0, "DequantizeLinear": 0}
# The data type of further results, if it is not that of the first.
FURTHER = {"TopK": "int64"}
# The number of data operands, from that one on; an operator without an entry has only data operands.
DATA_OPERANDS = {
    "Gather": 1, "GatherElements": 1, "GatherND": 1, "Reshape": 1, "Expand": 1, "Slice": 1, "Split": 1,
    "Tile": 1, "Pad": 1, "Squeeze": 1, "Unsqueeze": 1, "ReduceSum": 1, "ReduceMean": 1, "ReduceMax": 1,
    "ReduceMin": 1, "ReduceProd": 1, "CumSum": 1, "TopK": 1, "Trilu": 1, "OneHot": 1, "Resize": 1,
    "ScatterElements": 1, "ScatterND": 1, "ConstantOfShape": 0, "Shape": 0, "Cast": 1,
    "QuantizeLinear": 1, "DequantizeLinear": 1, "RoiAlign": 2, "ReverseSequence": 1,
    "LSTM": 4, "GRU": 4, "RNN": 4,
}  # fmt: skip
# The indices of further data operands.
UPDATES = {"Pad": (2,), "ScatterElements": (2,), "ScatterND": (2,)}


@dataclass(frozen=True, slots=True)
class Operator:
    """An ONNX node; an omitted operand has an empty name, as in ONNX."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of the graph; an extent is a number, the name of a symbol, or None if unknown."""

    name: str
    dtype: str
    shape: tuple[int | str | None, ...]


@dataclass(slots=True)
class Graph:
    """The operators and values emitted so far.

    Attributes
    ----------
    name
        The name of the graph.
    dialect
        The supported subset of ONNX.
    operators
        The operators, in topological order.
    constants
        Small constants, by name.
    weights
        Large constants, which are not copied: the array of each name.
    dtypes
        The data type of each value.
    inputs, outputs
        The ports, in order.
    fitting
        The values of a type that the target narrows, which fit into the narrower type.
    open_sums
        The matrix products whose number of summands is symbolic, and may be 0.
    single_columns
        The convolutions with strides between columns whose result may have a single column.
    single_pixels
        The convolutions whose result has symbolic extents, and may be one pixel of one image.
    repeated_images
        The results of arithmetic with an operand that is repeated along the first axis, of symbolic extent.
    repeated_matrices
        The products of one matrix of symbolic extents with each of a stack.
    """

    name: str
    dialect: Dialect
    operators: list[Operator] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    weights: dict[str, tvm.runtime.Tensor] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)
    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)
    fitting: set[str] = field(default_factory=set)
    open_sums: set[str] = field(default_factory=set)
    single_columns: set[str] = field(default_factory=set)
    single_pixels: set[str] = field(default_factory=set)
    repeated_images: set[str] = field(default_factory=set)
    repeated_matrices: set[str] = field(default_factory=set)
    _interned: dict[tuple[str, tuple[int, ...], bytes], str] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def fresh(self, stem: str) -> str:
        """A name that no value has."""
        count = self._counts.get(stem, 0)
        self._counts[stem] = count + 1
        name = f"{stem}_{count}" if count else stem
        return name if name not in self.dtypes else self.fresh(stem)

    def declare(self, name: str, dtype: str) -> str:
        """Declare a value; returns its name."""
        self.dialect.require_dtype(dtype)
        self.dtypes[name] = dtype
        return name

    def add(
        self, kind: str, inputs: Sequence[str], count: int, attrs: Mapping[str, object]
    ) -> tuple[str, ...]:
        """Add an operator with `count` results; returns their names.

        Raises
        ------
        Declined
            The dialect does not support the operator for these data types.
        """
        data = _data_places(kind, inputs)
        dtypes = list(dict.fromkeys(self._kept(inputs[place]) for place in data))
        reason = self.dialect.no_kernel(kind, dtypes, attrs)
        if reason is None:
            return self._placed(kind, inputs, count, attrs)
        wide = self.dialect.wide(kind, dtypes[0], attrs) if len(dtypes) == 1 else None
        if wide is None:
            raise Declined(reason)
        return self._widened(kind, inputs, count, attrs, data, wide)

    def _kept(self, name: str) -> str:
        """The data type that the target computes a value in: the narrower one, if the value fits into it."""
        dtype = self.dtypes[name]
        return self.dialect.narrowed.get(dtype, dtype) if name in self.fitting else dtype

    def _widened(
        self,
        kind: str,
        inputs: Sequence[str],
        count: int,
        attrs: Mapping[str, object],
        data: Sequence[int],
        wide: str,
    ) -> tuple[str, ...]:
        """The operator on data converted to a wider type, with its results converted back."""
        narrow = self.dtypes[inputs[data[0]]]
        given = [self._cast(name, wide) if place in data else name for place, name in enumerate(inputs)]
        made = self._placed(kind, given, count, attrs)
        return tuple(self._cast(name, narrow) if self.dtypes[name] == wide else name for name in made)

    def _cast(self, name: str, dtype: str) -> str:
        return self._placed("Cast", [name], 1, {"to": dtype})[0]

    def _placed(
        self, kind: str, inputs: Sequence[str], count: int, attrs: Mapping[str, object]
    ) -> tuple[str, ...]:
        deciding = DECIDING.get(kind, 0)
        dtype = self._result_dtype(kind, inputs[deciding] if inputs else "", attrs)
        dtypes = [dtype, *[FURTHER.get(kind, dtype)] * (count - 1)]
        outputs = tuple(self.declare(self.fresh(kind.lower()), each) for each in dtypes)
        given = (name for name in inputs if name and self.dtypes[name] in self.dialect.narrowed)
        if kind in COUNTING or self.fitting.issuperset(given):
            self.fitting.update(outputs)
        if kind in FURTHER:
            self.fitting.update(outputs[1:])
        self.operators.append(Operator(kind, tuple(inputs), outputs, dict(attrs)))
        return outputs

    def _result_dtype(self, kind: str, deciding: str, attrs: Mapping[str, object]) -> str:
        if kind in LOGICAL:
            return "bool"
        if kind in COUNTING:
            return "int64"
        if kind == "ConvInteger":
            return "int32"
        if kind == "Cast":
            return str(attrs["to"])
        if kind == "ConstantOfShape":
            return str(expect(np.ndarray, attrs["value"]).dtype)
        return self.dtypes[deciding]

    def constant(self, values: np.ndarray) -> str:
        """A small constant; equal ones are stored once."""
        key = (str(values.dtype), values.shape, values.tobytes())
        if key not in self._interned:
            name = self.declare(self.fresh("constant"), str(values.dtype))
            self.constants[name] = values
            self._interned[key] = name
            narrow = self.dialect.narrowed.get(str(values.dtype))
            if narrow is None or np.array_equal(values, values.astype(narrow)):
                self.fitting.add(name)
        return self._interned[key]

    def drop_unused(self) -> None:
        """Remove what no output depends on, such as shapes whose extents turned out to be static.

        A constant that is removed is stored anew where a later repair of the graph asks for an equal one.
        """
        needed = {port.name for port in self.outputs}
        kept: list[Operator] = []
        for each in reversed(self.operators):
            if needed.intersection(each.outputs):
                kept.append(each)
                needed.update(each.inputs)
        self.operators = kept[::-1]
        self.constants = {name: value for name, value in self.constants.items() if name in needed}
        self.weights = {name: value for name, value in self.weights.items() if name in needed}
        self._interned = {key: name for key, name in self._interned.items() if name in self.constants}

    def rename(self, old: str, new: str) -> None:
        """Rename the result of an operator, including all its uses."""
        self.operators = [
            Operator(
                each.kind,
                tuple(new if name == old else name for name in each.inputs),
                tuple(new if name == old else name for name in each.outputs),
                each.attrs,
            )
            for each in self.operators
        ]
        self.dtypes[new] = self.dtypes.pop(old)
        of_products = self.open_sums, self.repeated_matrices
        of_images = self.single_columns, self.single_pixels, self.repeated_images
        for names in (self.fitting, *of_products, *of_images):
            if old in names:
                names.add(new)


def _data_places(kind: str, inputs: Sequence[str]) -> list[int]:
    """The positions of the operands that are data, without those that are left out."""
    first = FIRST_DATA.get(kind, DECIDING.get(kind, 0))
    places = [*range(first, first + DATA_OPERANDS.get(kind, len(inputs) - first)), *UPDATES.get(kind, ())]
    return [place for place in places if place < len(inputs) and inputs[place]]
