"""Pins and bans by what bindings come from: nodes of a model, modules with and without their lines."""

import pytest
import tvm
from tvm import relax

import annotated_region as ar
from annotated_region.expr_map import ExprMap
from annotated_region.functions.marking import bindings_in, marked
from annotated_region.origins import span_of
from annotated_region.testing.registry import claim_ops, temporary_registrations

NODES = ("/a/Conv", "/a/Conv", "/b/Relu", "net.0 (model.py:3)", "net.0 (model.py:4)", "lv1")


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        claim_ops("one", "relax.nn.relu", "relax.tanh")
        yield


def model(nodes=NODES):
    """A chain of relu and tanh, whose bindings lv, lv1, ..., gv come from these nodes."""
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    builder, value = relax.BlockBuilder(), x
    with builder.function("main", [x]):
        with builder.dataflow():
            for number in range(len(nodes) - 1):
                value = builder.emit((relax.op.tanh if number % 2 else relax.op.nn.relu)(value))
            value = builder.emit_output(relax.op.tanh(value))
        builder.emit_func_output(value)
    func = builder.get()["main"]
    spans = ExprMap(
        (each, span_of(node) if node else None)
        for each, node in zip(bindings_in(func.body), nodes, strict=True)
    )
    return tvm.IRModule({"main": marked(func, spans)})


def ops(mod, **options):
    return ar.explain(mod, ["one"], prepare=False, **options).functions[0].ops


def on_host(**options):
    return [op.name for op in ops(model(), **options) if op.placed == "host"]


def test_the_report_tells_origins_and_a_key_for_each():
    shown = ops(model())
    assert [op.origin for op in shown] == list(NODES)
    assert [op.key for op in shown] == [
        "/a/Conv#1",
        "/a/Conv#2",
        "/b/Relu",
        "net.0 (model.py:3)",
        "net.0 (model.py:4)",
        "lv1#2",
    ]


def test_each_key_moves_its_op_alone():
    for op in ops(model()):
        assert on_host(pins={op.key: "host"}) == [op.name]
        assert on_host(bans={f"main/{op.key}": ["one"]}) == [op.name]


def test_a_module_is_known_without_its_line_too():
    assert on_host(pins={"net.0#2": "host"}) == ["lv4"]
    assert on_host(pins={"net.0#*": "host"}) == ["lv3", "lv4"]


def test_all_bindings_of_a_node():
    assert on_host(pins={"/a/Conv#*": "host"}) == ["lv", "lv1"]


def test_an_origin_of_several_bindings_is_refused_with_a_name_for_each():
    with pytest.raises(
        ar.PinError,
        match=r"2 bindings are called '/a/Conv' or come from it; pin one of '/a/Conv#1' \(relax.nn.relu\), "
        r"'/a/Conv#2' \(relax.tanh\), or all of them by '/a/Conv#\*'",
    ):
        on_host(pins={"/a/Conv": "host"})


def test_a_binding_called_like_a_node_is_not_taken_for_it():
    with pytest.raises(ar.PinError, match=r"2 bindings are called 'lv1' .* ban one of 'main/lv1' .*'lv1#2'"):
        on_host(bans={"lv1": ["one"]})


def test_a_binding_keeps_its_name_when_others_come_from_it():
    """Preparation makes ``lv1_scaled``, which comes from ``lv1``; the pin means the latter."""
    mod = model(("", "", "lv1", "", "", ""))
    assert [op.name for op in ops(mod, pins={"lv1": "host"}) if op.placed == "host"] == ["lv1"]
    assert [op.key for op in ops(mod)] == ["lv", "lv1", "lv2", "lv3", "lv4", "gv"]


def test_a_name_that_nothing_has_is_refused_with_origins_that_hold_it():
    with pytest.raises(ar.PinError, match=r"'Relu'; name a binding, .* of main, such as '/b/Relu'"):
        on_host(pins={"Relu": "host"})
    with pytest.raises(ar.PinError, match=r"such as '/a/Conv'"):
        on_host(pins={"/a/Conf": "host"})


def test_a_pin_that_no_target_can_follow_says_where_the_op_comes_from():
    claim_ops("two", "relax.exp")
    with pytest.raises(ar.PinError, match=r"main: 'lv2' \(from '/b/Relu'\) is pinned to 'two', which has no"):
        ar.explain(model(), ["one", "two"], prepare=False, pins={"/b/Relu": "two"})


def test_many_candidates_are_counted():
    with pytest.raises(ar.PinError, match=r"40 bindings .*'n#12' \(relax.tanh\), and 28 more, or"):
        ops(model(("n",) * 40), pins={"n": "host"})
