"""The conformance kit: right backends pass, wrong ones fail on a graph as small as the fault."""

import math
import re
from itertools import islice

import numpy as np
import pytest
import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st
from kits.testing import numpy_backend
from tvm import relax
from tvm.relax.dpl import (
    is_call_packed,
    is_const,
    is_op,
    is_tuple,
    is_tuple_get_item,
    make_fused_bias_activation_pattern,
    wildcard,
)

import annotated_region as ar
from annotated_region.testing.conformance import backend_graphs, check_backend, conformance_test
from annotated_region.testing.conformance.check import types_claimed
from annotated_region.testing.conformance.graphs import graphs_of, made, maker_of_pattern, makers_of
from annotated_region.testing.conformance.instances import unknown_in
from annotated_region.testing.conformance.smaller import parts_of, size_of
from annotated_region.testing.conformance.trial import GraphError, Trial, answers_of
from annotated_region.testing.recipes import DTYPES, RECIPES, can_be_made
from annotated_region.testing.registry import claim_ops, temporary_registrations

NAME = "stand_in"


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        yield


def test_what_a_backend_without_rules_claims_is_nothing():
    ar.register_backend(NAME)
    found = check_backend(NAME, examples=3, dtypes=["float32"])
    assert found.graphs == 3
    assert str(found) == "stand_in: 3 graphs agree with TVM; placed: nothing"


def test_ops_without_a_recipe_and_ops_that_are_never_taken_are_named():
    claim_ops(NAME, "relax.nn.relu", answer="not today")
    claim_ops(NAME, "relax.unique")
    found = check_backend(NAME, examples=6, dtypes=["float32"], exempt=["relax.nn.relu", "relax.unique"])
    assert found.untried == ("relax.unique",)
    assert found.never_placed == ("relax.nn.relu",)
    assert "no recipe: unique\ndeclined every time: nn.relu" in str(found)


def test_what_never_ran_is_an_error_that_says_why_and_where():
    claim_ops(NAME, "relax.nn.relu", answer="not today")
    claim_ops(NAME, "relax.unique")
    pattern = is_op("relax.tanh")(is_op("relax.unique")(wildcard()))
    ar.register_pattern(NAME, f"{NAME}.odd", pattern)
    with pytest.raises(ar.ConformanceError) as caught:
        check_backend(NAME, examples=2, dtypes=["float32"])
    told = str(caught.value).splitlines()
    assert re.fullmatch("stand_in: entries that never ran in \\d+ graphs, which agree with TVM:", told[0])
    assert re.search(
        r"the rule for relax.nn.relu, .*registry\.py:\d+: declined \d+ times of \d+: .*not today", told[1]
    )
    assert told[2].endswith("not tried, no recipe for relax.unique")
    assert re.search(
        r"pattern stand_in.odd, .*test_conformance\.py:\d+: not tried, no recipe for relax.unique", told[3]
    )


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (is_op("relax.nn.relu")(is_op("relax.add")(wildcard(), wildcard())), ["add", "nn.relu"]),
        (
            is_op("relax.add")(is_op("relax.nn.conv2d")(wildcard(), is_const()), is_const()),
            ["nn.conv2d", "add"],
        ),
        (is_op("relax.nn.conv2d")(wildcard(), wildcard()).has_attr({"groups": 1}), ["nn.conv2d"]),
        (is_op("relax.concat")(is_tuple([is_op("relax.tanh")(wildcard()), wildcard()])), ["tanh", "concat"]),
        (is_tuple_get_item(is_op("relax.split")(is_op("relax.abs")(wildcard())), 0), ["abs", "split"]),
        (is_op("relax.abs")(is_op("relax.tanh")(wildcard()) | is_op("relax.exp")(wildcard())), None),
        (
            make_fused_bias_activation_pattern("relax.matmul", True, "relax.nn.gelu"),
            ["matmul", "add", "nn.gelu"],
        ),
    ],
    ids=["chain", "constants", "attributes", "tuple", "field", "either", "of TVM"],
)
def test_instances_of_a_pattern_match_it(pattern, expected):
    maker = maker_of_pattern(pattern, RECIPES)
    found = 0
    for mod in made(graphs_of([maker], 1, holding=maker), 20, 0):
        relax.analysis.well_formed(mod)
        values = {each.var: each.value for each in mod["main"].body.blocks[0].bindings}
        matched = any(pattern.extract_matched_expr(value, values) is not None for value in values.values())
        found += matched
        if matched and expected:
            assert ops_in(mod.script()) == [f"R.{name}" for name in expected]
    assert found >= 15


def test_a_value_that_a_pattern_names_twice_is_one_value():
    x = wildcard()
    square = is_op("relax.multiply")(x, is_op("relax.sigmoid")(x))
    maker = maker_of_pattern(square, RECIPES)
    (mod, *_rest) = made(graphs_of([maker], 1, holding=maker), 3, 0)
    inner, outer = (each.value for each in mod["main"].body.blocks[0].bindings)
    assert outer.args[0].same_as(inner.args[0])


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (is_op("relax.unique")(wildcard()), "no recipe for relax.unique"),
        (is_op("relax.add")(is_op("relax.unique")(wildcard()), wildcard()), "no recipe for relax.unique"),
        (is_call_packed("mine"), "which is not an op name"),
    ],
    ids=["op", "inner op", "packed"],
)
def test_patterns_of_which_no_instance_can_be_made_are_told(pattern, reason):
    assert reason in unknown_in(pattern, RECIPES)


def test_a_backend_that_cannot_run_here_is_not_checked():
    ar.register_backend(NAME, unavailable=lambda: "install it")
    with pytest.raises(
        ar.BackendUnavailableError, match="stand_in cannot be checked on this machine: install it"
    ):
        check_backend(NAME)


def test_a_backend_without_a_code_generator_fails_with_its_first_op():
    claim_ops("without_generator", "relax.nn.relu")
    with pytest.raises(ar.ConformanceError, match="without_generator fails on this graph") as caught:
        check_backend("without_generator", examples=10, dtypes=["float32"])
    assert ops_in(caught.value) == ["R.nn.relu"]


def ops_in(error):
    return re.findall(r"= (R\.[\w.]+)\(", str(error))


def test_the_ops_of_patterns_are_tried_too():
    pattern = is_op("relax.nn.relu")(is_op("relax.add")(wildcard(), wildcard()))
    ar.register_pattern(NAME, f"{NAME}.add_relu", pattern)
    seen = []

    @settings(max_examples=20)
    @given(backend_graphs(NAME))
    def check(mod):
        seen.append(mod.script())

    check()
    assert any("R.add(" in text and "R.nn.relu(" in text for text in seen)


def test_a_test_for_pytest_takes_one_line():
    ar.register_backend(NAME)
    conformance_test(NAME, examples=1)()


@pytest.mark.parametrize("name", [name for name in RECIPES if name != "relax.shape_of"])  # see below
def test_every_recipe_makes_graphs_that_tvm_accepts(name):
    ar.register_backend(NAME)
    claim_ops(NAME, name)
    seen = []
    dtype = next(dtype for dtype in DTYPES if can_be_made(name, dtype))

    @settings(max_examples=8)
    @given(backend_graphs(NAME, max_ops=3, dtype=dtype))
    def check(mod):
        relax.analysis.well_formed(mod)
        seen.append(name.removeprefix("relax.") in mod.script())

    check()
    assert any(seen)


def test_a_shape_is_made_where_something_reads_it_alone():
    """No function of the kit returns a bare shape, which no region can."""
    ar.register_backend(NAME)
    pattern = is_op("relax.shape_to_tensor")(is_op("relax.shape_of")(wildcard()))
    maker = maker_of_pattern(pattern, RECIPES)
    for mod in made(graphs_of([maker, *makers_of(["relax.shape_of"], RECIPES, "float32")], 3), 20, 0):
        relax.analysis.well_formed(mod)
        text = mod.script()
        assert text.count("R.shape_of(") <= text.count("R.shape_to_tensor(")
    (mod,) = made(graphs_of([maker], 1, holding=maker), 1, 0)
    assert answers_of([mod])[0] is not None


@pytest.mark.parametrize(("op", "dtype"), [("relax.logical_not", "bool"), ("relax.bitwise_not", "int32")])
def test_what_floats_do_not_have_gets_graphs_of_its_own_in_other_types(op, dtype):
    """One graph is drawn, of float32; all others are those that the kit makes for what did not run."""
    numpy_backend.register(ops=[op])
    found = check_backend(numpy_backend.NAME, examples=1, dtypes=["float32", dtype])
    assert found.placed[op] >= 3


def test_the_same_start_gives_the_same_graphs():
    """And another start gives others; recipes of one's own come first."""
    claim_ops(NAME, "relax.nn.relu")
    made = []

    def recipe(bench):
        made.append(bench.draw(st.integers(1, 9)))
        return relax.op.nn.relu(bench.tensor([made[-1]]))

    runs = []
    for start in (0, 0, 1):
        made.clear()
        with pytest.raises(ar.ConformanceError):
            check_backend(
                NAME, examples=5, start=start, recipes={"relax.nn.relu": recipe}, dtypes=["float32"]
            )
        runs.append(list(made))
    assert runs[0] == runs[1] != runs[2]


def test_values_without_axes_are_read_by_no_recipe():
    """A sum over all axes gives one, and most recipes ask for an axis."""
    claim_ops(NAME, "relax.sum", "relax.reshape", "relax.nn.softmax", "relax.concat")
    ranks = set()

    @settings(max_examples=60)
    @given(backend_graphs(NAME))
    def check(mod):
        ranks.update(int(binding.var.ty.ndim) for binding in mod["main"].body.blocks[0].bindings)

    check()
    assert 0 in ranks


# -- types -----------------------------------------------------------------------------------------


def answering(*dtypes):
    """A rule that claims values of some types."""

    def rule(op):
        found = str(op.out_type.dtype)
        return True if found in dtypes else f"{found}: no"

    return rule


@pytest.mark.parametrize(
    ("op", "dtypes"),
    [
        ("relax.add", ("float32", "float16", "int8", "int64")),
        ("relax.logical_and", ("bool",)),
        ("relax.concat", ("float64", "uint8", "int32", "bool")),
    ],
)
def test_every_type_that_rules_claim_is_tried(op, dtypes):
    """And no other: the generator is asked for regions of these types alone."""
    seen = set()

    def generate(functions, _options, _constants):
        seen.update(str(function.ret_ty.dtype) for function in functions)
        return []

    ar.register_rule("typed", op)(answering(*dtypes))
    tvm_ffi.register_global_func("relax.ext.typed", generate, override=True)
    for dtype in dtypes:
        with pytest.raises(ar.ConformanceError):  # nothing was generated, so nothing runs
            check_backend("typed", examples=8, max_ops=2, dtypes=[dtype])
    assert seen == set(dtypes)
    assert types_claimed("typed", RECIPES, 0) == tuple(
        dtype for dtype in DTYPES if dtype == "float32" or dtype in dtypes
    )


def test_whole_numbers_have_to_be_equal_and_halves_nearly():
    check = Trial(NAME, 1e-4, 1e-4)
    ones = np.ones((2,))
    for dtype, step, equal in (
        ("float32", 1e-5, True), ("float32", 1e-2, False), ("float16", 1e-2, True), ("float16", 1e-1, False),
        ("int32", 1, False), ("bool", -1, False), ("uint8", 0, True),
    ):  # fmt: skip
        (mod,) = made(graphs_of(makers_of(["relax.add"], RECIPES, dtype)[:1], 1, dtype), 1, 0)
        close = check._close(ones.astype(dtype), (ones + step).astype(dtype), mod)
        assert close.all() == equal, (dtype, step)


def test_a_result_of_another_type_is_an_error():
    with pytest.raises(GraphError, match="result 0 has type float64 instead of float32"):
        Trial(NAME, 1.0, 1.0)._compare(0, np.ones(1), np.ones(1, "float32"), None)


def test_both_sides_of_the_edge_are_seen():
    def square_windows(op):
        return True if len(set(op.attrs["pool_size"])) == 1 else "windows that are no squares"

    ar.register_rule("edge", "relax.nn.max_pool2d")(square_windows)
    seen = {True: 0, False: 0}

    @settings(max_examples=40)
    @given(backend_graphs("edge", max_ops=2))
    def check(mod):
        for binding in mod["main"].body.blocks[0].bindings:
            if binding.value.op.name == "relax.nn.max_pool2d":
                seen[len(set(map(int, binding.value.attrs.pool_size))) == 1] += 1

    check()
    assert min(seen.values()) > 0


def test_what_was_declined_and_why_is_told():
    ar.register_rule(NAME, "relax.add")(answering("float16"))
    claim_ops(NAME, "relax.nn.relu", answer="not today")
    found = check_backend(NAME, examples=6, dtypes=["float32"], exempt=["relax.add", "relax.nn.relu"])
    assert found.declined == {"relax.add": ("float32: no",), "relax.nn.relu": ("not today",)}


# -- shrinking -------------------------------------------------------------------------------------


@given(backend_graphs("dnnl", max_ops=5))
def test_parts_are_whole_graphs_of_so_many_ops(mod):
    """All parts; of a graph of more than nine ops, which has thousands, the first forty of a size."""
    total = size_of(mod)
    most = 40 if total > 9 else 2**total
    for size in range(1, total + 1):
        parts = list(islice(parts_of(mod, size), most))
        assert len(parts) == min(math.comb(total, size), most)
        for part in parts:
            relax.analysis.well_formed(part)
            assert size_of(part) == size


def spoiled_by(*needed):
    """A region is wrong if it holds all of these ops."""
    return lambda ops, result: result + 1 if set(needed) <= set(ops) else result


@pytest.mark.parametrize(
    "together",
    [
        ("relax.add",),
        ("relax.add", "relax.nn.relu"),
        ("relax.multiply", "relax.maximum"),
        ("relax.add", "relax.multiply", "relax.negative"),
    ],
    ids="+".join,
)
def test_ops_that_are_wrong_only_together_stay_together_and_alone(together):
    numpy_backend.register(spoiled_by(*together))
    with pytest.raises(ar.ConformanceError, match=r"numpy fails on this graph: result 0 has") as caught:
        check_backend("numpy", examples=60, max_ops=8, dtypes=["float32"])
    assert sorted(f"relax.{name[2:]}" for name in ops_in(caught.value)) == sorted(together)
    relax.analysis.well_formed(caught.value.module)


def test_a_backend_that_is_wrong_in_every_op_fails_on_one_with_one_number():
    numpy_backend.register(lambda _ops, result: -result - 1)
    with pytest.raises(ar.ConformanceError) as caught:
        check_backend("numpy", examples=10, dtypes=["float32"])
    assert len(ops_in(caught.value)) == 1
    assert set(extents_in(caught.value.module)) == {1}


def extents_in(mod):
    return [int(extent) for param in mod["main"].params for extent in param.ty.shape]


def test_a_fault_that_needs_three_rows_keeps_them():
    numpy_backend.register(lambda _ops, result: result + (max(result.shape, default=0) >= 3))
    with pytest.raises(ar.ConformanceError) as caught:
        check_backend("numpy", examples=10, dtypes=["float32"])
    assert len({extent for extent in extents_in(caught.value.module) if extent > 2}) == 1


def test_a_backend_that_is_wrong_for_one_type_fails_in_that_type():
    numpy_backend.register(lambda _ops, result: result + (result.dtype.kind == "i"))
    with pytest.raises(ar.ConformanceError) as caught:
        check_backend("numpy", examples=30)
    assert "int" in str(caught.value)
    assert len(ops_in(caught.value)) == 1


def test_a_backend_that_is_right_passes_in_every_type_that_it_claims():
    numpy_backend.register()
    found = check_backend("numpy", examples=30)
    assert {"float32", "float16", "float64", "int32", "int64", "int8"} <= set(found.dtypes)
    assert set(found.placed) == set(numpy_backend.OPS)
    assert "ops by type: float32 x" in str(found)


def test_what_tvm_gives_in_another_type_than_it_declares_is_no_reference():
    x = relax.Var("x0", relax.TensorType((2, 3, 4), "float16"))
    ones = relax.const(np.ones(3, "float16"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            normal = builder.emit(relax.op.nn.batch_norm(x, ones, ones, ones, ones, axis=1, training=False))
            out = builder.emit_output(relax.TupleGetItem(normal, 0))
        builder.emit_func_output(out)
    assert answers_of([builder.get()]) == [None]


def test_constants_are_of_the_type_that_is_tried():
    graphs = graphs_of(makers_of(["relax.less"], RECIPES, "float64")[:1], 1, "float64")
    for mod in made(graphs, 12, 0):
        call = mod["main"].body.blocks[0].bindings[0].value
        assert {str(arg.ty.dtype) for arg in call.args} == {"float64"}


def test_the_coarsest_type_on_the_way_sets_the_tolerance():
    x = relax.Var("x0", relax.TensorType((4,), "float16"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(builder.emit(relax.op.astype(x, "float32")))
        builder.emit_func_output(out)
    check = Trial(NAME, 1e-4, 1e-4)
    right, near, far = (np.full(4, value, "float32") for value in (0.25, 0.27, 0.35))
    assert check._close(near, right, builder.get()).all()
    assert not check._close(far, right, builder.get()).any()
