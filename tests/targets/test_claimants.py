"""What a target would lose if one op stood in the place of several; preparation asks before it raises."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.relax.dpl import DFPattern, is_op, wildcard

import annotated_region as ar
from annotated_region.testing.registry import claim_ops, temporary_registrations

op = relax.op
ARITHMETIC = ("relax.add", "relax.multiply")


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test() -> Iterator[None]:
    with temporary_registrations():
        claim_ops("parts", "relax.erf", *ARITHMETIC)
        claim_ops("whole", "relax.nn.gelu", *ARITHMETIC)
        claim_ops("convolutions", "relax.nn.conv2d")
        yield


def gelu_by_parts() -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            curve = builder.emit(op.erf(op.multiply(x, relax.const(np.float32(0.5**0.5)))))
            gate = builder.emit(op.add(curve, relax.const(np.float32(1))))
            output = builder.emit_output(op.multiply(op.multiply(x, relax.const(np.float32(0.5))), gate))
        builder.emit_func_output(output)
    return builder.get()


def ops_after_preparation(*targets: str) -> set[str]:
    names: dict[str, None] = {}

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.Op):
            names[str(expr.op.name)] = None

    prepared = ar.passes.PrepareForInference(targets=targets)(gelu_by_parts())
    relax.analysis.post_order_visit(prepared["main"], visit)
    return set(names)


@pytest.mark.parametrize(
    ("targets", "raised"),
    [
        ([], True),
        (["whole"], True),
        (["convolutions"], True),
        (["whole", "convolutions"], True),
        (["parts"], False),
        (["whole", "parts"], False),
        (["parts", "whole"], False),
    ],
)
def test_an_op_is_raised_unless_a_target_claims_its_parts_alone(targets: list[str], raised: bool) -> None:
    assert ("relax.nn.gelu" in ops_after_preparation(*targets)) is raised


@pytest.mark.parametrize("order", [["whole", "parts"], ["parts", "whole"]])
def test_no_target_loses_an_op(order: list[str]) -> None:
    for prepare in (True, False):
        (function,) = ar.explain(gelu_by_parts(), order, prepare=prepare).functions
        assert sum("parts" in each.claims for each in function.ops) == 5


def silent(pattern: DFPattern) -> bool:
    """Whether a target that has only this pattern keeps the parts of GELU from being raised."""
    with temporary_registrations():
        ar.register_pattern("patterned", "patterned.composite", pattern)
        return "relax.nn.gelu" in ops_after_preparation("whole", "patterned")


def test_a_pattern_may_claim_parts_too() -> None:
    with temporary_registrations():
        claim_ops("whole", "relax.nn.gelu", "relax.erf", *ARITHMETIC)
        convolution = is_op("relax.nn.conv2d")(wildcard(), wildcard())
        assert silent(is_op("relax.add")(convolution, wildcard()))
        assert not silent(is_op("relax.add")(is_op("relax.erf")(wildcard()), wildcard()))
        assert not silent(is_op("relax.add")(is_op("relax.multiply")(wildcard(), wildcard()), wildcard()))


def test_an_unknown_target_is_an_error() -> None:
    with pytest.raises(ar.UnknownTargetError, match="unknown target 'nobody'"):
        ops_after_preparation("nobody")


def test_a_rule_that_fails_is_named() -> None:
    @ar.register_rule("failing", "relax.nn.gelu")
    def _(_op: ar.OpView) -> bool:
        raise ValueError("no idea")

    with pytest.raises(
        ar.RuleError, match=r"the rule of 'failing' for relax.nn.gelu at .* failed: ValueError: no idea"
    ):
        ops_after_preparation("failing")
