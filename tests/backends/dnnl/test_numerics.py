"""Every claimed op and every fusion computes what TVM computes without offload."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from tests.backends.dnnl.cases import CASES, Case
from tests.backends.dnnl.harness import Offloaded, run

RELATIVE = 1e-4
ABSOLUTE = 2e-5


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_offloaded_result_is_tvms(case: Case, offloaded: Offloaded, reference: relax.VirtualMachine) -> None:
    inputs = case.inputs()
    expected = run(reference, case.name, inputs)
    for _ in range(2):  # the second call finds plan and arena in place
        results = offloaded.call(case.name, *inputs)
        assert len(results) == len(expected)
        for result, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, wanted, rtol=RELATIVE, atol=ABSOLUTE)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nothing_stays_on_the_host(case: Case, offloaded: Offloaded) -> None:
    bindings = [b for block in offloaded.module[case.name].body.blocks for b in block.bindings]
    calls = [b.value for b in bindings if isinstance(b.value, relax.Call)]
    assert len(offloaded.symbols_of(case.name)) == len(calls) == 1
