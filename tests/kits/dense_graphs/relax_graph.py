"""Makes a Relax function of a recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx

from annotated_region.errors import OpInfoError
from annotated_region.recurrent_loops.op import recurrent_loop
from annotated_region.tvm_adapter.types import tensor_type
from kits.dense_graphs.recipe import Dim, Node, Recipe, resolved
from kits.dense_graphs.sources import constant_value

__all__ = ["InvalidRecipeError", "module_of"]

Make = Callable[[Sequence[relax.Expr], Mapping[str, Any], Callable[[Sequence[Dim]], relax.ShapeExpr]], Any]


class InvalidRecipeError(Exception):
    """A recipe is no well-formed graph, which happens while it is being shrunk."""


def module_of(recipe: Recipe) -> tvm.IRModule:
    """A module whose function ``main`` is the graph.

    Raises
    ------
    InvalidRecipeError
        Relax refuses an op, or infers another shape than the recipe says.
    """
    _require_bound(recipe)
    symbols = {name: tirx.Var(name, "int64") for name in recipe.calls[0]}

    def shape_of(dims: Sequence[Dim]) -> relax.ShapeExpr:
        return relax.ShapeExpr([_dim(dim, symbols) for dim in dims])

    builder = relax.BlockBuilder()
    values: list[relax.Expr] = []
    params: list[relax.Var] = []
    for number, node in enumerate(recipe.nodes):
        if node.op == "input":
            params.append(relax.Var(f"x{number}", relax.TensorType(shape_of(node.shape), node.dtype)))
    try:
        with builder.function("main", params):
            with builder.dataflow():
                given = iter(params)
                for number, node in enumerate(recipe.nodes):
                    value = _value(recipe, number, node, values, given, shape_of)
                    if not node.is_source:
                        value = builder.emit(value, f"v{number}")
                        _check(node, value)
                    values.append(value)
                found = [values[result] for result in recipe.results]
                out = builder.emit_output(found[0] if len(found) == 1 else relax.Tuple(found))
            builder.emit_func_output(out)
    except (tvm.error.InternalError, OpInfoError, ValueError, TypeError, RuntimeError, IndexError) as error:
        raise InvalidRecipeError(str(error)) from error
    return builder.get()


def _require_bound(recipe: Recipe) -> None:
    """Each symbol has to be an extent of an input, or nobody could tell its value."""
    alone = {dim for node in recipe.nodes if node.op == "input" for dim in node.shape}
    if not set(recipe.calls[0]) <= alone:
        raise InvalidRecipeError("a symbol is no extent of an input")


def _dim(dim: Dim, symbols: Mapping[str, Any]) -> Any:
    return dim if isinstance(dim, int) else resolved(dim, symbols)


def _value(recipe: Recipe, number: int, node: Node, values: list[Any], given: Any, shape_of: Any) -> Any:
    if node.op == "input":
        return next(given)
    if node.op == "constant":
        return relax.const(tvm.runtime.tensor(constant_value(recipe, number)), node.dtype)
    operands = [values[operand] for operand in node.operands]
    if node.op == "field":
        return relax.TupleGetItem(operands[0], node.attrs["index"])
    special = SPECIAL.get(node.op)
    if special is not None:
        return special(operands, node.attrs, shape_of)
    return op_function(node.op)(*operands, **node.attrs)


def _check(node: Node, value: relax.Expr) -> None:
    whole = value.ty
    ty = whole.fields[0] if isinstance(whole, tvm.ir.TupleType) else whole
    assert isinstance(ty, relax.TensorType)
    extents = list(getattr(ty.shape, "values", ()))
    wanted = [int(e) if isinstance(e, tirx.IntImm) else None for e in extents]
    known = [dim if isinstance(dim, int) else None for dim in node.shape]
    if len(wanted) != len(known) or any(
        a is not None and b is not None and a != b for a, b in zip(wanted, known, strict=True)
    ):
        raise InvalidRecipeError(f"{node.op} has shape {extents}, not {node.shape}")
    if str(ty.dtype) != node.dtype:
        raise InvalidRecipeError(f"{node.op} is of {ty.dtype}, not {node.dtype}")


def op_function(name: str) -> Callable[..., relax.Expr]:
    """TVM's Python function for an op, such as ``relax.op.nn.relu`` for ``nn.relu``."""
    found: Any = relax.op
    for part in name.split("."):
        found = getattr(found, part)
    function: Callable[..., relax.Expr] = found
    return function


def _shaped(name: str) -> Make:
    return lambda operands, attrs, shape_of: op_function(name)(operands[0], shape_of(attrs["shape"]))


def _quantization(name: str) -> Make:
    def make(operands: Sequence[relax.Expr], attrs: Mapping[str, Any], _shape_of: Any) -> relax.Expr:
        options = {"axis": attrs["axis"], "out_dtype": attrs["out_dtype"]}
        if len(operands) > 1:  # scale and zero point are computed
            return op_function(name)(*operands, **options)
        is_whole = not isinstance(attrs["scale"], list)
        scale = np.asarray(attrs["scale"], "float32")
        zero = np.asarray(attrs["zero"], attrs["zero_dtype"])
        assert is_whole == (scale.ndim == 0)
        return op_function(name)(operands[0], relax.const(scale), relax.const(zero), **options)

    return make


def _taken(operands: Sequence[relax.Expr], attrs: Mapping[str, Any]) -> relax.Expr:
    """By indices that are known, or computed."""
    if "indices" in attrs:
        known = relax.const(np.asarray(attrs["indices"], "int64"))
        return relax.op.take(operands[0], known, attrs["axis"])
    return relax.op.take(operands[0], operands[1], attrs["axis"], attrs["mode"])


def _slice(operands: Sequence[relax.Expr], attrs: Mapping[str, Any], shape_of: Any) -> relax.Expr:
    """Numbers that depend on extents stand in a tuple of expressions."""
    borders = {name: list(shape_of(attrs[name]).values) for name in ("begin", "end")}
    return relax.op.strided_slice(operands[0], **{**attrs, **borders})


def _resized(name: str) -> Make:
    def make(operands: Sequence[relax.Expr], attrs: Mapping[str, Any], _shape_of: Any) -> relax.Expr:
        others = {key: value for key, value in attrs.items() if key != "size"}
        return op_function(name)(operands[0], relax.ShapeExpr(attrs["size"]), **others)

    return make


SPECIAL: dict[str, Make] = {
    "recurrent.loop": lambda operands, attrs, _: recurrent_loop(*operands, **attrs),
    "reshape": _shaped("reshape"),
    "broadcast_to": _shaped("broadcast_to"),
    "concat": lambda operands, attrs, _: relax.op.concat(list(operands), attrs["axis"]),
    "stack": lambda operands, attrs, _: relax.op.stack(list(operands), attrs["axis"]),
    "clip": lambda operands, attrs, _: relax.op.clip(operands[0], attrs["min"], attrs["max"]),
    "take": lambda operands, attrs, _: _taken(operands, attrs),
    "index_put": lambda operands, _attrs, _: relax.op.index_put(operands[0], operands[2:], operands[1]),
    "index_tensor": lambda operands, _attrs, _: relax.op.index_tensor(operands[0], list(operands[1:])),
    "one_hot": lambda operands, attrs, _: relax.op.one_hot(
        operands[0],
        *(tirx.FloatImm(attrs.get("dtype", "float32"), attrs[name]) for name in ("on", "off")),
        attrs["depth"],
        attrs["axis"],
    ),
    "zeros": lambda _operands, attrs, shape_of: relax.op.zeros(shape_of(attrs["shape"]), attrs["dtype"]),
    "ones": lambda _operands, attrs, shape_of: relax.op.ones(shape_of(attrs["shape"]), attrs["dtype"]),
    "full": lambda operands, attrs, shape_of: relax.op.full(
        shape_of(attrs["shape"]), operands[0], tensor_type(operands[0]).dtype
    ),
    "shape_to_tensor": lambda _operands, attrs, shape_of: relax.op.shape_to_tensor(shape_of(attrs["shape"])),
    "arange": lambda _operands, attrs, shape_of: relax.op.arange(
        0, shape_of([attrs["end"]]).values[0], 1, "int64"
    ),
    "strided_slice": _slice,
    "median_along": lambda operands, attrs, _: relax.op.median(operands[0], attrs["axis"], attrs["keepdims"]),
    "matmul": lambda operands, attrs, _: relax.op.matmul(*operands, out_dtype=attrs.get("out_dtype")),
    "quantize": _quantization("quantize"),
    "dequantize": _quantization("dequantize"),
    **{name: _resized(name) for name in ("image.resize2d", "image.resize3d", "image.affine_grid")},
    "einsum": lambda operands, attrs, _: relax.op.einsum(list(operands), attrs["subscripts"]),
    "meshgrid": lambda operands, attrs, _: relax.op.meshgrid(list(operands), attrs["indexing"]),
}
"""Ops whose Python function takes something else than operands and attributes."""
