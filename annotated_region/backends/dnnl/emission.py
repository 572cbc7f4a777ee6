"""Writes graphs down as C++: the runtime's text, then each region as constant tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from types import MappingProxyType

from tvm import relax, tirx

from annotated_region.backends.dnnl.graph import Dim, Graph, Node, PostOp, Tensor
from annotated_region.errors import CodegenError

__all__ = ["PREBUILT", "Embedded", "constants_of", "emit_module", "emit_region", "runtime_text"]

INTERFACE_FILES = ("tables.h", "entry.h")
"""The part of the runtime that every generated unit needs."""

RUNTIME_FILES = (
    "processors.h",
    "workers.h",
    "openmp.h",
    "storage.h",
    "layouts.h",
    "memory_plan.h",
    "plan.h",
    "precision.h",
    "builder.h",
    "scaling.h",
    "post_ops.h",
    "vector_math.h",
    "kernels.h",
    "softmax.h",
    "reduction.h",
    "group_norm.h",
    "primitives.h",
    "views.h",
    "concat.h",
    "quantization.h",
    "attention.h",
    "dispatch.h",
    "forking.h",
    "region.h",
)
"""The rest, in an order in which everything is declared before use."""

PREBUILT = "ANNOTATED_REGION_PREBUILT_RUNTIME"
"""Defined when the runtime is linked as an object file; otherwise the unit holds all that it needs."""

OPERATORS = {tirx.Add: "+", tirx.Sub: "-", tirx.Mul: "*"}
FUNCTIONS = {tirx.Max: "std::max", tirx.Min: "std::min"}


@dataclass(frozen=True, slots=True)
class Embedded:
    """Where the constants of a region lie in an object file that is linked with its unit.

    Attributes
    ----------
    symbol
        The name of the whole.
    offsets
        Where each constant begins, in order.
    size
        The bytes of the whole.
    """

    symbol: str
    offsets: tuple[int, ...]
    size: int


def emit_module(
    graphs: Sequence[Graph], precision: str, embedded: Mapping[str, Embedded] = MappingProxyType({})
) -> str:
    """The translation unit of a module.

    Parameters
    ----------
    graphs
        Its regions.
    precision
        ``"fp32"``, ``"bf16"`` or ``"bf16_if_faster"``.
    embedded
        For regions whose constants lie in an object file, by symbol, where.
    """
    parts = [runtime_text(INTERFACE_FILES), f"#ifndef {PREBUILT}", runtime_text(RUNTIME_FILES), "#endif"]
    parts += [emit_region(graph, precision, embedded.get(graph.symbol)) for graph in graphs]
    return "\n".join(parts)


def runtime_text(names: Sequence[str] = INTERFACE_FILES + RUNTIME_FILES) -> str:
    """The text of files of the C++ runtime, one after the other."""
    folder = files("annotated_region.backends.dnnl") / "runtime"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def emit_region(graph: Graph, precision: str, embedded: Embedded | None = None) -> str:
    """The tables of one region and the export of its function."""
    name = f"{graph.symbol}_tables"
    unit = _Unit({constant: index for index, constant in enumerate(constants_of(graph))}, precision, embedded)
    declared = (
        f'extern "C" __attribute__((visibility("hidden"))) const char {embedded.symbol}[];'
        if embedded
        else None
    )
    lines = [
        declared,
        f"namespace annotated_region_dnnl {{ namespace {{ namespace {name} {{",
        _table("int64_t", "offsets", [str(offset) for offset in embedded.offsets]) if embedded else None,
        *(unit.in_floats(graph.in_floats) if graph.in_floats else ()),
        *unit.tables(graph),
        "}}}",
        f"ANNOTATED_REGION_EXPORT({graph.symbol}, annotated_region_dnnl::{name}::graph)",
        "",
    ]
    return "\n".join(line for line in lines if line is not None)


@dataclass(frozen=True, slots=True)
class _Unit:
    """What the graphs of one region have in common."""

    constants: Mapping[str, int]
    precision: str
    embedded: Embedded | None

    def tables(self, graph: Graph) -> Iterator[str | None]:
        """The tables of a graph."""
        variables = _Variables(graph)
        tensors = [
            _tensor(index, tensor, self.constants, variables) for index, tensor in enumerate(graph.tensors)
        ]
        written = graph.nodes if graph.finite_math else map(_with_turned_clips, graph.nodes)
        nodes = [_node(index, node) for index, node in enumerate(written)]
        yield from (line for table, _ in tensors for line in table)
        yield _table("TensorRow", "tensors", [row for _, row in tensors], one_a_line=True)
        yield from (line for table, _ in nodes for line in table)
        yield _table("NodeRow", "nodes", [row for _, row in nodes], one_a_line=True)
        yield _table("int", "inputs", [str(tensor) for tensor in graph.inputs])
        yield _table("int", "outputs", [str(tensor) for tensor in graph.outputs])
        yield _table("VariableRow", "variables", variables.rows)
        yield from variables.evaluation()
        yield "const GraphTable graph = {"
        yield f'    "{graph.symbol}",'
        yield "    " + ", ".join(_list(table, count) for table, count in _tables(graph, variables)) + ","
        yield f"    {len(variables.expressions)}, evaluate,"
        settings = f"{len(self.constants)}, {len(graph.shapes)}, Precision::{self.precision}"
        yield f"    {settings}{self.rest(graph)}}};"

    def in_floats(self, graph: Graph) -> Iterator[str | None]:
        """The tables of what computes the same without products of int8."""
        yield "namespace in_floats {"
        yield from self.tables(graph)
        yield "}"

    def rest(self, graph: Graph) -> str:
        """What need not be there: where the constants lie, and what computes the same in floats."""
        given = self.embedded
        place = f"{{{given.symbol}, offsets, {given.size}}}" if given else "{}"
        if graph.in_floats:
            return f", {place}, &in_floats::graph"
        return f", {place}" if given else ""


def constants_of(graph: Graph) -> list[str]:
    """The names of the constants of a region, in the order in which its function receives them."""
    graphs = (graph, graph.in_floats) if graph.in_floats else (graph,)
    names = (tensor.source for each in graphs for tensor in each.tensors)
    return list(dict.fromkeys(name for name in names if isinstance(name, str)))


def _tables(graph: Graph, variables: _Variables) -> list[tuple[str, int]]:
    return [
        ("tensors", len(graph.tensors)),
        ("nodes", len(graph.nodes)),
        ("inputs", len(graph.inputs)),
        ("outputs", len(graph.outputs)),
        ("variables", len(variables.rows)),
    ]


def _table(type_: str, name: str, rows: Sequence[str], one_a_line: bool = False) -> str | None:
    if not rows:
        return None
    if not one_a_line:
        return f"const {type_} {name}[] = {{{', '.join(rows)}}};"
    return f"const {type_} {name}[] = {{\n" + "".join(f"    {row},\n" for row in rows) + "};"


def _list(name: str, size: int) -> str:
    return f"{{{name}, {size}}}" if size else "{}"


class _Variables:
    """The symbolic extents of a region: where their values come from, and what is computed from them."""

    def __init__(self, graph: Graph) -> None:
        self.symbol = graph.symbol
        self.rows: list[str] = []
        self.expressions: list[str] = []
        self._slots: dict[relax.Expr, int] = {}
        for position, tensor in enumerate(graph.inputs):
            for axis, extent in enumerate(graph.shape(tensor)):
                self._bind(position, axis, extent)
        for position, shape in enumerate(graph.shapes, start=len(graph.inputs)):
            for axis, extent in enumerate(shape):
                self._bind(position, axis, extent)

    def _bind(self, position: int, axis: int, extent: Dim) -> None:
        if isinstance(extent, relax.Var) and extent not in self._slots:
            self._slots[extent] = len(self.rows)
            self.rows.append(f"{{{position}, {axis}}}")

    def code(self, extent: Dim) -> str:
        """An extent as it stands in a table."""
        if isinstance(extent, int):
            return str(extent)
        text = self._text(extent)
        if text not in self.expressions:
            self.expressions.append(text)
        return str(-1 - self.expressions.index(text))

    def _text(self, expr: relax.Expr) -> str:
        if isinstance(expr, tirx.IntImm):
            return f"int64_t{{{int(expr)}}}"
        if isinstance(expr, relax.Var) and expr in self._slots:
            return f"v[{self._slots[expr]}]"
        if isinstance(expr, tirx.FloorDiv | tirx.FloorMod):  # extents are not negative
            operator = "/" if isinstance(expr, tirx.FloorDiv) else "%"
            return f"({self._text(expr.a)} {operator} {self._text(expr.b)})"
        for kind, operator in OPERATORS.items():
            if isinstance(expr, kind):
                return f"({self._text(expr.a)} {operator} {self._text(expr.b)})"
        for kind, function in FUNCTIONS.items():
            if isinstance(expr, kind):
                return f"{function}({self._text(expr.a)}, {self._text(expr.b)})"
        raise CodegenError(
            f"{self.symbol}: target 'dnnl' cannot compute the extent {expr} from the shapes of the inputs; "
            "each symbolic extent has to stand alone as an extent of some input, or in a shape handed over"
        )

    def evaluation(self) -> list[str]:
        """The function that computes the expressions."""
        used = "v" if any("v[" in text for text in self.expressions) else ""
        lines = [f"    e[{index}] = {text};" for index, text in enumerate(self.expressions)]
        return [f"void evaluate(const int64_t* {used}, int64_t* {'e' if lines else ''}) {{", *lines, "}"]


def _tensor(
    index: int, tensor: Tensor, constants: Mapping[str, int], variables: _Variables
) -> tuple[list[str], str]:
    extents = [variables.code(extent) for extent in tensor.shape]
    table = _table("int64_t", f"shape_{index}", extents)
    if isinstance(tensor.source, str):
        source, position = "constant", constants[tensor.source]
    elif tensor.source is not None:
        source, position = "input", tensor.source
    else:
        source, position = "computed", 0
    shape, dtype = _list(f"shape_{index}", len(extents)), tensor.dtype.name.lower()
    row = f"{{{shape}, Source::{source}, {position}, Type::{dtype}}}"
    return [line for line in (table,) if line is not None], row


def _with_turned_clips(node: Node) -> Node:
    """Clips NaN to the upper bound, as TVM, where oneDNN takes the lower one: ``-clip(-x, -high, -low)``."""
    return replace(node, post_ops=tuple(part for post in node.post_ops for part in _turned(post)))


def _turned(post: PostOp) -> tuple[PostOp, ...]:
    turn = PostOp("eltwise_linear", -1.0, 0.0)
    is_clip = post.algorithm == "eltwise_clip"
    return (turn, replace(post, alpha=-post.beta, beta=-post.alpha), turn) if is_clip else (post,)


def _node(index: int, node: Node) -> tuple[list[str], str]:
    parameters = node.parameters.row()
    columns = (
        ("int", "operands", [str(tensor) for tensor in node.inputs]),
        ("int64_t", "ints", [str(value) for value in parameters.ints]),
        ("float", "floats", [_float(value) for value in parameters.floats]),
        ("PostOpRow", "chain", [_post_op(post) for post in node.post_ops]),
    )
    tables = [_table(type_, f"{name}_{index}", rows) for type_, name, rows in columns]
    operands, ints, floats, chain = (_list(f"{name}_{index}", len(rows)) for _, name, rows in columns)
    row = (
        f"{{Kind::{node.kind.value}, dnnl_{parameters.algorithm}, {operands}, {node.output}, "
        f"{ints}, {floats}, {chain}{_quantized(node)}}}"
    )
    return [table for table in tables if table is not None], row


def _quantized(node: Node) -> str:
    given = node.quantized
    if given is None:
        return ""
    scales = -1 if given.weights_scales is None else given.weights_scales
    source = f"{_float(given.scale)}, {given.zero}, {given.weights_zero}, {scales}"
    return f", {{{source}, {_float(given.result_scale)}, {given.result_zero}}}"


def _post_op(post: PostOp) -> str:
    operand = -1 if post.operand is None else post.operand
    return f"{{dnnl_{post.algorithm}, {_float(post.alpha)}, {_float(post.beta)}, {operand}}}"


def _float(value: float) -> str:
    """A float32 literal that denotes the value exactly; a bound may be infinite."""
    assert not math.isnan(value)
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return f"{float(value).hex()}f" if value else "0.0f"
