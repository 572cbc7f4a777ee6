"""Translates an external Relax function to a `Graph`, each op by its converter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import cast

import tvm
from tvm import relax, tirx

from annotated_region.backends.dnnl.extents import plain_extent
from annotated_region.backends.dnnl.graph import HALVES, DataType, Dim, Graph, TensorId, volume
from annotated_region.errors import CodegenError
from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import Declined, Translation, flat, require
from annotated_region.tvm_adapter.nodes import Constant

__all__ = ["Convert", "ConvertComposite", "Importer", "extents_of", "import_function", "shape_of"]

Convert = Callable[["Importer", OpView], "TensorId | tuple[TensorId | None, ...]"]
"""Adds the nodes of one op; returns its result, or a tuple of results (None: not computed)."""

ConvertComposite = Callable[["Importer", relax.Function, Sequence[relax.Expr]], TensorId]
"""Adds the nodes of a composite called with the given arguments; returns its result."""

Imported = TensorId | tuple["TensorId | None", ...] | tuple[Dim, ...]

DTYPES = {dtype.value for dtype in DataType}


def extents_of(type_: tvm.ir.Type) -> tuple[Dim, ...] | None:
    """The extents of a tensor type, static ones as int; None if unknown."""
    shape = getattr(type_, "shape", None)
    if not isinstance(shape, relax.ShapeExpr):
        return None
    return shape_of(shape.values[:])  # the iterator of TVM's arrays takes twice as long as a slice


def shape_of(values: Iterable[relax.Expr]) -> tuple[Dim, ...]:
    """The extents, static ones as int."""
    return tuple(int(value) if isinstance(value, tirx.IntImm) else plain_extent(value) for value in values)


def _declared(type_: tvm.ir.Type) -> DataType:
    """The element type of a tensor, or of the first of several; FLOAT32 for types that `DataType` lacks."""
    first = next(iter(getattr(type_, "fields", (type_,))), None)
    name = str(getattr(first, "dtype", None))
    return DataType(name) if name in DTYPES else DataType.FLOAT32


def _extents_in(type_: relax.ShapeType) -> Iterable[relax.Expr]:
    require(type_.values is not None, "a shape of unknown length is passed")
    return type_.values or ()


class Importer(Translation[TensorId]):
    """Translates the bindings of one function, composites included, to nodes of one graph.

    Attributes
    ----------
    graph
        The graph built so far.
    """

    def __init__(
        self,
        symbol: str,
        converters: Mapping[str, Convert],
        constant_names: Mapping[Constant, str],
        composites: Mapping[str, ConvertComposite],
    ) -> None:
        """Create an empty graph named `symbol`."""
        super().__init__()
        self.graph = Graph(symbol)
        self._converters = converters
        self._composites = composites
        self._constant_names = constant_names
        self._constants: dict[str, TensorId] = {}

    def run(self, function: relax.Function) -> Graph:
        """Translate `function`; its parameters become the inputs, its result the outputs."""
        results = flat(self.body(function, [self._parameter(parameter) for parameter in function.params]))
        types = getattr(function.ret_ty, "fields", (function.ret_ty,))
        self.graph.outputs = [
            self.graph.cast(self.made(item), self.dtype(type_))
            for item, type_ in zip(results, types, strict=True)
        ]
        return self.graph

    def _parameter(self, parameter: relax.Var) -> Imported:
        """A tensor, or the extents of a shape; shapes must follow all tensors."""
        graph = self.graph
        if isinstance(parameter.ty, relax.ShapeType):
            graph.shapes.append(shape_of(_extents_in(parameter.ty)))
            return graph.shapes[-1]
        require(not graph.shapes, "a shape parameter precedes a tensor parameter")
        graph.inputs.append(
            graph.tensor(self.shape(parameter), len(graph.inputs), dtype=self.dtype(parameter.ty))
        )
        return self._entered(graph.inputs[-1])

    def _entered(self, tensor: TensorId) -> TensorId:
        """An input in the type that the region computes with: booleans and halves as float32."""
        is_other = self.graph.dtype(tensor) in (DataType.TRUTH, *HALVES)
        return self.graph.cast(tensor, DataType.FLOAT32) if is_other else tensor

    def dtype(self, type_: tvm.ir.Type) -> DataType:
        """The element type of a tensor type."""
        name = str(getattr(type_, "dtype", None))
        require(name in DTYPES, f"it has tensors of type {name}")
        return DataType(name)

    def shape(self, expr: relax.Expr) -> tuple[Dim, ...]:
        """The extents of an expression; a rank-0 tensor becomes rank 1 with one element."""
        return extents_of(expr.ty) or (1,)

    def converted(self, op: OpView) -> Imported:
        """The results of an op."""
        convert = self._converters.get(op.name)
        if convert is None:
            raise Declined(f"no converter for {op.name}")
        self.graph.declared = _declared(op.out_type)
        results = convert(self, op)
        self.graph.declared = None
        return results

    def converted_whole(self, composite: relax.Function, arguments: Sequence[relax.Expr]) -> object | None:
        """The result of a composite with its own conversion, whose ops are then not visited; else None."""
        convert = self._composites.get(str(composite.attrs.get("Composite", "")))
        return None if convert is None else convert(self, composite, arguments)

    def name_of(self, constant: Constant) -> str:
        """TVM's name of a constant."""
        return self._constant_names[constant]

    def entered(self, composite: relax.Function, arguments: Sequence[object]) -> relax.Function:
        """A composite with its symbolic extents replaced by those of the caller."""
        extents = {
            inner: outer
            for parameter, argument in zip(composite.params, arguments, strict=True)
            for inner, outer in self._extents(parameter, argument)
            if isinstance(inner, relax.Var)
        }
        return composite.bind_symbolic_vars(extents) if extents else composite

    def _extents(self, parameter: relax.Var, argument: object) -> Iterable[tuple[Dim, Dim]]:
        """Pairs of an extent of a parameter and the extent of the argument passed for it."""
        if isinstance(argument, int):
            return zip(self.shape(parameter), self.graph.shape(argument), strict=True)
        if isinstance(parameter.ty, relax.ShapeType) and isinstance(argument, tuple):
            handed = [extent for extent in argument if isinstance(extent, int | relax.Expr)]
            return zip(shape_of(_extents_in(parameter.ty)), handed, strict=True)
        return ()

    def passed_shape(self, extents: Iterable[relax.Expr]) -> tuple[Dim, ...]:
        """The extents."""
        return shape_of(extents)

    def constant(self, constant: Constant) -> TensorId:
        """The tensor of a constant, created once per name."""
        name = self._constant_names[constant]
        if name not in self._constants:
            extents = self.shape(constant)
            scalar = float(constant.value.numpy().reshape(-1)[0]) if volume(extents) == 1 else None
            dtype = self.dtype(constant.ty)
            half = dtype if dtype in HALVES else None
            tensor = self.graph.tensor(
                extents,
                name,
                None if dtype is DataType.TRUTH else scalar,
                DataType.FLOAT32 if half else dtype,
                half,
            )
            self._constants[name] = self._entered(tensor)
        return self._constants[name]

    def made(self, value: object) -> TensorId:
        """A value that is one tensor."""
        require(isinstance(value, int), "a value is used but not computed")
        return cast(TensorId, value)


def import_function(
    function: relax.Function,
    converters: Mapping[str, Convert],
    constant_names: Mapping[Constant, str],
    *,
    composites: Mapping[str, ConvertComposite] = MappingProxyType({}),
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
    composites
        The translation of composites that are converted as a whole, by name.
    finite_math
        As in `Graph`.

    Raises
    ------
    CodegenError
        The function's name is not a C identifier, or an op or expression has no translation.
    """
    symbol = str(function.attrs["global_symbol"])
    if not (symbol.isidentifier() and symbol.isascii()):
        raise CodegenError(
            f"target 'dnnl': the function name {symbol!r} is not a C identifier; rename the function"
        )
    importer = Importer(symbol, converters, constant_names, composites)
    importer.graph.finite_math = finite_math
    try:
        return importer.run(function)
    except Declined as reason:
        raise CodegenError(
            f"{symbol}: target 'dnnl' cannot translate it: {reason}; "
            "its rules decline such ops, so leave them to another target or to the host"
        ) from reason
