"""Reads an external Relax function into a `Graph`: composites are inlined, every op is converted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce

import tvm
from tvm import relax, tirx

from annotated_region.backends.dnnl.graph import DataType, Dim, Graph, TensorId
from annotated_region.errors import CodegenError
from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.nodes import Constant

__all__ = ["Convert", "Importer", "extents_of", "import_function"]

Convert = Callable[["Importer", OpView], "TensorId | tuple[TensorId | None, ...]"]
"""Adds the nodes of one op; returns its result, or the results of an op that has several (None: not made)."""

Imported = TensorId | tuple["TensorId | None", ...] | tuple[Dim, ...]


def extents_of(type_: tvm.ir.Type) -> tuple[Dim, ...] | None:
    """The extents of a tensor type, numbers as int; None if they are not known."""
    shape = getattr(type_, "shape", None)
    if not isinstance(shape, relax.ShapeExpr):
        return None
    return shape_of(shape.values)


def shape_of(values: Iterable[relax.Expr]) -> tuple[Dim, ...]:
    """Extents, numbers as int."""
    return tuple(int(value) if isinstance(value, tirx.IntImm) else value for value in values)


class Importer:
    """Translates the bindings of one function, inner functions included, to nodes of one graph.

    Attributes
    ----------
    graph
        What has been translated so far.
    """

    def __init__(
        self, symbol: str, converters: Mapping[str, Convert], constant_names: Mapping[object, str]
    ) -> None:
        """Start an empty graph called `symbol`."""
        self.graph = Graph(symbol)
        self._converters = converters
        self._constant_names = constant_names
        self._constants: dict[str, TensorId] = {}
        self._scope: dict[relax.Var, object] = {}

    def run(self, function: relax.Function) -> Graph:
        """Translate `function`; its parameters are the inputs, its result the outputs."""
        scope: dict[relax.Var, object] = {}
        for position, parameter in enumerate(function.params):
            scope[parameter] = self._parameter(position, parameter)
        result = self._body(function, scope)
        results = result if isinstance(result, tuple) else (result,)
        types = getattr(function.ret_ty, "fields", (function.ret_ty,))
        self.graph.outputs = [
            self.graph.cast(self._made(item), self.dtype(type_))
            for item, type_ in zip(results, types, strict=True)
        ]
        return self.graph

    def _parameter(self, position: int, parameter: relax.Var) -> Imported:
        """A tensor, or behind all tensors the extents of a shape."""
        if isinstance(parameter.ty, relax.ShapeType):
            extents = shape_of(parameter.ty.values)
            self.graph.shapes.append(extents)
            return extents
        if self.graph.shapes:
            raise CodegenError(f"{self.graph.symbol}: target 'dnnl' takes shapes behind all tensors only")
        tensor = self.graph.tensor(self.shape(parameter), position, dtype=self.dtype(parameter.ty))
        self.graph.inputs.append(tensor)
        return self._entered(tensor)

    def _entered(self, tensor: TensorId) -> TensorId:
        """What the region computes with: truth values become numbers."""
        is_truth = self.graph.dtype(tensor) is DataType.TRUTH
        return self.graph.cast(tensor, DataType.FLOAT32) if is_truth else tensor

    def dtype(self, type_: tvm.ir.Type) -> DataType:
        """What the elements of a tensor type are."""
        name = str(getattr(type_, "dtype", None))
        try:
            return DataType(name)
        except ValueError:
            message = f"{self.graph.symbol}: target 'dnnl' cannot work with tensors of type {name}"
            raise CodegenError(message) from None

    def shape(self, expr: relax.Expr) -> tuple[Dim, ...]:
        """The extents of an expression; a scalar counts as a tensor of one element."""
        return extents_of(expr.ty) or (1,)

    def operand(self, expr: relax.Expr) -> TensorId:
        """The tensor that an argument stands for."""
        return self._made(self._value(expr))

    def operands(self, expr: relax.Expr) -> tuple[TensorId, ...]:
        """The tensors that a tuple argument stands for."""
        value = self._value(expr)
        return tuple(self._made(item) for item in (value if isinstance(value, tuple) else (value,)))

    def _body(self, function: relax.Function, scope: dict[relax.Var, object]) -> Imported:
        outer, self._scope = self._scope, scope
        for block in function.body.blocks:
            for binding in block.bindings:
                scope[binding.var] = self._bound(binding.value)
        result = self._value(function.body.body)
        self._scope = outer
        return result

    def _bound(self, value: relax.Expr) -> object:
        if isinstance(value, relax.Function):
            return value
        if isinstance(value, relax.Call):
            return self._call(value)
        return self._value(value)

    def _call(self, call: relax.Call) -> Imported:
        view = OpView.of(call)
        if view is not None:
            return self._convert(view)
        callee = self._scope.get(call.op, call.op) if isinstance(call.op, relax.Var) else call.op
        if not isinstance(callee, relax.Function):
            raise CodegenError(f"{self.graph.symbol}: target 'dnnl' cannot translate the call {call}")
        arguments = [self._value(argument) for argument in call.args]
        callee = self._with_outer_extents(callee, arguments)
        return self._body(callee, dict(zip(callee.params, arguments, strict=True)))

    def _with_outer_extents(self, callee: relax.Function, arguments: list[Imported]) -> relax.Function:
        """An inner function in terms of the caller's symbolic extents; each function has its own."""
        extents = {
            inner: outer
            for parameter, argument in zip(callee.params, arguments, strict=True)
            for inner, outer in self._extents(parameter, argument)
            if isinstance(inner, relax.Var)
        }
        return callee.bind_symbolic_vars(extents) if extents else callee

    def _extents(self, parameter: relax.Var, argument: Imported) -> Iterable[tuple[Dim, Dim]]:
        """The extents of a parameter, and what is handed over for them."""
        if isinstance(argument, int):
            return zip(self.shape(parameter), self.graph.shape(argument), strict=True)
        if isinstance(parameter.ty, relax.ShapeType):
            return zip(shape_of(parameter.ty.values), argument, strict=True)
        return ()

    def _convert(self, view: OpView) -> Imported:
        convert = self._converters.get(view.name)
        if convert is None:
            raise CodegenError(
                f"{self.graph.symbol}: target 'dnnl' has no translation of {view.name}; "
                "its rules decline this op, so leave it to another target or to the host"
            )
        return convert(self, view)

    def _value(self, expr: relax.Expr) -> Imported:
        if isinstance(expr, relax.Var):
            return self._scope[expr]  # type: ignore[return-value]
        if isinstance(expr, Constant):
            return self._constant(expr)
        if isinstance(expr, relax.ShapeExpr):
            return shape_of(expr.values)
        if isinstance(expr, relax.Tuple):
            return tuple(self.operand(field) for field in expr.fields)
        if isinstance(expr, relax.TupleGetItem):
            value = self._value(expr.tuple_value)
            return self._made(value[expr.index] if isinstance(value, tuple) else value)
        raise CodegenError(f"{self.graph.symbol}: target 'dnnl' cannot translate the expression {expr}")

    def _constant(self, constant: Constant) -> TensorId:
        name = self._constant_names[constant]
        if name not in self._constants:
            extents = self.shape(constant)
            count = reduce(lambda product, extent: product * extent, extents, 1)
            scalar = float(constant.value.numpy().reshape(-1)[0]) if count == 1 else None
            dtype = self.dtype(constant.ty)
            tensor = self.graph.tensor(extents, name, None if dtype is DataType.TRUTH else scalar, dtype)
            self._constants[name] = self._entered(tensor)
        return self._constants[name]

    def _made(self, value: object) -> TensorId:
        if not isinstance(value, int):
            raise CodegenError(
                f"{self.graph.symbol}: target 'dnnl' does not compute a value that the region uses"
            )
        return value


def import_function(
    function: relax.Function,
    converters: Mapping[str, Convert],
    constant_names: Mapping[object, str],
    *,
    finite_math: bool = False,
) -> Graph:
    """Translate an external function.

    Parameters
    ----------
    function
        A function with the attribute ``global_symbol``.
    converters
        The translation of each op, by name.
    constant_names
        TVM's names of the constants of the module.
    finite_math
        As in `Graph`.

    Raises
    ------
    CodegenError
        The function's name is no C identifier, or an op or expression has no translation.
    """
    symbol = str(function.attrs["global_symbol"])
    if not (symbol.isidentifier() and symbol.isascii()):
        raise CodegenError(
            f"target 'dnnl': the function name {symbol!r} is no C identifier; rename the function"
        )
    importer = Importer(symbol, converters, constant_names)
    importer.graph.finite_math = finite_math
    return importer.run(function)
