"""Products with weights of GPTQ, AWQ and MLC run on packed weights, as numpy computes them."""

from __future__ import annotations

import numpy as np
import tvm
from kits.backends.dnnl.dnnl_harness import Offloaded, needs_onednn, offload, ops_on_host
from kits.passes.unpacked_chains import Chain, module_with

import annotated_region as ar


def prepared(module: tvm.IRModule) -> Offloaded:
    return offload(ar.passes.PrepareForInference(targets=["dnnl"])(module))


@needs_onednn
def test_products_are_those_of_the_words():
    chain, names = Chain.random(256, 72, 32), ("gptq", "awq", "mlc")
    offloaded = prepared(module_with(chain, *names))
    (symbol,) = offloaded.symbols_of("main")
    for rows in (1, 3, 40):
        x = np.random.default_rng(rows).standard_normal((rows, 256), "float32")
        for name, found in zip(names, offloaded.call("main", x), strict=True):
            floats = chain.floats(7 if name.startswith("mlc") else None)
            np.testing.assert_allclose(found, x @ floats, rtol=1e-4, atol=1e-4)
        assert all("of int4 in groups of 32" in line for line in offloaded.plan(symbol) if "rows" in line)
    assert ops_on_host(offloaded.module) == set()


@needs_onednn
def test_halves_of_mlc_are_multiplied_as_float32():
    """The host rounds each weight and sum to float16; this result is as close to the words as float16 is."""
    chain = Chain.random(128, 40, 32, "float16")
    x = np.random.default_rng(0).standard_normal((2, 128)).astype("float16")
    (found,) = prepared(module_with(chain, "mlc")).call("main", x)
    expected = x.astype("float64") @ chain.floats(7)
    assert np.abs(found - expected).max() <= 2**-10 * np.abs(expected).max()
