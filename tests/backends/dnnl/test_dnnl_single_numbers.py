"""Single numbers, bytes and products of whole numbers in regions, beside TVM alone."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from kits.backends.dnnl.dnnl_harness import Offloaded, needs_onednn, offload, ops_on_host, run, tvm_alone
from kits.backends.dnnl.number_cases import NUMBER_CASES, number_module
from kits.backends.dnnl.whole_cases import WholeCase
from tvm import relax

from annotated_region.backends.dnnl.rewriting.rewriter import verification
from annotated_region.testing.dnnl_verifier import verify


@cache
def offloaded() -> Offloaded:
    with verification(verify):
        return offload(number_module())


@cache
def on_host() -> relax.VirtualMachine:
    return tvm_alone(number_module())


@needs_onednn
@pytest.mark.parametrize("case", NUMBER_CASES, ids=lambda case: case.name)
def test_the_answer_is_that_of_tvm(case: WholeCase) -> None:
    """Whole numbers to the last bit; floats but for the last bits of a function."""
    expected = run(on_host(), case.name, case.inputs)
    for _ in range(2):
        for found, wanted in zip(offloaded().call(case.name, *case.inputs), expected, strict=True):
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
            if found.dtype.kind == "f":
                np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-7)
            else:
                np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("case", NUMBER_CASES, ids=lambda case: case.name)
def test_each_graph_is_claimed_whole(case: WholeCase) -> None:
    assert not ops_on_host(offloaded().module, case.name)
