"""Matches of patterns: matching near a node finds what matching in the whole function finds."""

import pytest
import tvm
from hypothesis import given, settings
from tvm import relax
from tvm.relax.dpl import (
    AttrPattern,
    is_const,
    is_op,
    is_tuple,
    is_tuple_get_item,
    wildcard,
)

from annotated_region.dataflow.walk import read_dataflow
from annotated_region.ids import NodeId
from annotated_region.targets import pattern_parts
from annotated_region.targets.matching import Matcher
from annotated_region.targets.rules import Pattern
from annotated_region.testing.strategies import functions


def relu(x):
    return is_op("relax.nn.relu")(x)


def add(x, y):
    return is_op("relax.add")(x, y)


ANY = wildcard()
PATTERNS = {
    "one": relu(ANY),
    "chain": relu(relu(relu(relu(ANY)))),
    "either": add(relu(ANY) | add(ANY, ANY), ANY),
    "constant": add(ANY, is_const()) | is_op("relax.multiply")(ANY, is_const()),
    "typed": relu(add(ANY, ANY).has_dtype("float32")),
    "part": add(is_tuple_get_item(is_op("relax.split")(ANY), 0), ANY) | relu(is_tuple_get_item(ANY, 1)),
    "joined": is_op("relax.concat")(is_tuple([relu(ANY), ANY])),
    "not": add(~relu(ANY), ANY),
    "attributes": is_op("relax.concat")(ANY).has_attr({"axis": 0}),
    "shared": add(relu(ANY), relu(ANY)),
}


class FarSighted(Matcher):
    """Sees the whole function from everywhere."""

    def values_near(self, root, depths):
        return self.values


def found(func, whole):
    matcher = (FarSighted if whole else Matcher)(read_dataflow(func))
    patterns = [Pattern(name, pattern) for name, pattern in PATTERNS.items()]
    return [
        (match.pattern.name, match.root, match.nodes, match.refusal) for match in matcher.matches(patterns)
    ]


@settings(deadline=None)
@given(functions())
def test_near_values_are_enough(func):
    assert found(func, whole=False) == found(func, whole=True)


def test_names_and_bound_constants_on_the_way_are_seen_through():
    x = relax.Var("x", relax.TensorType((2,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for _ in range(4):
                value = builder.emit(relax.op.nn.relu(value))
                for name in ("again", "and_again"):
                    value = builder.emit(value, name_hint=name)
            one = builder.emit(relax.const(1.0, "float32"))
            out = builder.emit_output(builder.emit(relax.op.add(value, one)))
        builder.emit_func_output(out)
    func = builder.get()["main"]
    names = [name for name, *_ in found(func, whole=False)]
    assert found(func, whole=False) == found(func, whole=True)
    assert (names.count("chain"), names.count("constant")) == (1, 1)


@pytest.mark.parametrize(
    ("pattern", "depth"),
    [
        (ANY, 1),
        (relu(ANY), 2),
        (PATTERNS["chain"], 5),
        (add(relu(ANY) | ANY, ANY), 4),
        (PATTERNS["attributes"], 3),
    ],
)
def test_a_pattern_is_as_deep_as_its_longest_chain(pattern, depth):
    assert pattern_parts.depth_of_pattern(pattern) == depth


def test_a_pattern_of_many_equal_parts_is_measured_once_each():
    pattern = relu(ANY)
    for _ in range(60):
        pattern = add(pattern, pattern)
    assert pattern_parts.depth_of_pattern(pattern) == 62


def test_a_kind_of_pattern_that_is_not_known_sees_the_whole_function():
    body = tvm.relax.dpl.FunctionPattern([ANY], ANY)
    assert pattern_parts.depth_of_pattern(relu(body)) is None
    assert isinstance(PATTERNS["attributes"], AttrPattern)
    x = relax.Var("x", relax.TensorType((2,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.nn.relu(x)))
    matcher = Matcher(read_dataflow(builder.get()["main"]))
    assert matcher.values_near(NodeId(0), [None, 2]).same_as(matcher.values)
