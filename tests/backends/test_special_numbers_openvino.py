"""NaN, infinity and their like on OpenVINO, whose kernels are for finite numbers: what differs is listed."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from kits.backends.openvino_kit import needs_openvino
from kits.backends.special_agreement import agree
from kits.backends.special_kit import answers, by_tvm, calls_of, ops_of_regions, whole_module
from kits.backends.special_moves import CASES
from kits.backends.special_undefined import OVERFLOWING, UNDEFINED
from tvm import relax

import annotated_region as ar
from annotated_region.host_targets import UNOPTIMIZED

LARGE, SMALL = 1e30, float(np.finfo("float32").tiny)


def is_ordinary(arguments):
    """Whether all numbers are finite, far from overflow, and none is a denormal."""
    sizes = [np.abs(each) for each in arguments]
    return all(np.all((size == 0) | ((size >= SMALL) & (size < LARGE))) for size in sizes)


@pytest.fixture(scope="module")
def differing(tmp_path_factory):
    """The cases that differ from TVM: for ordinary numbers, and for others."""
    found = set(), set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        module = ar.partition(whole_module(), ["openvino"], prepare=False)
        machine = relax.VirtualMachine(ar.build(module, UNOPTIMIZED).jit(), tvm.cpu())
        for name, case in CASES.items():
            if not ops_of_regions(module, name):
                continue
            for given, wanted, got in zip(
                calls_of(case), by_tvm()[name], answers(machine, case), strict=True
            ):
                for one, other in zip(wanted, got, strict=True):
                    if not agree(one, other, is_sum=case.kind == "one").all():
                        found[is_ordinary(given)].add(name)
    return found


@needs_openvino
def test_ordinary_numbers_go_through_all_ops_as_through_tvm(differing):
    assert differing[True] == OVERFLOWING


@needs_openvino
def test_what_differs_for_other_numbers_is_what_is_listed(differing):
    assert differing[False] == UNDEFINED
