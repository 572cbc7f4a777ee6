r"""Measures the error of each product in isolation: a function that computes it both ways.

Each product is computed in float, and again from rounded operands; its users get the float result. So errors
do not propagate, and one run measures all products::

    x ---> conv ------------------+---> relu ---> ...
      \--> q/dq ---> conv(int8) --+---> sum((y8 - y) ** 2), sum(y ** 2), mean(y8 - y)
"""

from __future__ import annotations

from collections.abc import Iterator

from tvm import relax

from annotated_region.expr_map import ExprMap
from annotated_region.quantizing.plan import QuantizationPlan
from annotated_region.quantizing.reading import OpStep
from annotated_region.quantizing.roles import result_axis
from annotated_region.quantizing.steps import Steps
from annotated_region.quantizing.taps import tapped
from annotated_region.quantizing.writing import RoundingWriter, names_of

__all__ = ["RESULTS", "measuring_function"]

RESULTS = 3
"""The number of results per product."""


def measuring_function(func: relax.Function, plan: QuantizationPlan, steps: ExprMap[Steps]) -> relax.Function:
    """A function that returns three tensors for each product of a plan, in the plan's order.

    The sum of squares of the error of its result; that of the result; the mean error of each channel.
    """
    products: ExprMap[OpStep] = ExprMap((step.var, step) for step in plan.products)
    names, sums = names_of(func), []
    blocks = []
    for block in func.body.blocks:
        writer = RoundingWriter(block, plan, steps, names)
        bindings: list[relax.Binding] = []
        for binding in block.bindings:
            bindings.append(binding)
            if binding.var in products:
                measuring = list(_measured(writer, products[binding.var]))
                bindings += measuring
                sums += [each.var for each in measuring[-RESULTS:]]
        kind = relax.DataflowBlock if isinstance(block, relax.DataflowBlock) else relax.BindingBlock
        blocks.append(kind(bindings, block.span))
    body = relax.SeqExpr(blocks, func.body.body, func.body.span)
    whole = relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs, func.span)
    return tapped(whole, sums)


def _measured(writer: RoundingWriter, product: OpStep) -> Iterator[relax.VarBinding]:
    """The bindings to insert after a product; the last ones are the results."""
    variable = product.var
    int8 = writer.int8_call(variable)
    assert int8 is not None, "a product of the plan reads int8"
    made, call = int8
    yield from made
    name = variable.name
    rounded = writer.bound(call, f"{name}_rounded", name)
    error = writer.bound(relax.op.subtract(rounded.var, variable), f"{name}_error", name)
    squares = [
        writer.bound(relax.op.multiply(each, each), f"{name}_squares", name) for each in (error.var, variable)
    ]
    yield from (rounded, error, *squares)
    for each in squares:
        yield writer.bound(relax.op.sum(each.var), f"{name}_sum", name)
    others = [axis for axis in range(product.view.out_tensor.ndim) if axis != result_axis(product.view)]
    yield writer.bound(relax.op.mean(error.var, others), f"{name}_shift", name)
