"""Runs functions op by op, each op compiled by TVM once, so that parts of a function need no build."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

from annotated_region.expr_map import ExprMap
from annotated_region.host_targets import UNOPTIMIZED
from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import Translation, flat
from annotated_region.tvm_adapter.nodes import Constant

__all__ = ["Array", "Change", "call_names", "computed", "computed_op", "unchanged"]

Array = np.ndarray
Change = Callable[[str, OpView, Sequence[Any], Any], Any]
"""Sees the name of a binding, its op, arguments and value, and gives what the value shall be instead."""

_KERNELS: dict[object, Callable[..., Any]] = {}


def unchanged(_name: str, _op: OpView, _given: Sequence[Any], value: Any) -> Any:
    """The value as it is."""
    return value


def call_names(func: relax.Function) -> ExprMap[str]:
    """The name of each call's binding, those inside composites included."""
    names: ExprMap[str] = ExprMap()

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, relax.SeqExpr):
            for block in expr.blocks:
                for binding in block.bindings:
                    names[binding.value] = binding.var.name

    relax.analysis.post_order_visit(func, visit)
    return names


def computed(
    func: relax.Function, arguments: Sequence[Any], change: Change = unchanged
) -> tuple[list[Array], dict[str, Any]]:
    """The results of a function, and by the names of their bindings the values of its ops.

    Parameters
    ----------
    func
        Straight code over ops of Relax.
    arguments
        Arrays, and tuples of numbers for shapes.
    change
        Is asked for the value of each op.
    """
    walk = _Walk(func, arguments, change)
    results = flat(walk.body(func, arguments))
    return [np.asarray(result) for result in results], walk.values


class _Walk(Translation[Array]):
    """Computes the values of a function in the order of its bindings."""

    def __init__(self, func: relax.Function, arguments: Sequence[Any], change: Change) -> None:
        super().__init__()
        self.names = call_names(func)
        self.change = change
        self.values: dict[str, Any] = {}
        self.extents: dict[relax.Var, int] = {}
        for param, argument in zip(func.params, arguments, strict=True):
            said = param.ty.values if isinstance(param.ty, relax.ShapeType) else param.ty.shape.values
            counts = argument.shape if isinstance(argument, np.ndarray) else argument
            self.extents |= {
                var: int(count) for var, count in zip(said, counts, strict=True) if isinstance(var, relax.Var)
            }

    def converted(self, op: OpView) -> Any:
        arguments = [self._operand(each) for each in op.args]
        name = self.names[op.call]
        value = self.change(name, op, arguments, computed_op(op, arguments))
        self.values[name] = value
        return value

    def _operand(self, expr: relax.Expr) -> Any:
        if isinstance(expr, relax.ShapeExpr):
            return self.passed_shape(expr.values)
        if isinstance(expr, relax.Tuple):
            return [self._operand(field) for field in expr.fields]
        if isinstance(expr.ty, relax.TensorType | tvm.ir.TupleType):
            return self.value(expr)
        return self.value(expr) if isinstance(expr, relax.Var) else expr

    def variable(self, var: relax.Var) -> Any:
        value = super().variable(var)
        self.values.setdefault(var.name, value)  # fields of tuples, which are no ops
        return value

    def constant(self, constant: Constant) -> Array:
        array: Array = constant.value.numpy()
        return array

    def passed_shape(self, extents: Iterable[relax.Expr]) -> tuple[int, ...]:
        return tuple(self.extents[each] if isinstance(each, relax.Var) else int(each) for each in extents)

    def made(self, value: object) -> Array:
        assert isinstance(value, np.ndarray)
        return value


def computed_op(op: OpView, arguments: Sequence[Any]) -> Any:
    """The value of an op for arguments as `Change` sees them."""
    key = (op.name, repr(op.attrs), tuple(map(_kind, arguments)))
    kernel = _KERNELS.get(key)
    if kernel is None:
        kernel = _KERNELS[key] = _compiled(op, arguments)
    answer = kernel(*(tvm.runtime.tensor(array) for array in _tensors(arguments)))
    return (
        answer.numpy() if isinstance(answer, tvm.runtime.Tensor) else tuple(each.numpy() for each in answer)
    )


def _kind(argument: Any) -> object:
    """What the kernel of an op depends on: types and shapes of tensors, other arguments themselves."""
    if isinstance(argument, np.ndarray):
        return (str(argument.dtype), argument.shape)
    if isinstance(argument, list | tuple):
        return (type(argument), *map(_kind, argument))
    return str(argument)


def _tensors(arguments: Iterable[Any]) -> list[Array]:
    found: list[Array] = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            found.append(argument)
        elif isinstance(argument, list | tuple):
            found += _tensors(argument)
    return found


def _compiled(op: OpView, arguments: Sequence[Any]) -> Callable[..., Any]:
    params: list[relax.Var] = []

    def parameter(argument: Any) -> relax.Expr:
        if isinstance(argument, np.ndarray):
            params.append(relax.Var(f"p{len(params)}", relax.TensorType(argument.shape, str(argument.dtype))))
            return params[-1]
        if isinstance(argument, tuple) and all(isinstance(each, int) for each in argument):
            return relax.ShapeExpr(argument)
        if isinstance(argument, list | tuple):
            return relax.Tuple([parameter(each) for each in argument])
        return argument

    operands = [parameter(argument) for argument in arguments]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit_output(relax.Call(op.call.op, operands, op.call.attrs, op.call.ty_args))
        builder.emit_func_output(out)
    compiled = tvm.compile(builder.get(), UNOPTIMIZED)
    kernel: Callable[..., Any] = relax.VirtualMachine(compiled, tvm.cpu())["main"]
    return kernel
