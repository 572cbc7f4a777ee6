"""Puts the sizes that lowered functions take as numbers in the order of their first use.

TVM 0.27 passes sizes that are not shapes of arguments alone (``n`` and ``m`` of ``n + m``) as numbers, in the
order of addresses: another one in each process, and in each of two otherwise equal functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import tvm
from tvm import relax, tirx

from annotated_region.functions.modules import updated
from annotated_region.functions.rewriting import FunctionRewriter, rebind
from annotated_region.functions.shape_variables import variables_in
from annotated_region.tvm_adapter.nodes import BufferType

__all__ = ["with_sizes_in_order"]

Orders = Mapping[tvm.ir.GlobalVar, Sequence[int]]
"""For each function, the old positions of its parameters in their new order."""


def with_sizes_in_order(mod: tvm.IRModule) -> tvm.IRModule:
    """The module with the numbers among the parameters of its PrimFuncs, and the arguments, in order.

    Notes
    -----
    Linear in the bindings.
    """
    orders = dict(_orders(mod))
    if not orders:
        return mod
    functions: dict[tvm.ir.GlobalVar, tvm.ir.BaseFunc] = {}
    for name, func in mod.functions_items():
        if isinstance(func, relax.Function):
            functions[name] = _with_arguments_in(orders, func)
        elif isinstance(func, tirx.PrimFunc) and name in orders:
            params = [func.params[position] for position in orders[name]]
            functions[name] = tirx.PrimFunc(params, func.body, func.ret_type, func.attrs, func.span)
    return updated(mod, functions)


def _orders(mod: tvm.IRModule) -> Iterator[tuple[tvm.ir.GlobalVar, list[int]]]:
    for name, func in mod.functions_items():
        if isinstance(func, tirx.PrimFunc):
            order = _order(func)
            if order != sorted(order):
                yield name, order


def _order(func: tirx.PrimFunc) -> list[int]:
    params = list(func.params)
    extents = (extent for param in params if isinstance(param.ty, BufferType) for extent in param.shape)
    ranks = {var: rank for rank, var in enumerate(variables_in(*extents))}
    numbers = [position for position, param in enumerate(params) if not isinstance(param.ty, BufferType)]
    ordered = iter(sorted(numbers, key=lambda position: ranks.get(params[position], len(ranks))))
    return [next(ordered) if position in numbers else position for position in range(len(params))]


def _with_arguments_in(orders: Orders, func: relax.Function) -> relax.Function:
    def rewritten(block: relax.BindingBlock, rewriter: FunctionRewriter) -> Iterator[relax.Binding]:
        for binding in block.bindings[:]:
            yield rebind(binding, _in_order(orders, rewriter.nested(binding.value)))

    return FunctionRewriter(rewritten, lambda expr: expr).function(func)


def _in_order(orders: Orders, value: relax.Expr) -> relax.Expr:
    if not isinstance(value, relax.Call) or len(value.args) < 2:
        return value
    callee, arguments = value.args[:2]
    if not isinstance(callee, tvm.ir.GlobalVar) or not isinstance(arguments, relax.Tuple):
        return value
    if callee not in orders:
        return value
    count = len(arguments.fields)
    fields = [arguments.fields[position] for position in orders[callee] if position < count]
    args = [callee, relax.Tuple(fields), *value.args[2:]]
    return relax.Call(value.op, args, value.attrs, value.ty_args, value.span, value.ty)
