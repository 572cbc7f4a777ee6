"""Whole models of six families by relax.frontend.nn: one region each, and the answer of TVM alone."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import external_functions, needs_onednn, ops_on_host, run, tvm_alone
from kits.family_sizes import FAMILIES
from kits.relax_models import relax_inputs, relax_model
from tvm import relax

import annotated_region as ar
from annotated_region.errors import ModelError

WORDS = {"reshape", "take", "equal"}
"""What prepares whole numbers: looking up words, and which of them are seen."""


def answers(module: tvm.IRModule, given: list[dict[str, np.ndarray]]) -> list[np.ndarray]:
    machine = relax.VirtualMachine(ar.build(module).jit(), tvm.cpu())
    return [run(machine, "forward", list(inputs.values()))[0] for inputs in given]


def assert_agrees(
    module: tvm.IRModule, partitioned: tvm.IRModule, given: list[dict[str, np.ndarray]]
) -> None:
    alone = tvm_alone(module)
    for inputs, answer in zip(given, answers(partitioned, given), strict=True):
        expected = run(alone, "forward", list(inputs.values()))[0]
        assert 0.3 < expected.std() < 3
        np.testing.assert_allclose(answer, expected, rtol=1e-4, atol=2e-5)


@needs_onednn
@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_one_region_and_agrees_with_tvm(name: str) -> None:
    module = relax_model(name, "small")
    partitioned = ar.partition(module, ["dnnl"])
    assert len(external_functions(partitioned)) == 1
    assert ops_on_host(partitioned, "forward") <= WORDS
    assert_agrees(module, partitioned, [relax_inputs(name, "small")])


@needs_onednn
@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_of_any_batch_and_length_is_one_region_and_agrees_with_tvm(name: str) -> None:
    module = relax_model(name, "small", any_size=True)
    partitioned = ar.partition(module, ["dnnl"])
    assert len(external_functions(partitioned)) == 1
    assert ops_on_host(partitioned, "forward") <= WORDS | {"arange"}
    given = [
        {key: array[:, :length] if array.ndim == 2 else array for key, array in whole.items()}
        for batch, length in ((1, 5), (3, 24), (2, 2))
        for whole in (relax_inputs(name, "small", batch=batch),)
    ]
    assert_agrees(module, partitioned, [{key: array.copy() for key, array in each.items()} for each in given])


def test_another_seed_has_other_weights_and_an_unknown_family_is_refused() -> None:
    first, second, third = (relax_model("vit", "small", seed=seed) for seed in (0, 1, 0))
    for module, is_same in ((second, False), (third, True)):
        found, expected = (_weight(each) for each in (module, first))
        assert np.array_equal(found, expected) == is_same
    with pytest.raises(ModelError, match="no model 'rnn' of size 'small'"):
        relax_model("rnn", "small")


def _weight(module: tvm.IRModule) -> np.ndarray:
    found: list[np.ndarray] = []

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, tvm.ir.GenericConst):
            found.append(expr.value.numpy())

    relax.analysis.post_order_visit(module["forward"], visit)
    return max(found, key=lambda array: array.size)
