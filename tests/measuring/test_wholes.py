"""The parts in which a placement is timed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from kits import toy_backend
from tvm import relax

from annotated_region.costs import HOST
from annotated_region.dataflow.walk import read_dataflow
from annotated_region.ids import NodeId
from annotated_region.measuring.timing import Timed
from annotated_region.measuring.wholes import WholePlacement
from annotated_region.regions.node_region import NodeRegion
from annotated_region.testing.graphs import module_of
from annotated_region.testing.registry import temporary_registrations

GRAPH = {
    "a": ("relax.exp", ("x",)),
    "b": ("relax.tanh", ("a",)),
    "c": ("relax.nn.relu", ("b",)),
    "d": ("relax.sigmoid", ("c",)),
    "e": ("relax.add", ("d", "b")),
    "f": ("relax.negative", ("a",)),
}


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        toy_backend.register()
        yield


def _parts(*regions: Sequence[int]) -> list[tuple[str, list[str]]]:
    """The target and the ops of each part of a placement, in order."""
    graph = read_dataflow(module_of(GRAPH)["main"])
    members = [NodeRegion("toy", tuple(map(NodeId, nodes))) for nodes in regions]
    whole = WholePlacement.of(graph, members)
    return [(whole.parts[key].target, _ops(whole.parts[key])) for key in whole.order]


def _ops(part: Timed) -> list[str]:
    found: list[str] = []

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, relax.Call):
            found.append(expr.op.name.removeprefix("relax."))

    relax.analysis.post_order_visit(part.func, visit)
    return sorted(found)


def test_the_host_alone_is_one_part():
    assert _parts() == [(HOST, ["add", "exp", "negative", "nn.relu", "sigmoid", "tanh"])]


def _sum_of_halves() -> relax.Function:
    x = relax.Var("x", relax.TensorType((2, 4), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            halves = builder.emit(relax.op.split(x, 2, 1))
            kept = builder.emit(relax.op.nn.relu(builder.emit(relax.TupleGetItem(halves, 0))))
            added = builder.emit(relax.op.add(kept, builder.emit(relax.TupleGetItem(halves, 1))))
            result = builder.emit_output(relax.Tuple([added]))
        builder.emit_func_output(result)
    return builder.get()["main"]


def test_fields_of_a_tuple_stay_inside_of_what_the_host_computes():
    func = _sum_of_halves()
    graph = read_dataflow(func)
    (part,) = WholePlacement.of(graph, []).parts.values()
    assert _ops(part) == ["add", "nn.relu", "split"]
    assert [param.ty for param in part.func.params] == [func.params[0].ty]
    assert part.func.ret_ty == relax.TensorType((2, 2), "float32")
    relu = next(number for number, node in enumerate(graph.nodes) if "relu" in str(node.value))
    whole = WholePlacement.of(graph, [NodeRegion("toy", (NodeId(relu),))])
    assert [(whole.parts[key].target, _ops(whole.parts[key])) for key in whole.order] == [
        (HOST, ["split"]),
        ("toy", ["nn.relu"]),
        (HOST, ["add"]),
    ]


def test_what_the_host_computes_between_regions_is_one_part():
    assert _parts([2]) == [
        (HOST, ["exp", "tanh"]),
        ("toy", ["nn.relu"]),
        (HOST, ["add", "negative", "sigmoid"]),
    ]
    assert _parts([0, 1], [4]) == [
        ("toy", ["exp", "tanh"]),
        (HOST, ["nn.relu", "sigmoid"]),
        ("toy", ["add"]),
        (HOST, ["negative"]),
    ]


def test_parts_run_in_the_order_of_the_data_and_not_of_the_regions():
    assert [target for target, _ops in _parts([4], [0])] == ["toy", HOST, "toy", HOST]


def test_a_comparison_of_equal_placements_has_one_key():
    graph = read_dataflow(module_of(GRAPH)["main"])
    one, other = (WholePlacement.of(graph, [NodeRegion("toy", (NodeId(2),))]) for _ in range(2))
    assert one.order == other.order


def test_a_part_of_a_placement_has_the_ops_of_some_nodes():
    graph = read_dataflow(module_of(GRAPH)["main"])
    nodes = [NodeId(number) for number in (1, 2, 3)]
    whole = WholePlacement.of(graph, [NodeRegion("toy", (NodeId(2),))], nodes)
    assert [(whole.parts[key].target, _ops(whole.parts[key])) for key in whole.order] == [
        (HOST, ["tanh"]),
        ("toy", ["nn.relu"]),
        (HOST, ["sigmoid"]),
    ]
