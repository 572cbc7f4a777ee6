"""`LSTM`, `GRU`, `RNN` and `DynamicQuantizeLSTM`: unrolled, or loops where the length is symbolic or large.

The product with the input is computed once for all steps, the product with the state at each step:

    gates = x @ W.T + (Wb + Rb)              [length, batch, gates * hidden]
    for step in the direction's order:
        state = cell(gates[step], state)     [batch, hidden]

The formulas are those of the operators' definitions in ONNX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import relax

from annotated_region.importing.onnx_models.converters.activations import clip_of
from annotated_region.importing.onnx_models.converters.cells import gru_cell, lstm_cell, rnn_cell
from annotated_region.importing.onnx_models.converters.integer_ops import dynamically_quantized
from annotated_region.importing.onnx_models.converters.node import FLOATS, OnnxNode, dtype_of
from annotated_region.importing.onnx_models.converters.quantization import BYTES
from annotated_region.importing.onnx_models.converters.recurrence import (
    Layer,
    Product,
    Run,
    require_known,
)
from annotated_region.importing.onnx_models.converters.registry import CONTRIBUTED, converts
from annotated_region.recurrent_loops.loop import RecurrentCell, RecurrentLoop
from annotated_region.recurrent_loops.quantized import quantized_loop

__all__: list[str] = []

_LSTM_FUNCTIONS = ("Sigmoid", "Tanh", "Tanh")
_COMMON = "activation_alpha activation_beta activations clip direction hidden_size"


@converts("", "LSTM", (3, 8), f"{_COMMON} input_forget layout")
def _lstm(node: OnnxNode) -> relax.Expr:
    layer = _float_layer(node, gates=4, states=2)
    if layer.steps is None:
        return _results(layer, lambda index: _lstm_loop(layer, index))
    return _results(layer, lambda index: _lstm_run(layer, index, _float_product(layer, index)))


def _lstm_loop(layer: Layer, index: int) -> Run:
    peepholes = (layer.part(layer.node.tensor(7), index),) if layer.node.has(7) else ()
    loop = _lstm_of(layer, index, bool(peepholes))
    return layer.run_loop(index, layer.input_part(index, layer.bias_sum(index)), loop, peepholes)


def _lstm_of(layer: Layer, index: int, has_peepholes: bool) -> RecurrentLoop:
    """The loop of an LSTM."""
    is_coupled = bool(layer.node.integer("input_forget", 0, 0, 1))
    return _loop(layer, "LSTM", index, _LSTM_FUNCTIONS, has_peepholes=has_peepholes, is_coupled=is_coupled)


def _loop(
    layer: Layer, cell: RecurrentCell, index: int, usual: Sequence[str], **of_cell: bool
) -> RecurrentLoop:
    """The loop of a direction."""
    return RecurrentLoop(
        cell,
        layer.hidden,
        layer.dtype,
        layer.functions(index, usual),
        clip_of(layer.node),
        layer.reversed_directions[index],
        has_lengths=layer.lengths is not None,
        **of_cell,
    )


@converts("", "GRU", (3, 6), f"{_COMMON} layout linear_before_reset")
def _gru(node: OnnxNode) -> relax.Expr:
    layer = _float_layer(node, gates=3, states=1)
    before = bool(node.integer("linear_before_reset", 0, 0, 1))
    usual = ("Sigmoid", "Tanh")

    def run_loop(index: int) -> Run:
        bias, own = layer.biases(index) if before else (layer.bias_sum(index), None)
        loop = _loop(layer, "GRU", index, usual, has_bias=own is not None, resets_behind=before)
        return layer.run_loop(index, layer.input_part(index, bias), loop, () if own is None else (own,))

    if layer.steps is None:
        return _results(layer, run_loop)

    def run(index: int) -> Run:
        bias, recurrent_bias = layer.biases(index)
        new_product, product = None, _float_product(layer, index)
        if not before:
            product, new_product = _gru_products(layer, index)
            bias, recurrent_bias = layer.bias_sum(index), None
        cell = gru_cell(node, layer.activations(index, usual), product, new_product, recurrent_bias)
        return layer.run(index, layer.input_part(index, bias), cell)

    return _results(layer, run)


def _gru_products(layer: Layer, index: int) -> tuple[Product, Product]:
    """The products of a state with the weights of z and r, and with those of h."""
    weight, border = layer.recurrent_weight(index), 2 * layer.hidden
    gates, new = (
        layer.node.emit(relax.op.strided_slice(weight, [1], [begin], [end]))
        for begin, end in ((0, border), (border, 3 * layer.hidden))
    )
    return (lambda state: relax.op.matmul(state, gates)), (lambda state: relax.op.matmul(state, new))


@converts("", "RNN", (3, 6), f"{_COMMON} layout")
def _rnn(node: OnnxNode) -> relax.Expr:
    layer = _float_layer(node, gates=1, states=1)
    usual = ("Tanh",)

    def run_loop(index: int) -> Run:
        gates = layer.input_part(index, layer.bias_sum(index))
        return layer.run_loop(index, gates, _loop(layer, "RNN", index, usual), ())

    if layer.steps is None:
        return _results(layer, run_loop)

    def run(index: int) -> Run:
        cell = rnn_cell(layer.activations(index, usual), _float_product(layer, index))
        return layer.run(index, layer.input_part(index, layer.bias_sum(index)), cell)

    return _results(layer, run)


@converts(CONTRIBUTED, "DynamicQuantizeLSTM", (12, 12), f"{_COMMON} input_forget")
def _quantized_lstm(node: OnnxNode) -> relax.Expr:
    """Weights are stored transposed; input and state are quantized by their own range at each step."""
    weight, recurrent = node.tensor(1, BYTES, (3,)), node.tensor(2, BYTES, (3,))
    directions, _, width = node.fixed_shape(1, weight)
    node.require(width % 4 == 0, "has weights that are not those of four gates")
    layer = Layer(node, weight, recurrent, gates=4, states=2, hidden=width // 4, transposed=True)
    require_known(layer, directions)
    node.require(layer.lengths is None, "has the input 'sequence_lens', which is not supported")
    for scale_at in (8, 10):
        _require_scales(node, scale_at, (directions, width))

    def run(index: int) -> Run:
        input_product, product = (_integer_product(layer, index, at) for at in (1, 2))
        return _lstm_run(layer, index, product, input_product)

    return _results(layer, run if layer.steps is not None else lambda index: _quantized_loop(layer, index))


def _quantized_loop(layer: Layer, index: int) -> Run:
    node = layer.node
    peepholes = (layer.part(node.tensor(7), index),) if node.has(7) else ()
    loop = _lstm_of(layer, index, bool(peepholes))
    gates = layer.input_part(index, layer.bias_sum(index), _integer_product(layer, index, 1))
    weight, scale = _whole_weight(layer, index, 2)
    scales = node.emit(relax.op.broadcast_to(scale, relax.ShapeExpr([4 * layer.hidden])))
    given = (gates, layer.tiled_recurrent(weight), scales, *peepholes)
    return layer.run_function(index, "lstm_loop", quantized_loop(loop), given)


def _require_scales(node: OnnxNode, position: int, shape: tuple[int, int]) -> None:
    """One scale and zero point per direction, or one per column of each direction."""
    for at, dtypes in ((position, ("float32",)), (position + 1, BYTES)):
        found = node.fixed_shape(at, node.tensor(at, dtypes, (1, 2)))
        node.require(
            found in ((shape[0],), shape),
            f"has an input {at} of shape {found}; it should be {shape[:1]} or {shape}",
        )
    weight = 1 if position == 8 else 2
    node.tensor(position + 1, (dtype_of(node.tensor(weight)),))


def _lstm_run(layer: Layer, index: int, product: Product, input_product: Product | None = None) -> Run:
    functions = layer.activations(index, _LSTM_FUNCTIONS)
    cell = lstm_cell(layer.node, functions, product, layer.peepholes(index))
    return layer.run(index, layer.input_part(index, layer.bias_sum(index), input_product), cell)


def _float_layer(node: OnnxNode, gates: int, states: int) -> Layer:
    dtype = dtype_of(node.tensor(0, FLOATS, (3,)))
    weight, recurrent = node.tensor(1, (dtype,), (3,)), node.tensor(2, (dtype,), (3,))
    directions, _, hidden = node.fixed_shape(2, recurrent)
    layer = Layer(node, weight, recurrent, gates, states, hidden, transposed=False)
    require_known(layer, directions)
    return layer


def _float_product(layer: Layer, index: int) -> Product:
    weight = layer.recurrent_weight(index)
    return lambda state: relax.op.matmul(state, weight)


def _integer_product(layer: Layer, index: int, position: int) -> Product:
    """The product with 8-bit weights: ``W`` is at position 1 with its scale at 8, ``R`` at 2 with 10.

    The zero point is subtracted from the weights once, not at each step, where every step would have a copy.
    """
    node = layer.node
    shifted, scale = _whole_weight(layer, index, position)

    def product(state: relax.Expr) -> relax.Expr:
        data, data_scale, data_zero = dynamically_quantized(node, state)
        sums = relax.op.matmul(_less(node, data, data_zero), shifted, out_dtype="int32")
        return relax.op.multiply(relax.op.astype(sums, "float32"), relax.op.multiply(data_scale, scale))

    return product


def _whole_weight(layer: Layer, index: int, position: int) -> tuple[relax.Expr, relax.Expr]:
    """The 8-bit weights less their zero points, and the scale."""
    weight = layer.part(layer.node.tensor(position), index)
    scale, zero = (layer.part(layer.node.tensor(at), index) for at in (6 + 2 * position, 7 + 2 * position))
    return _less(layer.node, weight, zero), scale


def _less(node: OnnxNode, data: relax.Expr, zero: relax.Expr) -> relax.Expr:
    """8-bit data minus its zero point, as int32."""
    return node.emit(relax.op.subtract(*(relax.op.astype(each, "int32") for each in (data, zero))))


def _results(layer: Layer, run: Callable[[int], Run]) -> relax.Expr:
    """All states by time, and the last ones, of each direction."""
    runs = [run(index) for index in range(layer.directions)]
    whole = relax.op.stack([each.by_time for each in runs], 1)
    last = [relax.op.stack([each.last[number] for each in runs], 0) for number in range(layer.states)]
    if layer.batch_first:
        whole = relax.op.permute_dims(whole, [2, 0, 1, 3])
        last = [relax.op.permute_dims(each, [1, 0, 2]) for each in last]
    return relax.Tuple([layer.node.emit(each) for each in (whole, *last)])
