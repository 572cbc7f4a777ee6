"""Rewrites a function with ``quantize`` and ``dequantize`` in front of readers of int8, and int8 weights.

Every variable keeps its name. New variables are named after the value or product that they belong to:
``lv3_quantized``, ``lv3_dequantized``, ``lv4_weight``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, count

import numpy as np
from tvm import relax

from annotated_region.expr_map import ExprMap
from annotated_region.functions.rewriting import FunctionRewriter, rebind, replace_operands
from annotated_region.origins import origin_of, span_of, with_span
from annotated_region.quantizing.plan import QuantizationPlan
from annotated_region.quantizing.reading import OpStep
from annotated_region.quantizing.roles import channel_axis
from annotated_region.quantizing.steps import Steps, rounded_channels
from annotated_region.tvm_adapter.types import expect

__all__ = ["RoundingWriter", "names_of", "quantized"]


def quantized(
    func: relax.Function, plan: QuantizationPlan, steps: ExprMap[Steps], biases: ExprMap[np.ndarray]
) -> relax.Function:
    """The function with the rounding of a plan.

    Parameters
    ----------
    func
        The function that the plan was made for.
    plan
        The plan; every value that a product reads as int8 has steps.
    steps
        The steps by rounded value. A value without steps stays in float for all its readers.
    biases
        Replacements for the constants of ``add``, by its variable.

    Notes
    -----
    O(bindings + size of the weights).
    """

    def bindings(block: relax.BindingBlock, _rewriter: FunctionRewriter) -> list[relax.Binding]:
        writer = RoundingWriter(block, plan, steps, names)
        read = (each for binding in block.bindings for each in writer.rewritten(binding))
        return [_with_bias(each, biases) for each in read]

    names = names_of(func)
    return FunctionRewriter(bindings, lambda expr: expr).function(func)


class RoundingWriter:
    """Creates the new bindings of one block; each value is rounded once, before its first reader.

    Parameters
    ----------
    block
        The block.
    plan, steps
        As for `quantized`.
    names
        The variable names in use; new names are added.
    """

    def __init__(
        self, block: relax.BindingBlock, plan: QuantizationPlan, steps: ExprMap[Steps], names: dict[str, None]
    ) -> None:
        self._new_variable = relax.DataflowVar if isinstance(block, relax.DataflowBlock) else relax.Var
        self._plan, self._steps, self._names = plan, steps, names
        self._products: ExprMap[OpStep] = ExprMap((step.var, step) for step in plan.products)
        self._rounded: ExprMap[relax.Var] = ExprMap()
        self._builder = relax.BlockBuilder()

    def rewritten(self, binding: relax.Binding) -> Iterator[relax.Binding]:
        """The bindings that round the operands of a binding, followed by the binding itself."""
        call = self.int8_call(binding.var)
        if call is None:
            yield binding
            return
        made, value = call
        yield from made
        yield rebind(binding, value)

    def int8_call(self, variable: relax.Var) -> tuple[list[relax.VarBinding], relax.Call] | None:
        """The call of a step on rounded operands, and the bindings it needs; None if it reads floats."""
        if variable not in self._plan.reads:
            return None
        step = self._plan.source.makers[variable]
        made: list[relax.VarBinding] = []
        for value in self._plan.reads[variable]:
            if value in self._steps and value not in self._rounded:
                made += self._rounding(value)
        call = expect(
            relax.Call, replace_operands(step.view.call, lambda expr: self._operand(variable, expr))
        )
        if variable in self._products and step.view.constant(1) is not None:
            weight = self._weight(step)
            made.append(weight)
            call = relax.Call(
                call.op, [call.args[0], weight.var], call.attrs, call.ty_args, call.span, call.ty
            )
        return made, call

    def _operand(self, variable: relax.Var, expr: relax.Expr) -> relax.Expr:
        is_read = isinstance(expr, relax.Var) and expr in self._plan.reads[variable]
        return self._rounded.get(expr, expr) if is_read else expr

    def _rounding(self, value: relax.Var) -> list[relax.VarBinding]:
        steps = self._steps[value]
        scale, zero = relax.const(steps.scale), relax.const(np.array(steps.zero, steps.dtype))
        maker = self._plan.source.makers.get(value)
        origin = origin_of(value, value if maker is None else maker.view.call)
        to = relax.op.quantize(value, scale, zero, axis=-1, out_dtype=steps.dtype)
        numbers = self.bound(to, f"{value.name}_quantized", origin)
        back = relax.op.dequantize(numbers.var, scale, zero, axis=-1, out_dtype="float32")
        floats = self.bound(back, f"{value.name}_dequantized", origin)
        self._rounded[value] = floats.var
        return [numbers, floats]

    def _weight(self, step: OpStep) -> relax.VarBinding:
        """The dequantized weight of a product."""
        axis, array = channel_axis(step.view), step.view.constant(1)
        assert array is not None, "the weight of such a product is a constant"
        rounded = rounded_channels(array, axis)
        zeros = np.zeros(len(rounded.scales), np.int8)
        numbers, scales, zero = map(relax.const, (rounded.numbers, rounded.scales, zeros))
        floats = relax.op.dequantize(numbers, scales, zero, axis=axis, out_dtype="float32")
        return self.bound(floats, f"{step.var.name}_weight", origin_of(step.var, step.view.call))

    def bound(self, value: relax.Expr, name: str, origin: str) -> relax.VarBinding:
        """A binding of a new variable with a unique name."""
        span = span_of(origin)
        value = self._builder.normalize(with_span(value, span))
        numbered = (f"{name}_{number}" for number in count(2))
        free = next(each for each in chain([name], numbered) if each not in self._names)
        self._names[free] = None
        return relax.VarBinding(self._new_variable(free, value.ty, span), value)


def _with_bias(binding: relax.Binding, biases: ExprMap[np.ndarray]) -> relax.Binding:
    if binding.var not in biases:
        return binding
    call = expect(relax.Call, binding.value)
    args = [call.args[0], relax.const(biases[binding.var])]
    return rebind(binding, relax.Call(call.op, args, call.attrs, call.ty_args, call.span, call.ty))


def names_of(func: relax.Function) -> dict[str, None]:
    """The names of the variables of a function."""
    found = {param.name: None for param in func.params}

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, relax.Var):
            found[expr.name] = None

    relax.analysis.post_order_visit(func.body, visit)
    return found
