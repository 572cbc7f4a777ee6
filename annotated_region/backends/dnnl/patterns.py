"""Patterns of composites, under TVM's names, that oneDNN computes as one primitive.

The code generator finds the same and longer fusions in any region; the composites expose them to cost models
and reports, and allow regions partitioned by TVM's own passes.
"""

from __future__ import annotations

from collections.abc import Iterator

from tvm.relax.dpl import DFPattern, is_op, wildcard
from tvm.relax.transform import PatternCheckContext

from annotated_region.backends.dnnl.ops import TARGET
from annotated_region.backends.dnnl.ops.checks import TRUTH, first_problem, tensor_problem
from annotated_region.backends.dnnl.ops.normalization import reduced_axes
from annotated_region.targets.op_view import OpView
from annotated_region.targets.rules import register_pattern, rule_of

__all__ = ["check", "check_any"]
CAST = "relax.astype"
ACTIVATIONS = {
    "relu": "relax.nn.relu",
    "sigmoid": "relax.sigmoid",
    "tanh": "relax.tanh",
    "clip": "relax.clip",
}
MATMUL_ACTIVATIONS = {**ACTIVATIONS, "gelu": "relax.nn.gelu"}
PRODUCERS = {
    "conv2d": "relax.nn.conv2d",
    "conv2d_transpose": "relax.nn.conv2d_transpose",
    "matmul": "relax.matmul",
}


def check(context: PatternCheckContext) -> bool | str:
    """Accept a match if the rule of each of its ops claims the op."""
    for value in context.matched_bindings.values():
        view = OpView.of(value)
        rule = None if view is None else rule_of(TARGET, view.name)
        answer = "an op without a rule" if view is None or rule is None else rule(view)
        if answer is not True:
            return answer
    return True


def check_any(context: PatternCheckContext) -> bool | str:
    """Accept a cast from bool to int8, a maximum, and a cast back to bool."""
    views = [OpView.of(value) for value in context.matched_bindings.values()]
    by_type = {str(view.out_tensor.dtype): view for view in views if view is not None and view.name == CAST}
    if set(by_type) != {"int8", TRUTH}:
        return "it does not cast from bool to int8 and back"
    (largest,) = (view for view in views if view is not None and view.name != CAST)
    if not reduced_axes(largest):
        return "it has no axes to reduce"
    given, found = by_type["int8"].arg_types[0], by_type[TRUTH].out_type
    return first_problem(
        tensor_problem(type_, "an operand or the result", (TRUTH,)) for type_ in (given, found)
    )


def _any() -> DFPattern:
    """The form in which PyTorch's importer expresses ``any`` along an axis."""
    return is_op(CAST)(is_op("relax.max")(is_op(CAST)(wildcard())))


def _patterns() -> Iterator[tuple[str, DFPattern]]:
    for name, op in PRODUCERS.items():
        activations = MATMUL_ACTIVATIONS if name == "matmul" else ACTIVATIONS
        plain = is_op(op)(wildcard(), wildcard())
        biased = is_op("relax.add")(plain, wildcard())
        yield f"{name}_bias", biased
        yield from ((f"{name}_{short}", _applied(full, plain)) for short, full in activations.items())
        yield from ((f"{name}_bias_{short}", _applied(full, biased)) for short, full in activations.items())
    biased = is_op("relax.add")(is_op(PRODUCERS["conv2d"])(wildcard(), wildcard()), wildcard())
    for operands in ((biased, wildcard()), (wildcard(), biased)):
        summed = is_op("relax.add")(*operands)
        yield "conv2d_bias_sum", summed
        yield "conv2d_bias_sum_relu", is_op("relax.nn.relu")(summed)


def _applied(op: str, pattern: DFPattern) -> DFPattern:
    more = (wildcard(), wildcard()) if op == "relax.clip" else ()
    return is_op(op)(pattern, *more)


for _name, _pattern in _patterns():
    register_pattern(TARGET, f"dnnl.{_name}", _pattern, check)
register_pattern(TARGET, "dnnl.any", _any(), check_any)
