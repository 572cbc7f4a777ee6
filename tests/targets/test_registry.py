"""Rules, patterns and backends: registration, look-up, and errors."""

import pytest
from tvm.relax.dpl import is_op, wildcard

import annotated_region as ar
from annotated_region.targets.backend import Backend, backend_of
from annotated_region.targets.op_view import OpView
from annotated_region.targets.rules import patterns_of, rule_of, rules_of
from annotated_region.testing.registry import claim_ops, temporary_registrations


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        yield


def test_a_rule_alone_makes_a_target_known():
    @ar.register_rule("sketch", "relax.add")
    def add(_op):
        return True

    assert "sketch" in ar.known_targets()
    assert rule_of("sketch", "relax.add") is add
    assert rule_of("sketch", "relax.subtract") is None
    assert rule_of("nobody", "relax.add") is None


def test_the_last_rule_wins():
    claim_ops("sketch", "relax.add", answer=False)
    claim_ops("sketch", "relax.add", answer=True)
    rule = rule_of("sketch", "relax.add")
    assert rule is not None
    assert rule(OpView("relax.add", {}, (), None)) is True
    assert list(rules_of("sketch")) == ["relax.add"]


def test_variants_of_a_pattern_share_its_name():
    first = is_op("relax.nn.relu")(wildcard())
    second = is_op("relax.tanh")(wildcard())
    ar.register_pattern("sketch", "sketch.activation", first)
    ar.register_pattern("sketch", "sketch.activation", second)
    ar.register_pattern("sketch", "sketch.activation", first, check=lambda _context: False)
    assert [pattern.name for pattern in patterns_of("sketch")] == ["sketch.activation"] * 2
    assert [pattern.check is None for pattern in patterns_of("sketch")] == [True, False]


def test_a_backend_can_be_described_by_keywords_and_changed():
    ar.register_backend("sketch", bind_constants=False)
    ar.register_backend(backend_of("sketch"), regions="connected")
    described = backend_of("sketch")
    assert (described.bind_constants, described.regions) == (False, "connected")


def test_an_unknown_target_is_an_error_that_lists_the_known_ones():
    with pytest.raises(
        ar.UnknownTargetError, match=r"unknown target 'nobody'; known targets: .*'dnnl'.*register_rule"
    ):
        backend_of("nobody")


def test_registrations_are_undone():
    with temporary_registrations():
        claim_ops("passing", "relax.add")
        assert "passing" in ar.known_targets()
    assert "passing" not in ar.known_targets()


def test_a_backend_that_is_looked_up_again_is_not_validated_again(monkeypatch):
    """Passes look backends up for each region: thousands of times for a large module."""
    claim_ops("looked_up", "relax.add")
    first = backend_of("looked_up")
    validated = []
    monkeypatch.setattr(Backend, "__post_init__", lambda self: validated.append(self.name))
    assert backend_of("looked_up") == first
    assert validated == []
