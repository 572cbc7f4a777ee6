"""What mixtures of experts are made of: products of groups of rows, histograms, and a whole one."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import needs_onednn, ops_on_host
from tvm import relax

import annotated_region as ar
from annotated_region.importing.torch_programs.converters.histograms import least_of_bins

# PyTorch warns of its own use of its own code.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

TARGETS = ["", pytest.param("dnnl", marks=needs_onednn), "onnxruntime"]


@pytest.fixture
def experts(with_torch) -> ModuleType:
    return importlib.import_module("kits.importing.torch_experts")


def built(program: Any, target: str) -> Any:
    module = ar.from_exported_program(program)
    return relax.VirtualMachine(
        ar.build(ar.partition(module, [target]) if target else module).jit(), tvm.cpu()
    )


def answers(machine: Any, given: Any) -> list[np.ndarray]:
    array_of = importlib.import_module("kits.torch_halves").array_of
    found = machine["main"](*(tvm.runtime.tensor(array_of(each.detach())) for each in given))
    return [each.numpy() for each in ([found] if hasattr(found, "numpy") else found)]


@pytest.mark.parametrize("target", TARGETS)
def test_groups_of_rows_are_multiplied_by_their_matrices(experts, target):
    """Also by none, where a group is empty; rows behind the last group are zeros, as transformers has it."""
    machine = built(experts.groups_program(), target)
    for rows, ends in ((7, [2, 2, 6]), (7, [0, 0, 0]), (1, [0, 1, 1]), (5, [5, 5, 5]), (9, [3, 4, 9])):
        given = experts.groups(rows, ends)
        expected = experts.products_of_groups(*given)
        (found,) = answers(machine, given)
        np.testing.assert_allclose(found, expected, 1e-5, 1e-5, err_msg=f"{rows} rows, ends {ends}")


@needs_onednn
def test_groups_along_each_axis_are_those_of_torch(experts):
    """Of rows, of columns, of what is multiplied, and of none. PyTorch exports them of bfloat16 only."""
    program, given, expected = experts.each_axis()
    for found, answer in zip(answers(built(program, "dnnl"), given), expected, strict=True):
        assert found.dtype.name == "bfloat16"
        np.testing.assert_allclose(found.astype("float32"), answer, 2**-8, 1e-6)


@pytest.mark.parametrize("target", TARGETS)
def test_a_mixture_of_experts_is_that_of_torch(experts, target):
    """Sorted by expert and counted by a histogram, as transformers exports it; of any number of tokens."""
    program, model = experts.mixture_program()
    machine = built(program, target)
    for tokens in (7, 1, 20):
        x = experts.seeded(tokens, experts.WIDTH)
        (found,) = answers(machine, [x])
        np.testing.assert_allclose(found, model.one_by_one(x).numpy(), 2e-5, 2e-5)


@needs_onednn
def test_a_mixture_of_experts_is_one_region(experts):
    partitioned = ar.partition(ar.from_exported_program(experts.mixture_program()[0]), ["dnnl"])
    assert not ops_on_host(partitioned, "main")


@pytest.mark.parametrize("target", TARGETS)
def test_histograms_are_those_of_torch(experts, target):
    """Of numbers at the edges of the bins and beside them, of infinity and of no number."""
    program, model, given = experts.histograms()
    for found, expected in zip(answers(built(program, target), given), model(*given), strict=True):
        np.testing.assert_array_equal(found, expected.numpy())


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_edges_of_bins_are_the_least_numbers_in_them(dtype):
    draw = np.random.default_rng(0)
    one = np.dtype(dtype).type
    for _ in range(50):
        bins, (first, last) = int(draw.integers(1, 30)), sorted(map(float, draw.normal(size=2) * 5))
        edges = least_of_bins(bins, first, last, dtype)
        begin, width = one(first), one(last) - one(first)
        own, before = (
            np.minimum(((each - begin) * one(bins) / width).astype("int64"), bins - 1)
            for each in (edges, np.nextafter(edges, one(-np.inf)))
        )
        assert (own >= np.arange(bins)).all()
        assert (before[1:] < np.arange(1, bins)).all()
        assert edges[0] == begin


def test_the_largest_in_any_order_are_those_of_torch(experts):
    """As DeepSeek-V3 chooses groups of experts, which PyTorch returns in any order."""
    program, model, given = experts.unordered()
    *found, scalar, place = answers(built(program, ""), given)
    *expected, same, first = model(*given)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.sort(one), np.sort(other.numpy()))
    assert (scalar, place) == (same.numpy(), first.numpy())


def test_a_histogram_without_bounds_is_refused(experts):
    with pytest.raises(ar.ModelError, match=r"histc\.default \(.*\): without bounds, .* give min and max"):
        ar.from_exported_program(experts.without_bounds())
