"""Ops without a layout rule, each in the middle of a chain of convolutions; and how modules are run."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

from kits.host_machines import host_machine

op = relax.op


def const(values, dtype="float32"):
    return relax.const(tvm.runtime.tensor(np.asarray(values, dtype)))


def emitted(*calls):
    """The last of several calls, each a function of the builder's emit and of the one before."""

    def follow(builder, y):
        for call in calls:
            y = builder.emit(call(y))
        return y

    return follow


def first_of(call):
    return emitted(call, lambda pair: relax.TupleGetItem(pair, 0))


ROIS = const([[0, 1, 1, 5, 4], [1, 0, 2, 6, 3]])
FLOW = const(np.linspace(-1, 1, 2 * 2 * 3 * 4).reshape(2, 2, 3, 4))
POSITIONS = const([[[0, 1], [1, 0]], [[1, 2], [0, 3]]], "int64")
UPDATES = const(np.ones((2, 4, 2, 5)))

UNRULED = {
    "relax.reshape": emitted(lambda y: op.reshape(y, (2, 2, 16, -1))),
    "relax.flatten": emitted(op.flatten),
    "relax.nn.batch_flatten": emitted(op.nn.batch_flatten),
    "relax.expand_dims": emitted(lambda y: op.expand_dims(y, 2)),
    "relax.squeeze": emitted(lambda y: op.expand_dims(y, 1), lambda y: op.squeeze(y, [1])),
    "relax.permute_dims": emitted(lambda y: op.permute_dims(y, [0, 2, 1, 3])),
    "relax.layout_transform": emitted(
        lambda y: op.layout_transform(y, lambda n, c, h, w: (n, c // 2, h, w, c % 2))
    ),
    "relax.einsum": emitted(lambda y: op.einsum((y, y), "nchw,nchw->nhc")),
    "relax.outer": emitted(op.flatten, lambda y: op.outer(y, y)),
    "relax.median": first_of(lambda y: op.median(y, [1])),
    "relax.topk": first_of(lambda y: op.topk(y, 2, 1)),
    "relax.tril": emitted(op.tril),
    "relax.triu": emitted(op.triu),
    "relax.one_hot": emitted(
        lambda y: op.argmax(y, 1), lambda i: op.one_hot(i, relax.prim_value(1.0), relax.prim_value(0.0), 4, 1)
    ),
    "relax.full_like": emitted(lambda y: op.full_like(y, const(2.5))),
    "relax.eye_like": emitted(lambda y: op.reshape(y, (8, -1)), op.eye_like),
    "relax.collapse_sum_like": emitted(lambda y: op.collapse_sum_like(y, const(np.ones((4, 1, 5))))),
    "relax.collapse_sum_to": emitted(lambda y: op.collapse_sum_to(y, (4, 1, 5))),
    "relax.gather_nd": emitted(lambda y: op.gather_nd(y, POSITIONS)),
    "relax.scatter_nd": emitted(
        lambda y: op.scatter_nd(y, const([[1, 2]], "int64"), const(np.ones((1, 8, 5))), "update")
    ),
    "relax.slice_scatter": emitted(lambda y: op.slice_scatter(y, UPDATES, 1, 5, 2, 2)),
    "relax.index_tensor": emitted(
        lambda y: op.index_tensor(y, [const([1, 0], "int64"), const([2, 3], "int64")])
    ),
    "relax.index_put": emitted(
        lambda y: op.index_put(y, [const([i], "int64") for i in (1, 2, 3, 4)], const([9.0]))
    ),
    "relax.reverse_sequence": emitted(
        lambda y: op.reverse_sequence(y, const([2, 3], "int64"), seq_axis=1, batch_axis=0)
    ),
    "relax.dynamic_strided_slice": emitted(
        lambda y: op.dynamic_strided_slice(
            y, const([0, 1, 0, 0], "int64"), const([2, 4, 8, 5], "int64"), const([1, 2, 1, 1], "int64")
        ),
    ),
    "relax.bucketize": emitted(lambda y: op.bucketize(y, const([-0.5, 0.0, 0.5]))),
    "relax.size": emitted(op.size),
    "relax.meshgrid": emitted(
        lambda y: op.mean(y, [0, 2, 3]),
        lambda y: op.meshgrid((y, y), "ij"),
        lambda pair: relax.TupleGetItem(pair, 0),
    ),
    "relax.nn.attention": emitted(lambda y: op.nn.attention(y, y, y)),
    "relax.nn.attention_bias": emitted(lambda y: op.nn.attention(y, y, y, const(np.ones((2, 8, 4, 4))))),
    "relax.nn.conv1d_transpose": emitted(
        lambda y: op.mean(y, [2]), lambda y: op.nn.conv1d_transpose(y, const(np.ones((4, 3, 2))))
    ),
    "relax.nn.conv2d_transpose": emitted(lambda y: op.nn.conv2d_transpose(y, const(np.ones((4, 3, 2, 2))))),
    "relax.nn.conv3d_transpose": emitted(
        lambda y: op.expand_dims(y, 2), lambda y: op.nn.conv3d_transpose(y, const(np.ones((4, 3, 1, 2, 2))))
    ),
    "relax.nn.cross_entropy_with_logits": emitted(
        lambda y: op.reshape(y, (8, -1)), lambda y: op.nn.cross_entropy_with_logits(y, y)
    ),
    "relax.nn.nll_loss": emitted(lambda y: op.nn.nll_loss(y, const(np.ones((2, 8, 5)), "int64"))),
    "relax.image.grid_sample": emitted(lambda y: op.image.grid_sample(y, FLOW)),
    "relax.image.affine_grid": emitted(
        lambda y: op.reshape(op.strided_slice(y, [1, 2, 3], [0, 0, 0], [1, 2, 3]), (2, 2, 3)),
        lambda y: op.image.affine_grid(y, (4, 6)),
    ),
    "relax.vision.roi_align": emitted(lambda y: op.vision.roi_align(y, ROIS, (2, 2), 1.0)),
    "relax.vision.roi_pool": emitted(lambda y: op.vision.roi_pool(y, ROIS, (2, 2), 1.0)),
}
"""What follows the first convolution, by the op in question; its result is (2, 4, 8, 5)."""


def chain(follow):
    """A convolution, what follows, and where that has four axes another convolution."""
    return chains([follow])


def chains(follows):
    x, w = (
        relax.Var(n, relax.TensorType(s, "float32")) for n, s in (("x", (2, 3, 8, 10)), ("w", (4, 3, 3, 3)))
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w]):
        with builder.dataflow():
            first = builder.emit(op.nn.relu(op.nn.conv2d(x, w, padding=(1, 0, 1, 2), strides=(1, 2))))
            ends = [convolved(builder, follow(builder, first)) for follow in follows]
            out = builder.emit_output(relax.Tuple(ends))
        builder.emit_func_output(out)
    return builder.get()


def convolved(builder, value):
    if value.ty.ndim != 4 or str(value.ty.dtype) != "float32" or value.ty.shape is None:
        return value
    channels = int(value.ty.shape[1])
    weight = np.linspace(-1, 1, 5 * channels, dtype="float32").reshape(5, channels, 1, 1)
    return builder.emit(op.nn.conv2d(value, relax.const(weight)))


def run(mod, seed=0):
    """The answers of ``main`` on seeded inputs."""
    generator = np.random.default_rng(seed)
    arguments = [
        generator.standard_normal(tuple(map(int, param.ty.shape)), dtype=np.float32)
        for param in mod["main"].params
    ]
    machine = host_machine(mod)
    result = machine["main"](*map(tvm.runtime.tensor, arguments))
    return [result.numpy()] if hasattr(result, "numpy") else [out.numpy() for out in result]
