"""Emits C++: each region as constant tables."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import Field, fields, replace
from itertools import count

from tvm import relax, tirx

from annotated_region.backends.dnnl.exact_clips import with_exact_clips
from annotated_region.backends.dnnl.graph import Dim, Graph, Node, PostOp, Quantized, Tensor
from annotated_region.backends.dnnl.open_extents import open_views
from annotated_region.backends.dnnl.parameters import Parameters
from annotated_region.backends.dnnl.repeats import Repeat, fold
from annotated_region.backends.dnnl.rows import literal
from annotated_region.backends.dnnl.runtime_units import interface_text
from annotated_region.compilation.elf_object import DataSymbol
from annotated_region.errors import CodegenError
from annotated_region.functions.extent_choices import parts_of_choice

__all__ = ["constants_of", "emit_region", "emit_unit"]

Arithmetic = tirx.Add | tirx.Sub | tirx.Mul | tirx.FloorDiv | tirx.FloorMod | tirx.Max | tirx.Min
Comparison = tirx.LT | tirx.LE | tirx.GT | tirx.GE | tirx.EQ | tirx.NE

FORMS: dict[type[Arithmetic | Comparison], str] = {
    tirx.Add: "({} + {})",
    tirx.Sub: "({} - {})",
    tirx.Mul: "({} * {})",
    tirx.FloorDiv: "floor_quotient({}, {})",
    tirx.FloorMod: "floor_remainder({}, {})",
    tirx.Max: "larger({}, {})",
    tirx.Min: "smaller({}, {})",
    tirx.LT: "({} < {})",
    tirx.LE: "({} <= {})",
    tirx.GT: "({} > {})",
    tirx.GE: "({} >= {})",
    tirx.EQ: "({} == {})",
    tirx.NE: "({} != {})",
}
"""The C++ form of arithmetic on extents, and of conditions."""


def emit_unit(graph: Graph, precision: str, embedded: DataSymbol | None = None) -> str:
    """The translation unit of one region, which is linked with `runtime_unit`.

    Parameters
    ----------
    graph
        The region.
    precision
        ``"fp32"``, ``"bf16"`` or ``"bf16_if_faster"``.
    embedded
        The object file with its constants, if there is one.
    """
    return "\n".join((interface_text(), emit_region(graph, precision, embedded)))


def emit_region(graph: Graph, precision: str, embedded: DataSymbol | None = None) -> str:
    """The tables of one region and the export of its function."""
    name = f"{graph.symbol}_tables"
    constants = constants_of(graph)
    lines = [f"namespace annotated_region_dnnl {{ namespace {{ namespace {name} {{"]
    settings, in_floats = f"Precision::{precision}, {{}}", "nullptr"
    if embedded:
        hidden = '__attribute__((visibility("hidden")))'
        lines.insert(0, f'extern "C" {hidden} const char {embedded.name}[];')
        settings = f"Precision::{precision}, {{{embedded.name}, {embedded.size}}}"
    if graph.in_floats:
        inner = _GraphTables(graph.in_floats, constants).written(f"{settings}, nullptr")
        lines += ["namespace in_floats {", *inner, "}"]
        in_floats = "&in_floats::graph"
    lines += _GraphTables(graph, constants).written(f"{settings}, {in_floats}")
    lines.append("}}}")
    lines.append(f"ANNOTATED_REGION_EXPORT({graph.symbol}, annotated_region_dnnl::{name}::graph)\n")
    return "\n".join(lines)


def constants_of(graph: Graph) -> list[str]:
    """The names of the constants of a region, in the order that its function receives them."""
    graphs = (graph, graph.in_floats) if graph.in_floats else (graph,)
    names = (tensor.source for each in graphs for tensor in each.tensors)
    return list(dict.fromkeys(name for name in names if isinstance(name, str)))


class _GraphTables:
    """The tables of one graph, equal ones once; each table precedes the first table that refers to it."""

    def __init__(self, graph: Graph, constants: Sequence[str]) -> None:
        self.graph = graph
        self.constants = {name: index for index, name in enumerate(constants)}
        self.open = open_views(graph)
        self.variables = _Variables(graph, self.open)
        self.lines: list[str] = []
        self.names: dict[str, str] = {}
        self.tensor_numbers, self.node_numbers = count(), count()  # in the names of tables

    def written(self, settings: str) -> list[str]:
        """All lines; `settings` are the fields of the graph's table that follow the counts."""
        graph, variables = self.graph, self.variables
        folded = fold(*self.encoded(), self.constants)
        lists = [
            self.tensors("tensors", folded.tensors),
            self.nodes("nodes", folded.nodes),
            self.table("int", "inputs", graph.inputs),
            self.table("int", "outputs", graph.outputs),
            self.table("VariableRow", "variables", variables.rows),
        ]
        repeats = [self.repeat(index, repeat) for index, repeat in enumerate(folded.repeats)]
        others = [self.table("OpenViewRow", "open_views", self.views())]
        others.append(self.table("RepeatRow", "repeats", repeats, one_a_line=True))
        return [
            *self.lines,
            *variables.evaluation(),
            "const GraphTable graph = {",
            f'    "{graph.symbol}",',
            f"    {', '.join(lists)},",
            f"    {len(variables.expressions)}, evaluate,",
            f"    {len(self.constants)}, {len(graph.shapes)}, {settings},",
            f"    {', '.join(others)}}};",
        ]

    def encoded(self) -> tuple[list[Tensor], list[Node]]:
        """Tensors and nodes as in tables: what may depend on extents is a code."""
        nodes = self.graph.nodes if self.graph.finite_math else with_exact_clips(self.graph)
        return (
            [
                replace(tensor, shape=tuple(map(self.variables.code, tensor.shape)), scalar=None)
                for tensor in self.graph.tensors
            ],
            list(map(self.encoded_node, nodes)),
        )

    def encoded_node(self, node: Node) -> Node:
        names = [each.name for each in fields(node.parameters) if "int | relax.Expr" in str(each.type)]
        if not names:
            return node
        codes = {name: self.code(getattr(node.parameters, name)) for name in names}
        return replace(node, parameters=replace(node.parameters, **codes))

    def code(self, value: Dim | tuple[Dim, ...]) -> int | tuple[int, ...]:
        """The encoding of what may depend on extents."""
        return (
            tuple(map(self.variables.code, value)) if isinstance(value, tuple) else self.variables.code(value)
        )

    def views(self) -> list[str]:
        """The rows of views with an open extent."""
        views = {view.tensor: view for each in self.open.values() for view in each}
        return [
            f"{{{view.tensor}, {view.source}, {self.table('int64_t', f'axes_{view.tensor}', view.axes)}}}"
            for view in views.values()
        ]

    def repeat(self, index: int, repeat: Repeat) -> str:
        """The row of a repeat."""
        arguments = [tensor for each in repeat.arguments for tensor in each]
        lists = (
            self.tensors(f"tensors_{index}", repeat.tensors),
            self.nodes(f"nodes_{index}", repeat.nodes),
            self.table("int", f"arguments_{index}", arguments),
        )
        times = len(repeat.arguments)
        return f"{{{', '.join(lists)}, {repeat.first_tensor}, {repeat.first_node}, {repeat.step}, {times}}}"

    def table(self, type_: str, name: str, rows: Sequence[object], one_a_line: bool = False) -> str:
        """Emit a table unless it is empty; returns the initializer of a list that refers to it."""
        if not rows:
            return "{}"
        lines = "".join(f"\n    {row}," for row in rows) + "\n" if one_a_line else ", ".join(map(str, rows))
        return f"{{{self.declared(type_, name, '[]', f'{{{lines}}}')}, {len(rows)}}}"

    def declared(self, type_: str, name: str, suffix: str, value: str) -> str:
        """Declare a constant, unless there is one of this type and value; returns its name."""
        known = self.names.setdefault(f"{type_}{suffix} {value}", name)
        if known == name:
            self.lines.append(f"const {type_} {name}{suffix} = {value};")
        return known

    def tensors(self, name: str, tensors: Sequence[Tensor]) -> str:
        rows = [self.tensor(next(self.tensor_numbers), tensor) for tensor in tensors]
        return self.table("TensorRow", name, rows, one_a_line=True)

    def nodes(self, name: str, nodes: Sequence[Node]) -> str:
        rows = [self.node(next(self.node_numbers), node) for node in nodes]
        return self.table("NodeRow", name, rows, one_a_line=True)

    def tensor(self, index: int, tensor: Tensor) -> str:
        shape = self.table("int64_t", f"shape_{index}", tensor.shape)
        if isinstance(tensor.source, str):
            source, position = "constant", self.constants[tensor.source]
        elif tensor.source is not None:
            source, position = "input", tensor.source
        else:
            source, position = "computed", 0
        types = f"{literal(tensor.dtype)}, {literal(tensor.half or tensor.dtype)}"
        return f"{{{shape}, Source::{source}, {position}, {types}}}"

    def node(self, index: int, node: Node) -> str:
        operands = self.table("int", f"operands_{index}", node.inputs)
        parameters = self.pointer(f"parameters_{index}", node.parameters)
        chain = self.table("PostOpRow", f"chain_{index}", [self.row("", post) for post in node.post_ops])
        quantized = self.pointer(f"quantized_{index}", node.quantized)
        return f"{{{literal(node.kind)}, {operands}, {node.output}, {parameters}, {chain}, {quantized}}}"

    def pointer(self, name: str, value: Parameters | Quantized | None) -> str:
        """Emit the struct of a value; returns its address, or null if it has no fields."""
        if value is None or not fields(value):
            return "nullptr"
        return f"&{self.declared(f'{type(value).__name__}Row', name, '', self.row(name, value))}"

    def row(self, name: str, value: Parameters | PostOp | Quantized) -> str:
        """The initializer of a value; its lists are emitted as separate tables."""
        return "{" + ", ".join(self.field(name, value, each) for each in fields(value)) + "}"

    def field(self, name: str, value: Parameters | PostOp | Quantized, field: Field[object]) -> str:
        given = getattr(value, field.name)
        return (
            self.table("int64_t", f"{name}_{field.name}", given)
            if isinstance(given, tuple)
            else literal(given)
        )


class _Variables:
    """The symbolic extents of a region: the sources of their values, and the expressions over them."""

    def __init__(self, graph: Graph, are_open: Container[relax.Var]) -> None:
        self.symbol = graph.symbol
        self.rows: list[str] = []
        self.expressions: list[str] = []
        self._slots: dict[relax.Expr, int] = {}
        shapes = [*map(graph.shape, graph.inputs), *graph.shapes]
        for position, shape in enumerate(shapes):
            for axis, extent in enumerate(shape):
                if isinstance(extent, relax.Var) and extent not in self._slots:
                    self._slots[extent] = len(self.rows)
                    suffix = ", true" if extent in are_open else ""
                    self.rows.append(f"{{{position}, {axis}{suffix}}}")

    def code(self, extent: Dim) -> int:
        """The encoding of an extent, or another number, in a table."""
        if isinstance(extent, int) and extent >= 0:
            return extent
        text = self._text(extent)
        if text not in self.expressions:
            self.expressions.append(text)
        return -1 - self.expressions.index(text)

    def _text(self, expr: Dim) -> str:
        if isinstance(expr, int | tirx.IntImm):
            return f"int64_t{{{int(expr)}}}"
        if isinstance(expr, relax.Var) and expr in self._slots:
            return f"v[{self._slots[expr]}]"
        choice = parts_of_choice(expr)
        if choice is not None:
            condition, one, other = map(self._text, choice)
            return f"({condition} ? {one} : {other})"
        if isinstance(expr, Arithmetic | Comparison):
            return FORMS[type(expr)].format(self._text(expr.a), self._text(expr.b))
        raise CodegenError(
            f"{self.symbol}: target 'dnnl' cannot compute the extent {expr} from the shapes of the inputs; "
            "each symbolic extent must be a plain extent of an input or of a shape argument"
        )

    def evaluation(self) -> list[str]:
        """The function that computes the expressions."""
        used = "v" if any("v[" in text for text in self.expressions) else ""
        lines = [f"    e[{index}] = {text};" for index, text in enumerate(self.expressions)]
        return [f"void evaluate(const int64_t* {used}, int64_t* {'e' if lines else ''}) {{", *lines, "}"]
