"""The words of reports: each reason has words that agree with its note."""

import pytest
from tvm import relax

import annotated_region as ar
from annotated_region.findings.wording import (
    Loss,
    LossReason,
    words_for_dissolved,
    words_for_loss,
    words_for_refusal,
)
from annotated_region.notes import DeclineReason, DissolveNote, DissolveReason, Refusal
from annotated_region.testing.graphs import module_of
from annotated_region.testing.registry import claim_ops, temporary_registrations

X = relax.Var("x", relax.TensorType((2,), "float32"))

REFUSALS = {
    Refusal(DeclineReason.NEVER_OFFLOADED): (
        "an If, an impure call, a MatchCast or a local function is never offloaded"
    ),
    Refusal(DeclineReason.NOT_AN_OP): "a call to a function, not an op",
    Refusal(DeclineReason.NO_RULE, "relax.sort"): "no rule for relax.sort",
    Refusal(DeclineReason.UNEXPLAINED): "not supported",
    Refusal(DeclineReason.UNEXPLAINED, pattern="a.pair"): "a.pair: not supported",
    Refusal(DeclineReason.ANSWERED, "{axis} of 4"): "{axis} of 4",
    Refusal(DeclineReason.SEVERAL_BLOCKS, "lv", "a.pair"): "a.pair: its op 'lv' is in another block",
    Refusal(DeclineReason.USED_OUTSIDE, "lv", "a.pair"): (
        "a.pair: its intermediate value 'lv' is used outside of it too"
    ),
    Refusal(DeclineReason.UNKNOWN_ATTRIBUTES, "axis", "a.pair"): (
        "a.pair: the module has it as a composite with attributes that no registered pattern computes: axis"
    ),
}


def test_every_reason_has_an_example():
    assert {refusal.reason for refusal in REFUSALS} == set(DeclineReason)
    assert {note.reason for note, _words, _loss in DISSOLVED} == set(DissolveReason)


@pytest.mark.parametrize(("refusal", "words"), REFUSALS.items(), ids=str)
def test_the_words_for_a_refusal(refusal, words):
    assert words_for_refusal(refusal) == words


DISSOLVED = [
    (
        DissolveNote("a", (X,), DissolveReason.LITTLE_WORK, 2.5),
        "less work than the minimum of 2.5",
        "to the host: its region had less work than the minimum of 2.5",
    ),
    (
        DissolveNote("a", (X,), DissolveReason.MANY_REGIONS, 1),
        "smaller than the 1 region that its target may have",
        "to the host: its region was smaller than the 1 region that its target may have",
    ),
    (
        DissolveNote("a", (X,), DissolveReason.REFUSED, answer="two inputs"),
        "refused by its backend: two inputs",
        "to the host: its region was refused by its backend: two inputs",
    ),
]


@pytest.mark.parametrize(("note", "words", "loss"), DISSOLVED)
def test_the_words_for_a_region_that_was_given_back(note, words, loss):
    assert words_for_dissolved(note) == words
    assert words_for_loss(Loss("a", "host", LossReason.DISSOLVED, note)) == loss


def test_a_report_says_which_region_its_backend_refused():
    with temporary_registrations():
        claim_ops("sketch", "relax.nn.relu")
        ar.register_backend("sketch", accepts_region=lambda _region: "it is Sunday")
        report = ar.explain(module_of({"a": ("relax.nn.relu", ("x",))}), ["sketch"], prepare=False)
    (function,) = report.functions
    assert function.dissolved == (("sketch", ("a", "gv"), "refused by its backend: it is Sunday"),)
    assert function.ops[0].lost == {
        "sketch": "to the host: its region was refused by its backend: it is Sunday"
    }
