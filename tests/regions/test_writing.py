"""Annotations written into a function: round trips, the same values, and text that parses back."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from kits.regions import region_oracles as oracle
from kits.regions.region_tables import function_of
from kits.testing.numpy_interpreter import flat, inputs_of, run
from tvm import relax

import annotated_region as ar
from annotated_region.host_targets import UNOPTIMIZED
from annotated_region.ids import NodeId
from annotated_region.regions.node_region import NodeRegion
from annotated_region.regions.writing import write_annotations
from annotated_region.testing import Ingredients, annotated_functions, region_sets

PARSED = 60 if settings.get_current_profile_name() == "campaign" else 8
"""Parsing takes a hundred times as long as everything else here."""


def rewritten(regions: ar.AnnotatedRegionSet) -> relax.Function:
    """The annotations written anew, whatever the set remembers of the text that it was read from."""
    order = sorted(regions.node_regions.values(), key=lambda member: member.sort_key)
    return write_annotations(regions.dataflow, order)


# -- round trips ---------------------------------------------------------------------------------------


@pytest.mark.campaign
@given(region_sets())
def test_what_is_written_is_read_again(regions: ar.AnnotatedRegionSet) -> None:
    read = ar.AnnotatedRegionSet(regions.annotate())
    assert read == regions
    assert list(read) == list(regions)
    assert read.overlaps() == regions.overlaps()
    assert read.targets == regions.targets
    tvm.ir.assert_structural_equal(read.func, regions.func)


@pytest.mark.campaign
@given(annotated_functions())
def test_what_was_read_is_written_as_it_was(func: relax.Function) -> None:
    regions = ar.AnnotatedRegionSet(func)
    assert regions.annotate() is func
    again = rewritten(regions)
    tvm.ir.assert_structural_equal(again, func)
    assert again.script() == func.script()


@pytest.mark.campaign
@given(region_sets())
def test_the_text_means_what_the_definition_of_annotations_says(regions: ar.AnnotatedRegionSet) -> None:
    told = oracle.read(regions.annotate())
    plain = {(target, nodes) for target, label, nodes in told if "#" not in label}
    marks = {(target, nodes) for target, label, nodes in told if "#" in label}
    held = {(region.target, frozenset(region.nodes)) for region in regions}
    assert plain <= held <= plain | marks


@pytest.mark.campaign
@given(region_sets())
def test_an_annotated_function_is_well_formed_and_otherwise_the_same(regions: ar.AnnotatedRegionSet) -> None:
    func, annotated = regions.func, regions.annotate()
    relax.analysis.well_formed(tvm.IRModule({"main": annotated}))
    assert list(annotated.params) == list(func.params)
    tvm.ir.assert_structural_equal(annotated.ret_ty, func.ret_ty)
    assert annotated.is_pure == func.is_pure
    before, after = oracle.listing_of(func), oracle.listing_of(annotated)
    assert list(after.value) == list(before.value)


@pytest.mark.campaign
@given(region_sets(), st.booleans(), st.integers(1, 3))
def test_an_annotated_function_computes_the_same(
    regions: ar.AnnotatedRegionSet, flag: bool, rows: int
) -> None:
    func = regions.func
    is_symbolic = not isinstance(func.params[0].ty.shape.values[0], tvm.tirx.IntImm)
    arguments = inputs_of(func, rows=rows if is_symbolic else 2, flag=flag)
    expected = flat(run(func, arguments))
    computed = flat(run(regions.annotate(), arguments))
    assert len(computed) == len(expected)
    for left, right in zip(computed, expected, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.campaign
@settings(max_examples=PARSED)
@given(annotated_functions())
def test_the_printed_text_parses_back(func: relax.Function) -> None:
    mod = tvm.IRModule({"main": func})
    parsed = tvm.script.from_source(mod.script(show_meta=True))
    tvm.ir.assert_structural_equal(parsed, mod)
    here, there = ar.AnnotatedRegionSet(func), ar.AnnotatedRegionSet(parsed["main"])
    shapes = [(region.target, len(region.nodes), len(region.composites), region.label) for region in here]
    assert [
        (region.target, len(region.nodes), len(region.composites), region.label) for region in there
    ] == shapes


def test_a_compiled_annotated_function_computes_the_same() -> None:
    func = function_of(
        """
        with R.dataflow():
            s = R.split(x, 2, axis=1)
            a = s[0]
            b = R.nn.relu(a)
            k = R.concat((b, a), axis=1)
            z = R.zeros(R.shape([2, 4]), dtype="float32")
            d = R.add(k, z)
            R.output(k, d)
        return d, k, d
        """
    )
    by_name = {binding.var.name: binding.var for binding in func.body.blocks[0].bindings}
    claims = {
        "t": [(by_name["s"], by_name["a"]), (by_name["b"], by_name["k"]), by_name["z"]],
        "u": [(by_name["k"], by_name["z"], by_name["d"])],
    }
    annotated = ar.AnnotatedRegionSet.from_claims(func, claims).annotate()
    assert "compiler_begin" in annotated.script()
    arguments = inputs_of(func)
    results = []
    for each in (func, annotated):
        executable = tvm.compile(tvm.IRModule({"main": each}), UNOPTIMIZED)
        machine = relax.VirtualMachine(executable, tvm.cpu())
        results.append(machine["main"](*[tvm.runtime.tensor(argument) for argument in arguments]))
    for left, right, expected in zip(*results, flat(run(func, arguments)), strict=True):
        np.testing.assert_array_equal(left.numpy(), right.numpy())
        np.testing.assert_allclose(left.numpy(), expected, rtol=1e-6)


# -- other annotation ops ------------------------------------------------------------------------------

ENTER, LEAVE = "relax.annotation.test_enter", "relax.annotation.test_leave"


@pytest.fixture(scope="module", autouse=True)
def _custom_ops() -> None:
    for name in (ENTER, LEAVE):
        if name not in tvm.ir.Op.list_op_names():
            tvm.ir._ffi_api.RegisterOp(name, "an annotation of somebody else's")
            tvm.ir.register_op_attr(name, "FInferType", lambda call, _context: call.args[0].ty)
            tvm.ir.register_op_attr(name, "FPurity", True)
    return


@given(region_sets(Ingredients(nodes=8)))
def test_other_annotation_ops_are_written_read_stripped_and_certified(regions: ar.AnnotatedRegionSet) -> None:
    claimed = {
        region.target: [each.nodes for each in regions if each.target == region.target] for region in regions
    }
    mine = ar.AnnotatedRegionSet.from_claims(regions.func, claimed, begin=ENTER, end=LEAVE)
    written = mine.annotate()
    assert "compiler_" not in written.script()
    assert ("test_" in written.script()) == bool(claimed)
    read = ar.AnnotatedRegionSet(written, begin=ENTER, end=LEAVE)
    assert list(read) == list(mine)
    tvm.ir.assert_structural_equal(read.func, regions.func)
    certificate = certificate_of(mine)
    if certificate is not None:
        ar.check_certificate(written, mine, certificate, annotations=(ENTER, LEAVE))
    # To the default pair these are ops like any other.
    assert len(ar.AnnotatedRegionSet(written)) == 0


def certificate_of(regions: ar.AnnotatedRegionSet) -> ar.Certificate | None:
    try:
        return regions.verify()
    except ar.RegionCycleError:
        return None


# -- where annotations stand -----------------------------------------------------------------------------


def body_of(func: relax.Function) -> list[str]:
    """The lines of a function, without types."""
    lines = [line.strip() for line in func.script().splitlines()]
    start = next(index for index, line in enumerate(lines) if line.startswith("def "))
    shortened = []
    for line in lines[start + 1 :]:
        name, equals, value = line.partition(" = ")
        text = f"{name.partition(':')[0]}{equals}{value}" if equals else line
        shortened.append(text.replace("R.annotation.compiler_", ""))
    return shortened


def names(values: tuple[relax.Var, ...]) -> list[str]:
    return [var.name for var in values]


def claimed(func: relax.Function, claims: dict[str, list[str]]) -> ar.AnnotatedRegionSet:
    """Claims by names: blanks between the nodes of one claim."""
    known = {var.name: var for var in oracle.listing_of(func).value}
    return ar.AnnotatedRegionSet.from_claims(
        func,
        {
            target: [tuple(known[name] for name in each.split()) for each in offered]
            for target, offered in claims.items()
        },
    )


def test_ends_stand_behind_the_producer_and_begins_before_the_first_consumer() -> None:
    func = function_of(
        """
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.tanh(a)
            k = R.add(b, a)
            R.output(k)
        return k
        """
    )
    assert body_of(claimed(func, {"t": ["a"], "u": ["k"]}).annotate()) == [
        "with R.dataflow():",
        'x_begin = begin(x, compiler="t")',
        "a = R.nn.relu(x_begin)",
        'a_end = end(a, compiler="t")',
        "b = R.tanh(a_end)",
        'b_begin = begin(b, compiler="u")',
        'a_begin = begin(a_end, compiler="u")',
        "k = R.add(b_begin, a_begin)",
        'k_end = end(k, compiler="u")',
        "R.output(k, k_end)",
        "return k_end",
    ]


def test_a_region_without_inputs_and_outputs_is_marked_by_an_end_that_nobody_uses() -> None:
    func = function_of('z = R.zeros(R.shape([2, 4]), dtype="float32")\nreturn x')
    regions = claimed(func, {"t": ["z"]})
    assert body_of(regions.annotate()) == [
        'z = R.zeros(R.shape([2, 4]), dtype="float32")',
        'z_end = end(z, compiler="t")',
        "return x",
    ]
    (region,) = ar.AnnotatedRegionSet(regions.annotate())
    assert region.inputs == region.outputs == ()


def test_labels_only_where_they_are_needed() -> None:
    func = function_of("a = R.nn.relu(x)\nb = R.tanh(a)\nk = R.negative(b)\nd = R.nn.relu(y)\nreturn k, d")
    labels = [region.label for region in ar.AnnotatedRegionSet(claimed(func, {"t": ["a", "b"]}).annotate())]
    assert labels == ["", ""]
    overlapping = ar.AnnotatedRegionSet(claimed(func, {"t": ["a b", "b k"]}).annotate())
    assert [region.label for region in overlapping] == ["r0", "r1"]
    in_pieces = ar.AnnotatedRegionSet(claimed(func, {"t": ["a d"]}).annotate())
    assert [region.label for region in in_pieces] == ["r0"]
    across_targets = ar.AnnotatedRegionSet(claimed(func, {"t": ["a b"], "u": ["b k"]}).annotate())
    assert [region.label for region in across_targets] == ["", ""]


def test_a_label_that_a_user_wrote_stays_and_is_not_given_to_another_region() -> None:
    func = function_of(
        """
        b = begin(x, compiler="t", region="r0")
        v = R.nn.relu(b)
        e = end(v, compiler="t", region="r0")
        w = R.tanh(e)
        u = R.negative(w)
        return u
        """
    )
    known = {var.name: var for var in oracle.listing_of(func).value}
    regions = ar.AnnotatedRegionSet.from_claims(
        func, {"t": [(known["v"], known["w"]), (known["w"], known["u"])]}
    )
    read = ar.AnnotatedRegionSet(regions.annotate())
    assert [region.label for region in read] == ["r0", "r1", "r2"]


def test_two_parts_of_a_labelled_region_get_two_labels() -> None:
    func = function_of("a = R.nn.relu(x)\nb = R.tanh(y)\nk = R.add(a, b)\nreturn k")
    regions = ar.AnnotatedRegionSet(func)
    parts = regions.replaced_by([NodeRegion("t", (NodeId(node),), label="mine") for node in range(2)])
    read = ar.AnnotatedRegionSet(parts.annotate())
    assert read == parts
    assert [region.label for region in read] == ["mine", "r0"]


# -- stripping ----------------------------------------------------------------------------------------


def test_an_annotation_that_carries_a_value_out_of_its_block_leaves_a_name_behind() -> None:
    func = function_of(
        """
        with R.dataflow():
            b = begin(x, compiler="t")
            a = R.nn.relu(b)
            out = end(a, compiler="t")
            R.output(out)
        d = begin(out, compiler="u")
        k = R.tanh(d)
        e = end(k, compiler="u")
        return e, out
        """
    )
    regions = ar.AnnotatedRegionSet(func)
    assert [names(region.nodes) for region in regions] == [["a", "out"], ["k"]]
    assert [names(region.inputs) for region in regions] == [["x"], ["out"]]
    plain = regions.func
    relax.analysis.well_formed(tvm.IRModule({"main": plain}))
    assert body_of(plain) == [
        "with R.dataflow():",
        "a = R.nn.relu(x)",
        "out = a",
        "R.output(out)",
        "k = R.tanh(out)",
        "return (k, out)",
    ]
    assert ar.AnnotatedRegionSet(rewritten(regions)) == regions


def test_a_block_of_annotations_alone_disappears() -> None:
    func = function_of(
        """
        with R.dataflow():
            b = begin(x, compiler="t")
            R.output(b)
        a = R.nn.relu(b)
        e = end(a, compiler="t")
        return e
        """
    )
    plain = ar.AnnotatedRegionSet(func).func
    assert body_of(plain) == ["a = R.nn.relu(x)", "return a"]
    relax.analysis.well_formed(tvm.IRModule({"main": plain}))


def test_a_function_without_annotations_is_itself() -> None:
    func = function_of("a = R.nn.relu(x)\nreturn a")
    assert ar.AnnotatedRegionSet(func).func is func
