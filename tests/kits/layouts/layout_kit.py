"""What a layout means, told by indices alone, and small calls of the ops that have layout rules."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import tvm
from tvm import relax

from annotated_region.layouts import Layout
from annotated_region.op_info.calls import info_of_call
from annotated_region.op_info.info import Parameter
from kits.host_machines import host_machine

op = relax.op


def between(old, new):
    """The layout that turns one named layout into another, which there is."""
    layout = Layout.between(old, new)
    assert layout is not None
    return layout


BLOCKS = between("NCHW", "NCHW2c").pieces
LAYOUTS = {
    "NHWC": Layout.of_order((0, 2, 3, 1)),
    "WCNH": Layout.of_order((3, 1, 0, 2)),
    "NCHW2c": between("NCHW", "NCHW2c"),
    "low digits first": Layout((BLOCKS[0], BLOCKS[4], *BLOCKS[1:4])),
}
"""An order that libraries use, another one, blocks, and blocks that stand before what they are blocks of."""


def stored(array: np.ndarray, layout: Layout) -> np.ndarray:
    """What `layout` stores of an array, element by element; of lower rank as broadcasting reads it."""
    array = array.reshape((1,) * (layout.rank - array.ndim) + array.shape)
    source = [np.zeros(array.shape, dtype=int) for _ in range(array.ndim)]
    shape = tuple(
        1 if array.shape[p.axis] == 1 else (p.high or array.shape[p.axis]) // p.low for p in layout.pieces
    )
    source = [np.zeros(shape, dtype=int) for _ in range(array.ndim)]
    for place, (digit, piece) in enumerate(zip(np.indices(shape), layout.pieces, strict=True)):
        assert digit.max(initial=0) < max(1, shape[place])
        source[piece.axis] = source[piece.axis] + digit * piece.low
    ends = np.cumsum([0, *(layout.joined or [1] * len(shape))])
    return array[tuple(source)].reshape([math.prod(shape[a:b]) for a, b in pairwise(ends)])


def tensor(*shape, dtype="float32"):
    return relax.Var("x", relax.TensorType(shape, dtype))


def described(call):
    """The info of a call, its operands, and the call with its type."""
    operands = []

    def place(expr):
        operands.append(expr)
        return Parameter(len(operands) - 1)

    typed = relax.BlockBuilder().normalize(call)
    return info_of_call(typed, place), operands, typed


x, small, channels = tensor(2, 4, 6, 8), tensor(4, 1, 1), tensor(4)
indices = tensor(2, 4, 6, 8, dtype="int64")
ones = relax.const(np.ones(4, "float32"))

RULED = {
    "relu": op.nn.relu(x),
    "bias": op.add(x, small),
    "bias first": op.subtract(small, x),
    "columns": op.multiply(x, tensor(8)),
    "itself": op.multiply(x, x),
    "number": op.divide(x, relax.const(0.5, "float32")),
    "where": op.where(tensor(2, 1, 6, 8, dtype="bool"), x, small),
    "clip": op.clip(x, -0.5, 0.5),
    "astype": op.astype(x, "float64"),
    "zeros_like": op.zeros_like(x),
    "conv": op.nn.conv2d(x, tensor(6, 4, 3, 2), padding=(1, 0, 1, 2), strides=(1, 2)),
    "grouped conv": op.nn.conv2d(x, tensor(6, 2, 3, 2), groups=2, dilation=(1, 2)),
    "max_pool": op.nn.max_pool2d(x, (3, 2), (2, 1), (1, 0, 1, 1)),
    "avg_pool": op.nn.avg_pool2d(x, (2, 2), (2, 2), count_include_pad=True),
    "adaptive": op.nn.adaptive_avg_pool2d(x, (2, 3)),
    "resize": op.image.resize2d(x, (12, 4), layout="NCHW"),
    "softmax": op.nn.softmax(x, -3),
    "log_softmax": op.nn.log_softmax(x, 2),
    "concat": op.concat([x, x], 1),
    "concat rows": op.concat([x, tensor(2, 4, 3, 8)], -2),
    "pad": op.nn.pad(x, [0, 0, 0, 0, 0, 3, 1, 0], pad_value=1.5),
    "pad channels": op.nn.pad(x, [0, 0, 1, 2, 0, 3, 1, 0]),
    "slice": op.strided_slice(x, [1, 3], [1, 0], [4, 5], [2, 1]),
    "mean": op.mean(x, [2, 3], True),
    "sum without keepdims": op.sum(x, [2], False),
    "max over all": op.max(x),
    "variance": op.variance(x, [-1], False),
    "argmax": op.argmax(x, 3),
    "argmin with keepdims": op.argmin(x, 2, True),
    "flip": op.flip(x, 1),
    "cumsum": op.cumsum(x, 2),
    "sort": op.sort(x, 3),
    "gather_elements": op.gather_elements(x, indices, 2),
    "repeat": op.repeat(x, 2, 2),
    "tile": op.tile(x, (1, 1, 2, 3)),
    "tile few": op.tile(x, (2,)),
    "take": op.take(x, relax.const([1, 0, 1]), 3),
    "broadcast_to": op.broadcast_to(tensor(2, 1, 6, 8), (2, 4, 6, 8)),
    "split": op.split(x, 2, 3),
    "split at": op.split(x, [1, 4], 2),
    "stack": op.stack([x, x], 2),
    "prelu": op.nn.prelu(x, channels, 1),
    "dropout": op.nn.dropout(x, 0.5),
    "batch_norm": op.nn.batch_norm(x, channels, channels, channels, ones, 1, training=False),
    "layer_norm": op.nn.layer_norm(x, tensor(6, 8), tensor(6, 8), [2, 3]),
    "rms_norm": op.nn.rms_norm(x, tensor(8), [3]),
    "group_norm": op.nn.group_norm(x, ones, ones, 2, 1, [2, 3]),
    "instance_norm": op.nn.instance_norm(x, channels, channels, 1, [2, 3]),
}
"""A call for each rule, on tensors of (2, 4, 6, 8)."""

ELSEWHERE = {
    "relax.nn.conv1d": op.nn.conv1d(tensor(2, 4, 9), tensor(6, 4, 3)),
    "relax.nn.conv3d": op.nn.conv3d(tensor(1, 2, 4, 5, 6), tensor(2, 2, 2, 3, 2)),
    "relax.nn.max_pool1d": op.nn.max_pool1d(tensor(2, 4, 9), (3,)),
    "relax.nn.avg_pool3d": op.nn.avg_pool3d(tensor(1, 2, 4, 5, 6), (2, 3, 2)),
    "relax.nn.adaptive_avg_pool1d": op.nn.adaptive_avg_pool1d(tensor(2, 4, 9), (3,)),
    "relax.image.resize3d": op.image.resize3d(tensor(1, 2, 4, 5, 6), (2, 5, 3), layout="NCDHW"),
}
"""Calls on tensors of other ranks; their channels go last."""


def run(func, arguments):
    """The answers of a function that returns a tuple of tensors."""
    mod = tvm.IRModule({"main": func})
    machine = host_machine(mod)
    return [out.numpy() for out in machine["main"](*map(tvm.runtime.tensor, arguments))]
