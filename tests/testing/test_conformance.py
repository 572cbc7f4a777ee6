"""The conformance kit: right backends pass, wrong ones fail on a graph as small as the fault."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax
from tvm.relax.dpl import is_op, wildcard

import annotated_region as ar
from annotated_region.testing.conformance import backend_graphs, check_backend, conformance_test
from annotated_region.testing.conformance_recipes import RECIPES
from annotated_region.testing.registry import claim_ops, temporary_registrations

NAME = "stand_in"


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        yield


def test_what_a_backend_without_rules_claims_is_nothing():
    ar.register_backend(NAME)
    found = check_backend(NAME, examples=3)
    assert found.graphs == 3
    assert str(found) == "stand_in: 3 graphs agree with TVM; placed: nothing"


def test_ops_without_a_recipe_and_ops_that_are_never_taken_are_named():
    claim_ops(NAME, "relax.nn.relu", answer="not today")
    claim_ops(NAME, "relax.einsum")
    found = check_backend(NAME, examples=6)
    assert found.untried == ("relax.einsum",)
    assert found.never_placed == ("relax.nn.relu",)
    assert "no recipe: einsum\ndeclined every time: nn.relu" in str(found)


def test_a_backend_that_cannot_run_here_is_not_checked():
    ar.register_backend(NAME, unavailable=lambda: "install it")
    with pytest.raises(
        ar.BackendUnavailableError, match="stand_in cannot be checked on this machine: install it"
    ):
        check_backend(NAME)


def test_a_backend_without_a_code_generator_fails_with_its_first_op():
    claim_ops("without_generator", "relax.nn.relu")
    with pytest.raises(ar.ConformanceError, match="without_generator fails on this graph") as caught:
        check_backend("without_generator", examples=10)
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


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_makes_graphs_that_tvm_accepts(name):
    ar.register_backend(NAME)
    claim_ops(NAME, name)
    seen = []

    @settings(max_examples=8)
    @given(backend_graphs(NAME, max_ops=3))
    def check(mod):
        relax.analysis.well_formed(mod)
        seen.append(name.removeprefix("relax.") in mod.script())

    check()
    assert any(seen)


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
            check_backend(NAME, examples=5, start=start, recipes={"relax.nn.relu": recipe})
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
