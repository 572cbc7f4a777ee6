"""Tensors of seven and eight axes, as windows of videos and their positions have them; norms of all axes."""

from __future__ import annotations

import numpy as np
import pytest
from kits.backends.dnnl.dnnl_harness import needs_onednn, offload, ops_on_host, single
from tvm import relax, tirx
from tvm.relax import op

SHAPES = {7: (2, 1, 3, 2, 2, 1, 4), 8: (2, 1, 3, 2, 2, 1, 4, 2)}


def permutation(rank):
    """Of windows: the places in one, behind the places of windows."""
    return [0, 2, 4, 6, 1, 3, 5] if rank == 7 else [0, 1, 3, 5, 2, 4, 6, 7]


OPS = {
    # name: the expression in Relax, and in numpy
    "joined in front": (lambda x, y: op.concat([x, y], 0), lambda x, y: np.concatenate([x, y], 0)),
    "joined inside": (lambda x, y: op.concat([x, y, x], 3), lambda x, y: np.concatenate([x, y, x], 3)),
    "joined at the end": (lambda x, y: op.concat([x, y], -1), lambda x, y: np.concatenate([x, y], -1)),
    "joined with a slice": (
        lambda x, y: op.concat([x, op.strided_slice(y, [2], [1], [3])], 2),
        lambda x, y: np.concatenate([x, y[:, :, 1:3]], 2),
    ),
    "permuted": (
        lambda x, y: op.permute_dims(x, permutation(x.ty.ndim)),
        lambda x, y: x.transpose(permutation(x.ndim)),
    ),
    "permuted and joined": (
        lambda x, y: op.concat([op.permute_dims(each, permutation(each.ty.ndim)) for each in (x, y)], 4),
        lambda x, y: np.concatenate([each.transpose(permutation(each.ndim)) for each in (x, y)], 4),
    ),
    "added along axes": (
        lambda x, y: op.add(x, op.max(y, [1, 3, 6], keepdims=True)),
        lambda x, y: x + y.max((1, 3, 6), keepdims=True),
    ),
    "summed": (lambda x, y: op.sum(x, [2, 4]), lambda x, y: x.sum((2, 4))),
    "spread": (
        lambda x, y: op.broadcast_to(x, [2, 5, *x.ty.shape.values[2:]]),
        lambda x, y: np.broadcast_to(x, (2, 5, *x.shape[2:])),
    ),
}


@pytest.mark.sweep
@needs_onednn
@pytest.mark.parametrize("rank", SHAPES)
@pytest.mark.parametrize("name", OPS)
def test_numbers_are_those_of_numpy(name, rank):
    in_relax, in_numpy = OPS[name]
    x, y = (relax.Var(each, relax.TensorType(SHAPES[rank], "float32")) for each in "xy")
    offloaded = offload(single([x, y], op.nn.relu(in_relax(x, y))))
    assert not ops_on_host(offloaded.module)
    random = np.random.default_rng(rank)
    arrays = [random.standard_normal(SHAPES[rank]).astype("float32") for _ in range(2)]
    (found,) = offloaded.call("main", *arrays)
    np.testing.assert_allclose(found, np.maximum(in_numpy(*arrays), 0), 1e-6, 1e-6)


@needs_onednn
def test_tensors_of_a_symbolic_batch_are_joined():
    batch = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((batch, *SHAPES[8][1:]), "float32"))
    offloaded = offload(single([x], op.nn.relu(op.concat([x, op.nn.relu(x)], 3))))
    assert not ops_on_host(offloaded.module)
    for count in (1, 3):
        array = np.random.default_rng(count).standard_normal((count, *SHAPES[8][1:])).astype("float32")
        (found,) = offloaded.call("main", array)
        np.testing.assert_array_equal(found, np.maximum(np.concatenate([array, array], 3), 0))


@needs_onednn
@pytest.mark.parametrize(
    ("shape", "count"), [((8,), 1), ((3, 4), 2), ((2, 1, 3, 2, 2, 5), 1), ((1,) * 7, 2)], ids=str
)
def test_norms_of_all_axes_and_of_one_of_many(shape, count):
    """oneDNN takes one to four axes of rows."""
    batch = tirx.Var("n", "int64")
    axes, within = list(range(-count, 0)), shape[len(shape) - count :]
    random = np.random.default_rng(len(shape))
    scale, shift = (random.standard_normal(within).astype("float32") for _ in range(2))
    x = relax.Var("x", relax.TensorType((shape[0] if count == len(shape) else batch, *shape[1:]), "float32"))
    centred = op.nn.layer_norm(x, relax.const(scale), relax.const(shift), axes, 1e-3)
    offloaded = offload(
        single([x], op.concat([centred, op.nn.rms_norm(x, relax.const(scale), axes, 1e-3)], 0))
    )
    assert not ops_on_host(offloaded.module)
    array = random.standard_normal(shape).astype("float32")
    (found,) = offloaded.call("main", array)
    wide, along = array.astype("float64"), tuple(axes)
    apart = wide - wide.mean(along, keepdims=True)
    layer = apart / np.sqrt((apart**2).mean(along, keepdims=True) + 1e-3) * scale + shift
    root = wide / np.sqrt((wide**2).mean(along, keepdims=True) + 1e-3) * scale
    np.testing.assert_allclose(found, np.concatenate([layer, root], 0), 1e-5, 1e-5)


@needs_onednn
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((2, 1, 1, 1, 2, 2, 2, 1), (0, 6, 1, 7, 2, 5, 3, 4)), ((2, 1, 1, 2, 2, 2, 1), (1, 5, 0, 2, 6, 4, 3))],
)
def test_a_factor_by_columns_of_permuted_axes(shape, axes):
    """OneDNN takes the factors of other columns where the axes lie in another order."""
    x, y = (relax.Var(name, relax.TensorType(each, "float32")) for name, each in (("x", shape), ("y", (2,))))
    offloaded = offload(single([x, y], op.multiply(op.permute_dims(x, axes), y)))
    random = np.random.default_rng(0)
    data, factors = (random.standard_normal(each).astype("float32") for each in (shape, (2,)))
    (found,) = offloaded.call("main", data, factors)
    np.testing.assert_array_equal(found, data.transpose(axes) * factors)
