"""A slice of the campaign: random edits, and the properties of each replay."""

from random import Random

from lock_campaign import generated_models, light_models, outcomes

from annotated_region.testing.registry import claim_ops, temporary_registrations


def test_edits_of_generated_graphs_leave_every_op_on_its_target():
    random = Random(7)
    with temporary_registrations():
        claim_ops("sketch", "relax.nn.relu", "relax.add", "relax.sigmoid")
        claim_ops("pencil", "relax.tanh", "relax.add", "relax.multiply")
        found = [each for _what, each in outcomes(generated_models(random), 8, random)]
    assert len(found) == 8
    assert not [each.moved for each in found if each.moved]
    # In graphs as dense as these an edit may cut a region, or let two be one; see docs/locks.md.
    unchanged = sum(each.unchanged for each in found)
    assert sum(len(each.renamed) for each in found) <= 0.06 * unchanged


def test_edits_of_light_models_leave_every_op_in_its_region():
    random = Random(1)
    found = [each for _what, each in outcomes(light_models(random), 5, random)]
    assert len(found) == 5
    assert not [each.moved for each in found if each.moved]
    assert all(each.cost <= 1.02 * each.anew for each in found)
