"""The dataflow graph: kinds of nodes, dependences, and required orders."""

from __future__ import annotations

import gc
from collections.abc import Iterable

import networkx as nx
import pytest
import tvm
from hypothesis import given
from kits.regions import region_oracles as oracle
from kits.regions.region_tables import function_of
from tvm import relax, te

import annotated_region as ar
from annotated_region.collector import paused_collector
from annotated_region.dataflow.graph import DEAD, RESULT, DataflowGraph, NodeKind
from annotated_region.dataflow.walk import read_dataflow
from annotated_region.functions.rewriting import typed
from annotated_region.testing import annotated_functions, functions, region_sets

MATRIX = relax.TensorType([2, 4], "float32")


def numbered(graph: DataflowGraph) -> dict[str, int]:
    return {node.var.name: number for number, node in enumerate(graph.nodes)}


def needs(graph: DataflowGraph) -> set[tuple[str, str]]:
    """What `order_edges` say, by name."""
    return {
        (graph.nodes[before].var.name, graph.nodes[after].var.name) for before, after in graph.order_edges
    }


def test_the_kinds_of_nodes() -> None:
    graph = read_dataflow(
        function_of(
            """
            @R.function
            def local(p: R.Tensor((2, 4), "float32")) -> R.Tensor((2, 4), "float32"):
                q = R.nn.relu(p)
                return q
            a = R.nn.relu(x)
            t = a, y
            f = t[0]
            n = f
            k = R.const(1.0, "float32")
            s = R.shape([2, 4])
            m = R.match_cast(n, R.Tensor((2, 4), "float32"))
            d = R.call_packed("some.function", m, ty_args=[R.Tensor((2, 4), "float32")])
            e = R.call_pure_packed("some.function", m, ty_args=[R.Tensor((2, 4), "float32")])
            g = local(e)
            i = R.print(g, format="{}")
            if c:
                r = e
            else:
                r = d
            return r
            """,
            pure=False,
        )
    )
    kinds: dict[NodeKind, list[str]] = {}
    for node in graph.nodes:
        kinds.setdefault(node.kind, []).append(node.var.name)
    assert kinds == {
        NodeKind.OPERATION: ["q", "a", "e"],
        NodeKind.BOUNDARY: ["local", "m", "d", "g", "i", "r"],
        NodeKind.STRUCTURE: ["t", "f", "n"],
        NodeKind.LITERAL: ["k", "s"],
    }


def kernel() -> tvm.tirx.PrimFunc:
    """A kernel that adds one."""
    source = te.placeholder((2, 4), "float32", name="source")
    plus_one = te.compute((2, 4), lambda i, j: source[i, j] + 1, name="plus_one")
    return te.create_prim_func([source, plus_one])


def test_calls_to_kernels_and_functions_of_the_module() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", MATRIX)
    helper_param = relax.Var("p", MATRIX)
    with builder.function("helper", [helper_param], private=True):
        helper = builder.emit_func_output(helper_param)
    plus = builder.add_func(kernel(), "plus")
    with builder.function("main", [x]):
        a = builder.emit(relax.op.call_tir(plus, [x], MATRIX), "a")
        b = builder.emit(relax.Call(helper, [a]), "b")
        d = builder.emit(relax.op.call_tir_inplace(plus, [b], [0], MATRIX), "d")
        builder.emit_func_output(d)
    graph = read_dataflow(builder.get()["main"])
    assert [(node.var.name, node.kind) for node in graph.nodes] == [
        ("a", NodeKind.OPERATION),
        ("b", NodeKind.OPERATION),
        ("d", NodeKind.BOUNDARY),
    ]
    assert [[graph.producer_var(edge.producer).name for edge in edges] for edges in graph.into] == [
        ["x"],
        ["a"],
        ["b"],
    ]


def test_what_reads_a_value_stays_before_what_works_in_place_on_it() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", MATRIX)
    plus = builder.add_func(kernel(), "plus")
    with builder.function("main", [x]):
        a = builder.emit(relax.op.nn.relu(x), "a")
        other_name = builder.emit(a, "other_name")
        pair = builder.emit(relax.Tuple([other_name, other_name]), "pair")
        read = builder.emit(relax.op.tanh(other_name), "read")
        joined = builder.emit(relax.op.concat(pair, axis=1), "joined")
        apart = builder.emit(relax.op.nn.relu(read), "apart")
        over = builder.emit(relax.op.call_tir_inplace(plus, [a], [0], MATRIX), "over")
        late = builder.emit(relax.op.tanh(other_name), "late")
        builder.emit_func_output(relax.Tuple([over, apart, joined, late]))
    graph = read_dataflow(builder.get()["main"])
    assert needs(graph) == {("read", "over"), ("joined", "over"), ("over", "late")}


@pytest.mark.campaign
@given(functions())
def test_what_must_come_first_is_what_brute_force_finds(func: relax.Function) -> None:
    graph = read_dataflow(func)
    edges = [(graph.nodes[before].var, graph.nodes[after].var) for before, after in graph.order_edges]
    values = [
        (graph.nodes[edge.producer].var, graph.nodes[edge.consumer].var)
        for edge in graph.edges()
        if edge.producer >= 0 and edge.consumer != RESULT
    ]
    # Inside and outside of an `If` or a local function are told apart by edges into its nodes, so those of
    # brute force, which has one for the whole, are compared as far as paths go.
    assert closure([*edges, *values]) >= closure(oracle.needs(func))
    both = nx.DiGraph([*edges, *values, *oracle.needs(func)])
    assert nx.is_directed_acyclic_graph(both)


@pytest.mark.campaign
@given(functions())
def test_no_more_must_come_first_than_brute_force_finds(func: relax.Function) -> None:
    graph = read_dataflow(func)
    wanted = closure(oracle.needs(func))
    for before, after in graph.order_edges:
        assert (graph.nodes[before].var, graph.nodes[after].var) in wanted


def closure(pairs: Iterable[tuple[relax.Var, relax.Var]]) -> set[tuple[relax.Var, relax.Var]]:
    return set(nx.transitive_closure(nx.DiGraph(pairs)).edges)


@pytest.mark.campaign
@given(annotated_functions())
def test_edges_go_from_lower_to_higher_numbers_and_stand_in_both_lists(func: relax.Function) -> None:
    graph = read_dataflow(func)
    for number, edges in enumerate(graph.into):
        for edge in edges:
            assert edge.consumer == number
            assert edge.producer < number
            assert edge in graph.leaving(edge.producer)
    assert all(before < after for before, after in graph.order_edges)
    leaving = [
        edge for edges in (*graph.out_of, *graph.external_out) for edge in edges if edge.consumer != DEAD
    ]
    assert sorted(leaving) == sorted(graph.edges())
    for scope in graph.scopes:
        assert [graph.nodes[number].scope for number in scope.nodes] == [scope.index] * len(scope.nodes)
    assert sorted(number for scope in graph.scopes for number in scope.nodes) == list(range(len(graph.nodes)))


@pytest.mark.campaign
@given(region_sets())
def test_an_annotated_function_has_the_graph_of_the_plain_one(regions: ar.AnnotatedRegionSet) -> None:
    plain, annotated = read_dataflow(regions.func), read_dataflow(regions.annotate())
    assert not plain.is_annotated
    assert [node.var for node in annotated.nodes] == [node.var for node in plain.nodes]
    assert [node.kind for node in annotated.nodes] == [node.kind for node in plain.nodes]
    assert annotated.externals == plain.externals
    assert sorted(set(annotated.order_edges)) == sorted(set(plain.order_edges))

    def values(graph: DataflowGraph) -> list[tuple[int, int]]:
        return sorted({(edge.producer, edge.consumer) for edge in graph.edges()})

    assert values(annotated) == values(plain)


def test_the_edges_of_annotated_values_carry_their_chains() -> None:
    graph = read_dataflow(
        function_of(
            """
            b = begin(x, compiler="t")
            v = R.nn.relu(b)
            e = end(v, compiler="t")
            d = begin(e, compiler="u", region="r")
            w = R.add(d, x)
            unused = end(w, compiler="u", region="r")
            return w
            """
        )
    )
    told = [
        (graph.describe(edge), [str(token) for token in graph.chains.tokens[edge.chain]])
        for edges in (*graph.external_out, *graph.out_of)
        for edge in edges
    ]
    assert told == [
        ("'x' -> 'v'", ["compiler_begin for 't'"]),
        ("'x' -> 'w'", []),
        ("'v' -> 'w'", ["compiler_end for 't'", "compiler_begin for 'u' (region 'r')"]),
        ("'w' -> the result", []),
        ("'w' -> none", ["compiler_end for 'u' (region 'r')"]),
    ]


def test_a_function_in_another_form_is_refused() -> None:
    x, v = relax.Var("x", MATRIX), relax.Var("v", MATRIX)
    inner = relax.Call(tvm.ir.Op.get("relax.nn.relu"), [x], ret_ty=MATRIX)
    outer = relax.Call(tvm.ir.Op.get("relax.tanh"), [inner], ret_ty=MATRIX)
    body = typed(relax.SeqExpr([relax.BindingBlock([relax.VarBinding(v, outer)])], v), MATRIX)
    with pytest.raises(
        ar.InvalidModuleError,
        match=r"^outer is not in normal form: (?s:.*)R.nn.relu\(x\) is an operand; apply relax.transform",
    ):
        read_dataflow(relax.Function([x], body, MATRIX), "outer")


def test_a_cast_of_a_call_uses_the_operands_of_the_call() -> None:
    graph = read_dataflow(function_of('m = R.match_cast(R.add(x, y), R.Tensor((2, 4), "float32"))\nreturn m'))
    assert [graph.describe(edge) for edge in graph.edges()] == [
        "'x' -> 'm'",
        "'y' -> 'm'",
        "'m' -> the result",
    ]


def test_a_variable_of_another_function_is_external() -> None:
    graph = read_dataflow(function_of("a = R.nn.relu(x)\nreturn a"))
    body = graph.func.body
    free = read_dataflow(relax.Function([], body, graph.func.ret_ty))
    assert [var.name for var in free.externals] == ["x"]
    assert free.number_of(graph.func.params[0]) is None


def test_the_collector_is_paused_and_comes_back() -> None:
    assert gc.isenabled()
    with paused_collector():
        assert not gc.isenabled()
        with paused_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ar.MalformedAnnotationError), paused_collector():
        raise ar.MalformedAnnotationError("whatever")
    assert gc.isenabled()
