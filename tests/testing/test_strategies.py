"""The strategies: well-formed functions of every structure, claims that overlap, and TVM runs them all."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
import tvm
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from kits.host_machines import host_machine
from kits.regions import region_oracles as oracle
from kits.testing.numpy_interpreter import flat, inputs_of, run
from tvm import relax

import annotated_region as ar
from annotated_region import testing
from annotated_region.testing import TARGETS, Ingredients, claimable, claims, functions, modules, region_sets

COMPILED = 50 if settings.get_current_profile_name() == "campaign" else 4
PARSED = 60 if settings.get_current_profile_name() == "campaign" else 8


@pytest.mark.campaign
@given(functions())
def test_functions_are_well_formed_and_no_larger_than_asked(func: relax.Function) -> None:
    relax.analysis.well_formed(tvm.IRModule({"main": func}))
    listing = oracle.listing_of(func)
    inner = sum(isinstance(value, relax.Function) for value in listing.value.values())
    assert len(listing.value) - inner <= Ingredients().nodes


@pytest.mark.campaign
@settings(max_examples=PARSED)
@given(modules())
def test_modules_print_and_parse(mod: tvm.IRModule) -> None:
    relax.analysis.well_formed(mod)
    tvm.ir.assert_structural_equal(tvm.script.from_source(mod.script(show_meta=True)), mod)


# TVM's own virtual machine may crash on conditionals: it plans the memory of branches wrongly.
RUNNABLE = Ingredients(nodes=10, branches=0, local_functions=False, arrays=True)


@pytest.mark.campaign
@settings(max_examples=COMPILED)
@given(functions(RUNNABLE))
def test_functions_run_in_tvm_and_compute_what_the_interpreter_says(func: relax.Function) -> None:
    machine = host_machine(tvm.IRModule({"main": func}))
    arguments = inputs_of(func)
    computed = machine["main"](*(as_tvm(argument) for argument in arguments))
    for left, right in zip(leaves(computed), flat(run(func, arguments)), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-5)


def as_tvm(argument: object) -> object:
    if isinstance(argument, tuple):
        return tvm.runtime.convert([as_tvm(part) for part in argument])
    return tvm.runtime.tensor(np.asarray(argument))


def leaves(value: object) -> list[np.ndarray]:
    if isinstance(value, tvm.runtime.Tensor):
        return [value.numpy()]
    return [leaf for part in value for leaf in leaves(part)]


def has(wanted: Callable[[relax.Expr], bool]) -> Callable[[relax.Function], bool]:
    return lambda func: any(wanted(value) for value in oracle.listing_of(func).value.values())


def calls(name: str) -> Callable[[relax.Function], bool]:
    return has(lambda value: isinstance(value, tvm.ir.Call) and getattr(value.op, "name", "") == name)


def nested_conditional(func: relax.Function) -> bool:
    return "        if " in func.script().replace("    if ", "", 1) and has(
        lambda value: (
            isinstance(value, relax.If)
            and any(
                isinstance(binding.value, relax.If)
                for branch in (value.true_branch, value.false_branch)
                for block in branch.blocks
                for binding in block.bindings
            )
        )
    )(func)


def defines_a_shape_variable(func: relax.Function) -> bool:
    known = {var for param in func.params for var in relax.analysis.tir_vars_in_type(param.ty)}
    casts = oracle.listing_of(func).casts
    return any(set(relax.analysis.tir_vars_in_type(var.ty)) - known for var in casts)


def repeats_a_result(func: relax.Function) -> bool:
    result = func.body.body
    fields = list(result.fields) if isinstance(result, relax.Tuple) else []
    return len(set(fields)) < len(fields)


STRUCTURES: dict[str, Callable[[relax.Function], bool]] = {
    "concat": calls("relax.concat"),
    "split": calls("relax.split"),
    "zeros": calls("relax.zeros"),
    "zeros_like": calls("relax.zeros_like"),
    "reshape": calls("relax.reshape"),
    "assert_op": calls("relax.assert_op"),
    "a pure packed call": calls("relax.call_pure_packed"),
    "a packed call": has(lambda value: isinstance(getattr(value, "op", None), relax.ExternFunc)),
    "a conditional": has(lambda value: isinstance(value, relax.If)),
    "a conditional in a conditional": nested_conditional,
    "a local function": has(lambda value: isinstance(value, relax.Function)),
    "a bound constant": has(lambda value: isinstance(value, tvm.ir.GenericConst)),
    "a bound shape": has(lambda value: isinstance(value, relax.ShapeExpr)),
    "another name": has(lambda value: isinstance(value, tvm.ir.Var)),
    "a tuple of a tuple": has(
        lambda value: (
            isinstance(value, relax.Tuple) and any(isinstance(part, relax.Tuple) for part in value.fields)
        )
    ),
    "a cast that defines a shape variable": defines_a_shape_variable,
    "three blocks": lambda func: len(func.body.blocks) >= 3,
    "symbolic rows": lambda func: isinstance(func.params[0].ty.shape.values[0], tvm.ir.Var),
    "a result that stands twice": repeats_a_result,
    "dead code": lambda func: not {*oracle.listing_of(func).value} <= oracle.listing_of(func).used,
    "a parameter handed back": lambda func: func.body.body in list(func.params),
}


@pytest.mark.parametrize("structure", STRUCTURES)
def test_every_structure_occurs(structure: str) -> None:
    found = find(
        functions(),
        STRUCTURES[structure],
        settings=settings(max_examples=2000, phases=[Phase.generate], derandomize=True, database=None),
    )
    assert STRUCTURES[structure](found)


@given(functions(Ingredients(branches=0, effects=False, local_functions=False, symbolic=False, casts=False)))
def test_what_is_not_wanted_does_not_occur(func: relax.Function) -> None:
    assert func.is_pure
    assert not relax.analysis.free_symbolic_vars(func)
    listing = oracle.listing_of(func)
    assert not listing.casts
    assert not any(isinstance(value, relax.If | relax.Function) for value in listing.value.values())


@given(functions().flatmap(lambda func: st.tuples(st.just(func), claims(func, overlapping=False))))
def test_claims_that_shall_not_overlap_do_not(drawn: tuple[relax.Function, dict[str, list[object]]]) -> None:
    func, offered = drawn
    claimed = [
        var
        for each in offered.values()
        for claim in each
        for var in (
            claim.nodes
            if isinstance(claim, ar.Composite)
            else [claim]
            if isinstance(claim, relax.Var)
            else claim
        )
    ]
    assert len(set(claimed)) == len(claimed)
    assert set(offered) <= set(TARGETS)
    assert {*claimed} <= {var for block in claimable(func) for var in block}


OVERLAPS: dict[str, Callable[[ar.AnnotatedRegionSet], bool]] = {
    "two targets": lambda regions: any(a.target != b.target for a, b, _shared in regions.overlaps()),
    "one target": lambda regions: any(a.target == b.target for a, b, _shared in regions.overlaps()),
    "without nesting": lambda regions: any(
        not set(a.nodes) <= set(b.nodes) and not set(b.nodes) <= set(a.nodes)
        for a, b, _shared in regions.overlaps()
    ),
    "a composite in a region": lambda regions: any(
        region.composites and len(region.nodes) > len(region.composites[0].nodes) for region in regions
    ),
}


@pytest.mark.parametrize("overlap", OVERLAPS)
def test_every_overlap_occurs(overlap: str) -> None:
    found = find(
        region_sets(),
        OVERLAPS[overlap],
        settings=settings(max_examples=2000, phases=[Phase.generate], derandomize=True, database=None),
    )
    assert OVERLAPS[overlap](found)


def test_functions_shrink_to_something_small() -> None:
    small = find(
        functions(),
        calls("relax.split"),
        settings=settings(max_examples=500, derandomize=True, database=None),
    )
    assert len(oracle.listing_of(small).value) <= 2


def test_the_package_does_not_need_hypothesis() -> None:
    script = (
        "import sys, annotated_region, annotated_region.testing; "
        "assert 'hypothesis' not in sys.modules; "
        "from annotated_region.testing import functions; "
        "assert 'hypothesis' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_public_names_of_the_testing_package() -> None:
    assert set(testing.__all__) <= set(dir(testing))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = testing.nothing
