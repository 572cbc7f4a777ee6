"""What is no number or has no end goes through every claimed op as through TVM, or the op is declined."""

from __future__ import annotations

import pytest
from kits.backends.special_differences import DIFFERENCES
from kits.backends.special_kit import outcome
from kits.backends.special_moves import WITHOUT_CASE

from annotated_region.backends import onnxruntime, tensorrt
from annotated_region.backends.dnnl import installation
from annotated_region.backends.onnx_emitter.conversions.absent import ABSENT
from annotated_region.targets.rules import rules_of

TARGETS = ("dnnl", onnxruntime.rules.TARGET, tensorrt.rules.TARGET)
needs_onednn = pytest.mark.skipif(
    installation.unavailable() is not None, reason=str(installation.unavailable())
)

WHOLE = (
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
)
DECLINED = {
    "onnxruntime": set(ABSENT),
    "tensorrt": {
        *ABSENT,
        *(f"relax.{name}" for name in ("nn.max_pool1d", "nn.avg_pool1d", "quantize")),
    },
    "dnnl": {f"relax.{name}" for name in WHOLE},
}
"""Ops that a target has a rule for, which declines all their cases."""


@needs_onednn
@pytest.mark.parametrize("target", TARGETS)
def test_special_numbers_go_through_all_ops_as_through_tvm(target: str) -> None:
    assert not outcome(target).failures, "\n".join(outcome(target).failures)


@needs_onednn
@pytest.mark.parametrize("target", TARGETS)
def test_every_op_with_a_rule_has_a_case(target: str) -> None:
    ran = outcome(target).ops
    assert set(rules_of(target)) - ran == set(WITHOUT_CASE).union(DECLINED.get(target, ())) & set(
        rules_of(target)
    )


@needs_onednn
def test_every_difference_that_is_explained_is_there() -> None:
    """By reason: where NaN stands in an order changed between two releases of ONNX Runtime."""
    used = {each.reason for target in TARGETS for each in outcome(target).used}
    assert [each.reason for each in DIFFERENCES if each.reason not in used] == []
