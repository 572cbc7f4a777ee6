"""The common parts of recurrent layers: weights by direction, steps or a loop, unsupported features."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import relax, tirx

from annotated_region.importing.onnx_models.converters.activations import (
    Activation,
    activation_of,
    clip_of,
    numbered_activations,
)
from annotated_region.importing.onnx_models.converters.node import OnnxNode, dtype_of
from annotated_region.op_info.recurrence import described_loop
from annotated_region.recurrent_loops.loop import CLIPPED, LoopFunction, RecurrentLoop
from annotated_region.recurrent_loops.products import tiled
from annotated_region.tvm_adapter.arithmetic import Extent
from annotated_region.tvm_adapter.types import expect

__all__ = ["MOST_STEPS", "Cell", "Layer", "Product", "Run", "State", "require_known"]

State = tuple[relax.Expr, ...]
Product = Callable[[relax.Expr], relax.Expr]
Cell = Callable[[relax.Expr, State], State]
"""Computes the next state from the input's contribution to the gates and the current state."""

MOST_STEPS = 4096
"""A layer with more steps is a loop."""
_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
_SEQUENCE_LENS, _INITIAL = 4, 5


@dataclass(frozen=True, slots=True)
class Run:
    """The result of one direction of a layer.

    Attributes
    ----------
    by_time
        The first part of the state after each step, [length, batch, hidden], in sequence order.
    last
        The state after the last step.
    """

    by_time: relax.Expr
    last: State


@dataclass(frozen=True, slots=True)
class Layer:
    """A recurrent node.

    Attributes
    ----------
    node
        Its inputs are the sequence, the two weights, the bias, the lengths, initial states, peepholes.
    weight, recurrent
        The weights of the input [directions, gates * hidden, input size] and of the state
        [.., gates * hidden, hidden]; with the last two axes exchanged if `transposed`.
    gates
        The number of gates.
    states
        The number of tensors in a state.
    hidden
        The hidden size.
    """

    node: OnnxNode
    weight: relax.Expr
    recurrent: relax.Expr
    gates: int
    states: int
    hidden: int
    transposed: bool

    @property
    def reversed_directions(self) -> tuple[bool, ...]:
        """For each direction whether it runs from the end to the start."""
        direction = self.node.text("direction", "forward")
        found = _DIRECTIONS.get(direction)
        if found is None:
            raise self.node.declined(
                f"has the attribute 'direction' of {direction!r}, which is not supported"
            )
        return found

    @property
    def directions(self) -> int:
        """The number of directions, one or two."""
        return len(self.reversed_directions)

    @property
    def batch_first(self) -> bool:
        """Whether the batch is the first axis of the sequence, and of the states."""
        return self.node.integer("layout", 0, 0, 1) == 1

    @property
    def dtype(self) -> str:
        """The data type of the sequence and of the states."""
        return dtype_of(self.node.tensor(0))

    @property
    def length(self) -> Extent:
        """The number of steps of the sequence; may be symbolic."""
        return self.node.shape(self.node.tensor(0))[1 if self.batch_first else 0]

    @property
    def steps(self) -> int | None:
        """The number of steps if the layer is unrolled; None if it is a loop."""
        length = self.length
        return length if isinstance(length, int) and length * self.directions <= MOST_STEPS else None

    @property
    def batch(self) -> Extent:
        """The number of sequences; may be symbolic."""
        return self.node.shape(self.node.tensor(0))[0 if self.batch_first else 1]

    @property
    def state_shape(self) -> tuple[Extent, ...]:
        """The shape of an initial state."""
        sides = (self.batch, self.directions) if self.batch_first else (self.directions, self.batch)
        return *sides, self.hidden

    def part(self, expr: relax.Expr, index: int) -> relax.Expr:
        """The slice of a tensor for a direction."""
        whole = expr if self.directions == 1 else relax.op.strided_slice(expr, [0], [index], [index + 1])
        return self.node.emit(relax.op.squeeze(whole, [0]))

    def recurrent_weight(self, index: int) -> relax.Expr:
        """The recurrent weight [hidden, gates * hidden] of a direction."""
        return self._columns(self.recurrent, index)

    def _columns(self, weight: relax.Expr, index: int) -> relax.Expr:
        part = self.part(weight, index)
        return part if self.transposed else self._turned(part)

    def tiled_recurrent(self, weight: relax.Expr) -> relax.Expr:
        """A direction's recurrent weight as loops read it, from how the node has it."""
        rows = self._turned(weight) if self.transposed else weight
        return tiled(rows, self.gates, self.hidden, self.node.emit)

    def _turned(self, weight: relax.Expr) -> relax.Expr:
        return self.node.emit(relax.op.permute_dims(weight, [1, 0]))

    def biases(self, index: int) -> tuple[relax.Expr | None, relax.Expr | None]:
        """The biases of the input and of the state; both or neither."""
        if not self.node.has(3):
            return None, None
        whole, width = self.part(self.node.tensor(3), index), self.gates * self.hidden
        # Slices of constants are constants; the parts of a split are not.
        first, second = (
            self.node.emit(relax.op.strided_slice(whole, [0], [begin], [begin + width]))
            for begin in (0, width)
        )
        return first, second

    def bias_sum(self, index: int) -> relax.Expr | None:
        """The sum of both biases."""
        first, second = self.biases(index)
        return None if first is None else self.node.emit(relax.op.add(first, second))

    def peepholes(self, index: int) -> tuple[relax.Expr, ...]:
        """The peephole weights of the gates ``i``, ``o`` and ``f`` of an LSTM; empty if omitted."""
        if not self.node.has(7):
            return ()
        three = self.node.emit(relax.op.split(self.part(self.node.tensor(7), index), 3, axis=0))
        return tuple(self.node.emit(relax.TupleGetItem(three, number)) for number in range(3))

    def activations(self, index: int, usual: Sequence[str]) -> list[Activation]:
        """The activation functions of a direction that is unrolled, of tensors."""
        clip = clip_of(self.node)
        return [
            activation_of(self.node, each, clip if place < CLIPPED else None)
            for place, each in enumerate(self.functions(index, usual))
        ]

    def functions(self, index: int, usual: Sequence[str]) -> tuple[LoopFunction, ...]:
        """The activation functions of a direction, with their numbers."""
        names, count = list(self.node.texts("activations")) or list(usual) * self.directions, len(usual)
        self.node.require(
            len(names) == count * self.directions,
            f"has {len(names)} attributes 'activations'; it should have {count * self.directions}",
        )
        return tuple(numbered_activations(self.node, names)[index * count :][:count])

    def sequence(self) -> relax.Expr:
        """The input as [length, batch, input size]."""
        given = self.node.tensor(0)
        return self.node.emit(relax.op.permute_dims(given, [1, 0, 2])) if self.batch_first else given

    def input_part(self, index: int, bias: relax.Expr | None, product: Product | None = None) -> relax.Expr:
        """The contribution of the input to the gates at every step, [length, batch, gates * hidden]."""
        sequence = self.sequence()
        made = product or (lambda given: relax.op.matmul(given, self._columns(self.weight, index)))
        gates = made(sequence)
        return self.node.emit(gates if bias is None else relax.op.add(gates, bias))

    def initial(self, index: int) -> State:
        """The state before the first step: an input, or zeros."""
        return tuple(self._initial(_INITIAL + number, index) for number in range(self.states))

    def _initial(self, position: int, index: int) -> relax.Expr:
        if not self.node.has(position):
            return self.node.emit(relax.op.zeros(relax.ShapeExpr([self.batch, self.hidden]), self.dtype))
        given = self.node.with_extents(self.node.tensor(position), self.state_shape)
        if self.batch_first:
            given = self.node.emit(relax.op.permute_dims(given, [1, 0, 2]))
        return self.part(given, index)

    @property
    def lengths(self) -> relax.Expr | None:
        """The lengths of the sequences, if they may differ from the whole length."""
        given = self.node.optional(_SEQUENCE_LENS, ("int32",), (1,))
        known = None if given is None else self.node.constant(given)
        is_whole = known is not None and isinstance(self.length, int) and np.all(known == self.length)
        return None if is_whole else given

    def run(self, index: int, gates: relax.Expr, cell: Cell) -> Run:
        """Unroll one direction; behind the end of a sequence the state stays, and the results are 0."""
        steps = range(expect(int, self.steps))
        state, lengths = self.initial(index), self.lengths
        if lengths is not None:
            lengths = self.node.with_extents(lengths, (self.batch,))
        states: dict[int, relax.Expr] = {}
        for step in reversed(steps) if self.reversed_directions[index] else steps:
            part = relax.op.squeeze(relax.op.strided_slice(gates, [0], [step], [step + 1]), [0])
            new = tuple(self.node.emit(each) for each in cell(self.node.emit(part), state))
            if lengths is None:
                state, states[step] = new, new[0]
                continue
            is_inside = self.node.emit(relax.op.greater(lengths, relax.const(step, "int32")))
            row = self.node.emit(relax.op.expand_dims(is_inside, [1]))
            pairs = zip(new, state, strict=True)
            state = tuple(self.node.emit(relax.op.where(row, *pair)) for pair in pairs)
            nothing = relax.const(0.0, self.dtype)
            states[step] = self.node.emit(relax.op.where(row, new[0], nothing))
        return Run(self.node.emit(relax.op.stack([states[step] for step in steps], 0)), state)

    def run_loop(self, index: int, gates: relax.Expr, loop: RecurrentLoop, further: State) -> Run:
        """Run one direction as a loop; `further` are its bias and peepholes."""
        lengths = self.lengths
        if lengths is not None:
            further = (*further, self.node.with_extents(lengths, (self.batch,)))
        weight = self.tiled_recurrent(self.part(self.recurrent, index))
        function = described_loop(loop)
        return self.run_function(index, f"{loop.cell.lower()}_loop", function, (gates, weight, *further))

    def run_function(self, index: int, name: str, function: tirx.PrimFunc, operands: State) -> Run:
        """Run one direction by a function that takes the operands, and the initial states."""
        called = self.node.builder.add_func(function, name)
        given = [*operands, *self.initial(index)]
        results = relax.TensorType((self.length, self.batch, self.hidden), self.dtype)
        last = relax.TensorType((self.batch, self.hidden), self.dtype)
        made = self.node.emit(relax.call_tir(called, given, [results, *[last] * self.states]))
        parts = [self.node.emit(relax.TupleGetItem(made, number)) for number in range(1 + self.states)]
        return Run(parts[0], tuple(parts[1:]))


def require_known(layer: Layer, directions: int) -> None:
    """Decline a node with inconsistent shapes or unsupported features."""
    node, width = layer.node, layer.gates * layer.hidden
    node.integer("hidden_size", layer.hidden, layer.hidden, layer.hidden)
    node.require(
        directions == layer.directions,
        f"has weights of {directions} directions, and is of {layer.directions}",
    )
    node.require(
        not isinstance(layer.length, int) or layer.length >= 1, f"has a sequence of {layer.length} steps"
    )
    size = node.shape(node.tensor(0))[2]
    shapes = ((1, layer.weight, size), (2, layer.recurrent, layer.hidden))
    for position, weight, extent in shapes:
        rest = (extent, width) if layer.transposed else (width, extent)
        node.require(
            node.shape(weight) == (directions, *rest),
            f"has an input {position} of shape {node.shape(weight)}; it should be {(directions, *rest)}",
        )
    _require_lengths(layer)
    _require_states(layer, directions)


def _require_states(layer: Layer, directions: int) -> None:
    node, dtype = layer.node, (layer.dtype,)
    if node.has(3):
        node.require_shape(3, node.tensor(3, dtype, (2,)), (directions, 2 * layer.gates * layer.hidden))
    for position in range(_INITIAL, _INITIAL + layer.states):
        given = node.optional(position, dtype, (3,))
        node.require(
            given is None or node.may_have_extents(given, layer.state_shape),
            f"has an input {position} whose shape is not that of a state",
        )
    if layer.states == 2 and node.has(7):
        node.require_shape(7, node.tensor(7, dtype, (2,)), (directions, 3 * layer.hidden))


def _require_lengths(layer: Layer) -> None:
    """Lengths for each sequence of the batch, within the whole length if they are constant."""
    node, lengths = layer.node, layer.lengths
    if lengths is None:
        return
    known = node.constant(lengths)
    most = layer.length if isinstance(layer.length, int) else math.inf
    node.require(
        known is None or bool(((known >= 0) & (known <= most)).all()),
        f"has the input 'sequence_lens' with lengths beyond {layer.length}",
    )
    node.require(
        node.may_have_extents(lengths, (layer.batch,)), "has the input 'sequence_lens' of another batch"
    )
