"""Emits an external Relax function as ONNX, including its composites: each op by its converter."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import tvm
from tvm import relax, tirx

from annotated_region.backends.onnx_emitter.converter_table import CONVERTERS
from annotated_region.backends.onnx_emitter.dialect import Dialect
from annotated_region.backends.onnx_emitter.graph import Graph, Port
from annotated_region.backends.onnx_emitter.known_extents import KnownExtents
from annotated_region.functions.extent_bounds import bounds_of
from annotated_region.functions.extent_choices import parts_of_choice
from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import Declined, Translation, flat, require
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import expect

__all__ = ["Dim", "Emission", "Result", "emit_alone", "extents_of", "literal", "trial", "trial_of_match"]

Dim = int | relax.Expr
"""An extent: an int, or an expression over symbols."""

Result = str | tuple[str | None, ...]

# A constant of at most this many bytes is stored in the graph itself: shapes, scalars, small biases.
INLINE_BYTES = 256
Arithmetic = tirx.Add | tirx.Sub | tirx.Mul | tirx.FloorDiv | tirx.FloorMod | tirx.Max | tirx.Min
Comparison = tirx.LT | tirx.LE | tirx.GT | tirx.GE | tirx.EQ
_COMPARISONS: dict[type[Comparison], str] = {
    tirx.LT: "Less", tirx.LE: "LessOrEqual", tirx.GT: "Greater", tirx.GE: "GreaterOrEqual",
    tirx.EQ: "Equal",
}  # fmt: skip
_ARITHMETIC: dict[type[Arithmetic], str] = {
    tirx.Add: "Add", tirx.Sub: "Sub", tirx.Mul: "Mul", tirx.FloorDiv: "Div", tirx.FloorMod: "Mod",
    tirx.Max: "Max", tirx.Min: "Min",
}  # fmt: skip


def extents_of(type_: tvm.ir.Type) -> tuple[Dim, ...]:
    """The extents of a tensor type, static ones as int; declines an unknown shape."""
    if not isinstance(type_, relax.TensorType):
        raise Declined(f"a value of type {type_} is not a tensor")
    if not isinstance(type_.shape, relax.ShapeExpr):
        raise Declined("a tensor has no known shape")
    return tuple(int(value) if isinstance(value, tirx.IntImm) else value for value in type_.shape.values)


def literal(expr: relax.Expr) -> float:
    """The number that an argument holds; declines anything else."""
    value = getattr(expr, "value", None)
    if not isinstance(value, int | float):
        raise Declined(f"{expr} is not a number")
    return value


class Emission(Translation[str]):
    """Emits one function, or one op for a trial conversion.

    Attributes
    ----------
    graph
        The operators emitted so far.

    Parameters
    ----------
    graph
        An empty graph.
    constant_names
        Names of the constants, if they have any.
    is_trial
        Whether unbound variables are inputs, as in the trial conversion of a single op.
    """

    def __init__(self, graph: Graph, constant_names: Mapping[Constant, str], is_trial: bool = False) -> None:
        super().__init__()
        self.graph = graph
        self._constant_names = constant_names
        self._is_trial = is_trial
        self._constants: dict[relax.Expr, str] = {}
        # The value that determines a symbolic extent: its name, an index, and whether that indexes its shape.
        self._symbols: dict[relax.Expr, tuple[str, int, bool]] = {}
        self._symbol_names: dict[relax.Expr, str] = {}
        self._shapes: dict[str, str] = {}
        self._known = KnownExtents()
        # For each value that became an output, the name of the first output.
        self._output_names: dict[str, str] = {}

    # -- helpers for converters -------------------------------------------------------------------

    @property
    def opset(self) -> int:
        """The version of the ONNX operator set."""
        return self.graph.dialect.opset

    def node(self, kind: str, *inputs: str, **attrs: object) -> str:
        """Emit an operator with one result. Attributes that are arrays become tensors."""
        return self.graph.add(kind, inputs, 1, attrs)[0]

    def nodes(self, kind: str, inputs: Sequence[str], count: int, **attrs: object) -> tuple[str, ...]:
        """Emit an operator with several results."""
        return self.graph.add(kind, inputs, count, attrs)

    def dtype(self, name: str) -> str:
        """The data type of a value."""
        return self.graph.dtypes[name]

    def cast(self, name: str, dtype: str) -> str:
        """The value, converted to another data type."""
        return name if self.dtype(name) == dtype else self.node("Cast", name, to=dtype)

    def ints(self, values: Sequence[int]) -> str:
        """A constant vector of int64."""
        return self.graph.constant(np.asarray(values, np.int64).reshape(len(values)))

    def number(self, value: float, dtype: str) -> str:
        """A scalar constant."""
        return self.graph.constant(np.asarray(value, np.float32 if dtype == "bfloat16" else dtype))

    def like(self, value: float, name: str) -> str:
        """A scalar constant of the data type of a value."""
        return self.cast(self.number(value, self.dtype(name)), self.dtype(name))

    def shape(self, extents: Sequence[Dim]) -> str:
        """A vector of extents: a constant if all are static, else computed at run time."""
        if all(isinstance(extent, int) for extent in extents):
            return self.ints([extent for extent in extents if isinstance(extent, int)])
        parts = [self.extent(extent) for extent in extents]
        return parts[0] if len(parts) == 1 else self.node("Concat", *parts, axis=0)

    def reshape_to(self, data: str, extents: Sequence[Dim]) -> str:
        """The data in another shape; a symbolic extent may be 0, by default ONNX's sign for a copied one."""
        is_known = all(isinstance(extent, int) for extent in extents)
        return self.node("Reshape", data, self.shape(extents), **({} if is_known else {"allowzero": 1}))

    def extent(self, value: Dim) -> str:
        """A vector of one extent."""
        if isinstance(value, int | tirx.IntImm):
            return self.ints([int(value)])
        if isinstance(value, relax.Var):
            return self._symbol(value)
        if isinstance(value, tirx.Cast):
            return self.cast(self.extent(value.value), str(expect(tvm.ir.PrimType, value.ty).dtype))
        if isinstance(value, tirx.FloatImm):
            return self.graph.constant(
                np.asarray([value.value], str(expect(tvm.ir.PrimType, value.ty).dtype))
            )
        return self._computed(value)

    def _computed(self, value: relax.Expr) -> str:
        """A vector of one number that arithmetic, a comparison or a choice gives."""
        choice = parts_of_choice(value)
        if choice is not None:
            return self.node("Where", *map(self.extent, choice))
        if isinstance(value, Comparison):
            return self.node(_COMPARISONS[type(value)], self.extent(value.a), self.extent(value.b))
        if not isinstance(value, Arithmetic):
            raise Declined(f"the extent {value} is not plain arithmetic")
        place = self._known.place_of(value)
        if place is not None:
            return self._extent_of(*place)
        left, right = self.extent(value.a), self.extent(value.b)
        if isinstance(value, tirx.FloorDiv) and bounds_of(value.a, least=1)[0] < 0:
            # `Div` rounds towards zero: of -n // 4, the rest is subtracted first.
            left = self.node("Sub", left, self.node("Mod", left, right))
        return self.node(_ARITHMETIC[type(value)], left, right)

    # -- the walk over the function ---------------------------------------------------------------

    def run(self, function: relax.Function) -> Graph:
        """Emit a function: its parameters are the inputs, its result the outputs."""
        values = flat(self.body(function, map(self._input, function.params)))
        types = function.ret_ty.fields if isinstance(function.ret_ty, tvm.ir.TupleType) else [function.ret_ty]
        for position, (value, type_) in enumerate(zip(values, types, strict=True)):
            self.output(position, self.made(value), type_)
        return self.graph

    def converted(self, op: OpView) -> Result:
        """Emit one op.

        Raises
        ------
        Declined
            The op has no converter, or the converter does not support it in this dialect.
        """
        convert = CONVERTERS.get(op.name)
        if convert is None:
            raise Declined(f"no converter for {op.name}")
        if not isinstance(op.out_type, relax.ShapeType):
            self._require_types(op.out_type)
        result = convert(self, op)
        types = op.out_type.fields if isinstance(op.out_type, tvm.ir.TupleType) else (op.out_type,)
        for value, type_ in zip(flat(result), types, strict=False):
            if isinstance(value, str) and isinstance(type_, relax.TensorType):
                self._known.note(value, extents_of(type_))
        return result

    def _require_types(self, type_: tvm.ir.Type) -> None:
        if isinstance(type_, tvm.ir.TupleType):
            for part in type_.fields:
                self._require_types(part)
            return
        dialect, extents = self.graph.dialect, extents_of(type_)
        dialect.require_dtype(_dtype_of(type_))
        require(len(extents) <= dialect.max_rank, f"a tensor has more than {dialect.max_rank} axes")
        require(dialect.allows_empty or 0 not in extents, "a tensor is empty")
        numbers = [extent for extent in extents if isinstance(extent, int)]
        if dialect.max_elements is not None and len(numbers) == len(extents):
            most = dialect.max_elements
            require(math.prod(numbers) <= most, f"a tensor has more than {most} elements")

    def _input(self, parameter: relax.Var) -> str:
        type_ = parameter.ty
        name = self.graph.fresh(str(parameter.name))
        if isinstance(type_, relax.ShapeType):
            if type_.values is None:
                raise Declined("a shape parameter has an unknown length")
            self.graph.inputs.append(Port(self.graph.declare(name, "int64"), "int64", (len(type_.values),)))
            self.graph.fitting.add(name)
            self._bind_symbols(name, type_.values, is_shape=False)
            return name
        self._require_types(type_)
        self.graph.declare(name, _dtype_of(type_))
        extents = extents_of(type_)
        self.graph.inputs.append(Port(name, _dtype_of(type_), self._dims(extents)))
        self._bind_symbols(name, extents, is_shape=True)
        return name

    def output(self, position: int, value: str, type_: tvm.ir.Type) -> None:
        """Make a value an output: it gets a unique name, and is the result of an operator."""
        name = self.graph.fresh(f"result_{position}")
        made = {result for each in self.graph.operators for result in each.outputs}
        if value in self._output_names or value not in made:
            value = self.node("Identity", self._output_names.get(value, value))
        else:
            self._output_names[value] = name
        self.graph.rename(value, name)
        self.graph.outputs.append(Port(name, _dtype_of(type_), self._dims(extents_of(type_))))

    def _dims(self, extents: Sequence[Dim]) -> tuple[int | str | None, ...]:
        return tuple(extent if isinstance(extent, int) else self._symbol_name(extent) for extent in extents)

    def _symbol_name(self, extent: relax.Expr) -> str | None:
        if not isinstance(extent, relax.Var):
            return None
        if extent not in self._symbol_names:
            taken = set(self._symbol_names.values())
            name, count = str(extent.name), 1
            while name in taken:
                name, count = f"{extent.name}_{count}", count + 1
            self._symbol_names[extent] = name
        return self._symbol_names[extent]

    def _bind_symbols(self, name: str, extents: Sequence[Dim], is_shape: bool) -> None:
        if is_shape:
            self._known.note(name, extents)
        for position, extent in enumerate(extents):
            if isinstance(extent, relax.Var):
                self._symbols[extent] = (name, position, is_shape)

    def _symbol(self, symbol: relax.Var) -> str:
        if symbol not in self._symbols:
            require(self._is_trial, f"no input determines the extent {symbol}")
            name = self.graph.declare(self.graph.fresh(str(symbol.name)), "int64")
            self.graph.fitting.add(name)
            self.graph.inputs.append(Port(name, "int64", (1,)))
            self._symbols[symbol] = (name, 0, False)
        name, position, is_shape = self._symbols[symbol]
        if is_shape:
            return self._extent_of(name, position)
        return self.node("Gather", name, self.ints([position]), axis=0)

    def _extent_of(self, name: str, axis: int) -> str:
        """A vector of one extent of a tensor."""
        if name not in self._shapes:
            self._shapes[name] = self.node("Shape", name)
        return self.node("Gather", self._shapes[name], self.ints([axis]), axis=0)

    def passed_shape(self, extents: Iterable[Dim]) -> str:
        """A vector of extents."""
        return self.shape(tuple(extents))

    def entered(self, composite: relax.Function, arguments: Sequence[object]) -> relax.Function:
        """The composite, with its symbolic extents bound to the shapes of its arguments."""
        for parameter, argument in zip(composite.params, arguments, strict=True):
            self._bind_inner(parameter.ty, argument)
        return composite

    def _bind_inner(self, type_: tvm.ir.Type, argument: object) -> None:
        if isinstance(type_, relax.ShapeType):
            self._bind_symbols(self.made(argument), type_.values or (), is_shape=False)
        elif isinstance(type_, relax.TensorType) and isinstance(type_.shape, relax.ShapeExpr):
            self._bind_symbols(self.made(argument), extents_of(type_), is_shape=True)

    def variable(self, var: relax.Var) -> object:
        """The value of a variable; in a trial conversion, a new input for an unbound one."""
        if var not in self.scope and self._is_trial:
            self.scope[var] = self._free(var.ty, str(var.name))
        return self.scope[var]

    def _free(self, type_: tvm.ir.Type, name: str) -> object:
        """The input that stands for an unbound variable in a trial conversion."""
        if isinstance(type_, tvm.ir.TupleType):
            return tuple(self._free(part, name) for part in type_.fields)
        self._require_types(type_)
        value = self.graph.declare(self.graph.fresh(name), _dtype_of(type_))
        extents = extents_of(type_)
        self.graph.inputs.append(Port(value, _dtype_of(type_), self._dims(extents)))
        self._bind_symbols(value, extents, is_shape=True)
        return value

    def constant(self, constant: Constant) -> str:
        """The value of a constant, which is stored once."""
        if constant not in self._constants:
            require(isinstance(constant.value, tvm.runtime.Tensor), f"constant {constant} is not a tensor")
            self._require_types(constant.ty)
            self._constants[constant] = self._stored(constant)
        return self._constants[constant]

    def _stored(self, constant: Constant) -> str:
        tensor = constant.value
        dtype = _dtype_of(constant.ty)
        size = int(np.prod([int(extent) for extent in tensor.shape])) * tvm.DataType(dtype).bits // 8
        if size <= INLINE_BYTES:
            return self.graph.constant(tensor.numpy())
        name = self._constant_names.get(constant) or self.graph.fresh("weight")
        self.graph.declare(name, dtype)
        self.graph.weights[name] = tensor
        return name

    def made(self, value: object) -> str:
        """A value that must be a tensor."""
        require(isinstance(value, str), "a value is used that is not a tensor, or not computed")
        return str(value)


def trial(view: OpView, dialect: Dialect) -> str | None:
    """Why an op cannot be emitted in a dialect; None if it can. Discards the result."""
    try:
        Emission(Graph("trial", dialect), {}, is_trial=True).converted(view)
    except Declined as reason:
        return str(reason)
    return None


def trial_of_match(view: OpView, inner: Mapping[relax.Var, relax.Expr], dialect: Dialect) -> str | None:
    """Why an op cannot be emitted behind the ops that make its operands; None if it can."""
    emission = Emission(Graph("trial", dialect), {}, is_trial=True)
    try:
        for var, value in inner.items():
            op = OpView.of(value)
            if op is not None:
                emission.scope[var] = emission.converted(op)
        emission.converted(view)
    except Declined as reason:
        return str(reason)
    return None


def emit_alone(view: OpView, dialect: Dialect) -> Graph:
    """A graph of a single op, whose operands become inputs unless they are constants.

    Raises
    ------
    Declined
        The op cannot be emitted in this dialect.
    """
    emission = Emission(Graph("alone", dialect), {}, is_trial=True)
    made = emission.converted(view)
    types = view.out_type.fields if isinstance(view.out_type, tvm.ir.TupleType) else (view.out_type,)
    for position, (value, type_) in enumerate(zip(flat(made), types, strict=True)):
        if isinstance(value, str) and isinstance(type_, relax.TensorType):
            emission.output(position, value, type_)
    return emission.graph


def _dtype_of(type_: tvm.ir.Type) -> str:
    dtype = type_.dtype if isinstance(type_, relax.TensorType) else None
    return "" if dtype is None else str(dtype)
