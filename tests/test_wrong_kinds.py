"""Each parameter of each public function, class and method is handed values of wrong kinds.

The answer is an error of ours that names the argument, what was given and what is wanted. Here, what a
parameter takes is read off the text of its annotation; the package evaluates the types.
"""

import inspect
import re

import pytest
from kits.public_entries import called_with, parameters_of, public_callables, right_arguments

import annotated_region as ar
from annotated_region.testing.registry import claim_ops, temporary_registrations

PROBES = {
    "nothing": (None, {"None"}),
    "a number": (7, {"int", "float", "RegionId"}),
    "a text": ("wrong", {"str", "OpKind"}),
    "a list of objects": ([object()], set()),
    "a dict of objects": ({object(): object()}, set()),
    "an object": (object(), set()),
}
"""Of each wrong value, the words of an annotation that make it a right one."""
ALIASES = {"Options": "Mapping", "Inputs": "Iterable", "Tunable": "Iterable", "NamesOfRegions": "Literal"}
CALLABLES = public_callables()
CASES = [(name, each.name) for name, call in CALLABLES.items() for each in parameters_of(call)]


@pytest.fixture(scope="module")
def right():
    return right_arguments()


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with temporary_registrations():
        claim_ops("t", "relax.add")
        yield


def outer_words(annotation):
    """The names in an annotation that stand in no brackets."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    while "[" in text:
        text, before = re.sub(r"\[[^\[\]]*\]", "", text), text
        assert text != before, annotation
    return set(re.findall(r"\w+", text))


def test_every_callable_has_right_arguments(right):
    assert set(right) == set(CALLABLES)


@pytest.mark.parametrize(("name", "parameter"), CASES, ids=[".".join(case) for case in CASES])
def test_a_wrong_kind_is_an_error_of_ours(right, name, parameter):
    call = CALLABLES[name]
    taken = outer_words(inspect.signature(call).parameters[parameter].annotation)
    wrong = []
    for probe, (value, kinds) in PROBES.items():
        try:
            called_with(call, {**right[name], parameter: value})
        except ar.AnnotatedRegionError as error:
            if not kinds & taken and not (
                parameter in str(error) and re.search(r"\bpass \w|give|choose|neither", str(error))
            ):
                wrong.append(f"{probe}: does not say what to pass: {error}")
        else:
            if not kinds & taken:
                wrong.append(f"{probe}: taken")
    assert not wrong, "\n".join(wrong)
