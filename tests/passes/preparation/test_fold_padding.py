"""Zero padding goes into the convolution; any other padding stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from kits.passes.preparation.preparation_kit import (
    becomes,
    constant,
    module,
    ops,
    prepare,
    run,
    stays,
    values,
)
from tvm import relax

op = relax.op


def padded(widths: list[int], mode: str = "constant", value: float = 0.0, **attrs: Any) -> tvm.IRModule:
    def body(_builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        return op.nn.conv2d(op.nn.pad(x, widths, mode, value), constant(4, 3, 3, 3), **attrs)

    return module(body, x=(1, 3, 6, 7))


def test_the_paddings_add_up() -> None:
    becomes(
        padded([0, 0, 0, 0, 1, 2, 0, 3], padding=(1, 0, 2, 1), strides=2),
        module(
            lambda _builder, x: op.nn.conv2d(x, constant(4, 3, 3, 3), padding=(2, 0, 4, 4), strides=2),
            x=(1, 3, 6, 7),
        ),
    )


def test_the_numbers_stay() -> None:
    before = padded([0, 0, 0, 0, 1, 2, 0, 3], padding=(1, 0, 2, 1), strides=2)
    (now,), (then,) = run(prepare(before), values(1, 3, 6, 7)), run(before, values(1, 3, 6, 7))
    np.testing.assert_allclose(now, then, rtol=1e-5)


LAYERS: dict[str, tuple[Callable[[relax.Expr], relax.Expr], tuple[int, ...]]] = {
    "1d": (lambda x: op.nn.conv1d(op.nn.pad(x, [0, 0, 0, 0, 1, 2]), constant(4, 3, 3)), (1, 3, 7)),
    "3d": (
        lambda x: op.nn.conv3d(op.nn.pad(x, [0, 0, 0, 0, 1, 0, 0, 2, 3, 1]), constant(2, 3, 2, 2, 2)),
        (1, 3, 3, 3, 3),
    ),
    "NHWC": (
        lambda x: op.nn.conv2d(
            op.nn.pad(x, [0, 0, 1, 2, 3, 0, 0, 0]),
            constant(3, 3, 2, 5),
            data_layout="NHWC",
            kernel_layout="HWIO",
        ),
        (1, 5, 5, 2),
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_every_rank_and_layout_folds(name: str) -> None:
    layer, shape = LAYERS[name]
    before = module(lambda _builder, x: layer(x), x=shape)
    after = prepare(before)
    assert "nn.pad" not in ops(after)
    np.testing.assert_allclose(run(after, values(*shape))[0], run(before, values(*shape))[0], rtol=1e-5)


def test_other_paddings_stay() -> None:
    stays(padded([0, 0, 0, 0, 1, 1, 1, 1], value=1.0))
    stays(padded([0, 0, 0, 0, 1, 1, 1, 1], mode="reflect"))
    stays(padded([1, 0, 0, 0, 1, 1, 1, 1]))
    stays(padded([0, 0, 0, 0, -1, 1, 0, 0]))


def test_a_padding_of_the_channels_stays() -> None:
    stays(
        module(
            lambda _builder, x: op.nn.conv2d(op.nn.pad(x, [0, 0, 0, 1, 1, 1, 1, 1]), constant(4, 3, 3, 3)),
            x=(1, 2, 6, 6),
        )
    )
