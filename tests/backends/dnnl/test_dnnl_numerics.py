"""Every claimed op and every fusion computes what TVM computes without offload."""

from __future__ import annotations

import numpy as np
import pytest
from kits.backends.dnnl.dnnl_cases import Case
from kits.backends.dnnl.dnnl_harness import all_cases, all_cases_on_host, needs_onednn, run
from kits.backends.dnnl.dnnl_transformer_cases import CASES
from tvm import relax

RELATIVE = 1e-4
ABSOLUTE = 2e-5


@needs_onednn
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_offloaded_result_is_tvms(case: Case) -> None:
    inputs = case.inputs()
    expected = run(all_cases_on_host(), case.name, inputs)
    for _ in range(2):  # the second call finds plan and arena in place
        results = all_cases().call(case.name, *inputs)
        assert len(results) == len(expected)
        for result, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, wanted, rtol=RELATIVE, atol=ABSOLUTE)


@needs_onednn
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nothing_stays_on_the_host(case: Case) -> None:
    bindings = [b for block in all_cases().module[case.name].body.blocks for b in block.bindings]
    calls = [b.value for b in bindings if isinstance(b.value, relax.Call)]
    assert len(all_cases().symbols_of(case.name)) == len(calls) == 1
