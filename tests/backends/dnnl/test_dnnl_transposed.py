"""Transposed convolutions with what is fused with them: against sums in float64, and by fast code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from kits.backends.dnnl.dnnl_harness import needs_onednn, offload
from kits.backends.relax_kit import module, var
from tvm import relax
from tvm.relax import op

pytestmark = needs_onednn


@dataclass(frozen=True)
class Form:
    """A transposed convolution: channels before and behind it, extents, and those of the kernel."""

    channels: tuple[int, int]
    extents: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    images: int = 1


FORMS = {
    # oneDNN 3.2 adds a bias to each part of these sums.
    "many channels": Form((512, 48), (10, 10), (4, 4), 2, 1),
    "many channels of large images": Form((256, 64), (16, 16), (4, 4), 2, 1),
    # oneDNN has reference code alone, or multiplies matrices and appends what follows by reference code.
    "dilation": Form((24, 16), (9, 7), (3, 3), 2, 0, dilation=2),
    "dilation of groups": Form((12, 16), (5, 6), (3, 2), 2, 1, dilation=2, groups=4, images=2),
    "long taps of a line": Form((40, 24), (31,), (11,), 5, 3),
    # oneDNN's descriptor of these takes time in proportion to the length.
    "a long line": Form((24, 16), (261,), (5,), 2, 1, images=2),
    "a long line of dilated taps": Form((8, 16), (175,), (4,), 3, 2, dilation=2),
    "few channels": Form((16, 3), (12, 12), (4, 4), 2, 1),
    "one channel": Form((8, 1), (9, 9), (9, 9), 3, 4),
    # By vector code that appends nothing.
    "depthwise": Form((21, 21), (8, 8), (4, 4), 2, 1, groups=21),
    "depthwise of full vectors": Form((32, 32), (8, 8), (4, 4), 2, 1, groups=32),
    "no strides": Form((32, 48), (8, 8), (3, 3), 1, 1),
    "strides of three": Form((32, 48), (8, 8), (3, 3), 3, 0),
    "groups": Form((64, 32), (8, 8), (4, 4), 2, 1, groups=4),
    "volumes": Form((16, 8), (4, 4, 4), (2, 2, 2), 2),
    "volumes with dilation": Form((4, 8), (3, 4, 4), (2, 3, 2), 2, 1, dilation=2),
}


def transposed(data: np.ndarray, kernel: np.ndarray, form: Form) -> np.ndarray:
    """The sums in float64: each tap of each pixel is added where it falls."""
    images, inner, *extents = data.shape
    outer = form.channels[1]
    whole = [
        (extent - 1) * form.strides + (taps - 1) * form.dilation + 1
        for extent, taps in zip(extents, form.kernel, strict=True)
    ]
    result = np.zeros((images, form.groups, outer // form.groups, *whole))
    groups = data.reshape(images, form.groups, inner // form.groups, *extents).astype("float64")
    factors = kernel.reshape(form.groups, inner // form.groups, *kernel.shape[1:]).astype("float64")
    for at, tap in enumerate(product(*map(range, form.kernel))):
        places = tuple(
            slice(
                begin * form.dilation, begin * form.dilation + (extent - 1) * form.strides + 1, form.strides
            )
            for begin, extent in zip(tap, extents, strict=True)
        )
        part = np.einsum("ngc...,gco->ngo...", groups, factors.reshape(*factors.shape[:3], -1)[..., at])
        result[(slice(None), slice(None), slice(None), *places)] += part
    inside = tuple(slice(form.padding, extent - form.padding) for extent in whole)
    return result.reshape(images, outer, *whole)[(slice(None), slice(None), *inside)]


Make = Callable[[relax.Expr, relax.Expr, relax.Expr], relax.Expr]
CHAINS: dict[str, tuple[Make, Callable[..., np.ndarray]]] = {
    "alone": (lambda y, _b, _z: y, lambda y, _b, _z: y),
    "bias": (lambda y, b, _z: op.add(y, b), lambda y, b, _z: y + b),
    "bias and bounds": (
        lambda y, b, _z: op.clip(op.add(y, b), -1, 2),
        lambda y, b, _z: np.clip(y + b, -1, 2),
    ),
    "activation, sum, factor": (
        lambda y, b, z: op.multiply(op.add(op.nn.leakyrelu(y, 0.125), z), b),
        lambda y, b, z: (np.where(y < 0, 0.125 * y, y) + z) * b,
    ),
}


@pytest.mark.sweep
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_sums_of_taps_with_what_follows(form):
    rng = np.random.default_rng(1)
    inner, outer = form.channels
    data = rng.standard_normal((form.images, inner, *form.extents)).astype("float32")
    kernel = rng.standard_normal((inner, outer // form.groups, *form.kernel)).astype("float32")
    sums = transposed(data, kernel, form)
    bias = rng.standard_normal((outer, *(1 for _ in form.extents))).astype("float32")
    more = rng.standard_normal(sums.shape).astype("float32")
    rank = len(form.extents)
    convolution = {1: op.nn.conv1d_transpose, 2: op.nn.conv2d_transpose, 3: op.nn.conv3d_transpose}[rank]
    x, z = var("x", data.shape), var("z", more.shape)

    def all_chains(_builder: relax.BlockBuilder) -> relax.Expr:
        def made() -> relax.Expr:
            steps = (form.strides,) * rank, (form.padding,) * rank, (form.dilation,) * rank
            attrs = dict(zip(("strides", "padding", "dilation"), steps, strict=True))
            return convolution(x, relax.const(kernel), groups=form.groups, **attrs)

        return relax.Tuple([make(made(), relax.const(bias), z) for make, _ in CHAINS.values()])

    built = offload(module([x, z], all_chains))
    (symbol,) = built.symbols_of("main")
    found = built.call("main", data, more)
    size = np.abs(transposed(np.abs(data), np.abs(kernel), form)).max()
    for name, result, (_, expected) in zip(CHAINS, found, CHAINS.values(), strict=True):
        np.testing.assert_allclose(result, expected(sums, bias, more), rtol=0, atol=2e-6 * size, err_msg=name)
    plan = "\n".join(built.plan(symbol))
    assert "ref:" not in plan
    if sums.shape[2:] >= (512,):
        assert "deconvolution" not in plan
