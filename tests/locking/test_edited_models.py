"""A slice of the campaign: random edits, and the properties of each replay."""

from random import Random

import pytest
from kits.locking.edited_models import EDITS, edited
from kits.locking.lock_laws import replayed
from lock_campaign import GENERATED_OPS, generated_models, light_models, outcomes

import annotated_region as ar
from annotated_region.testing.generated import layered
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


@pytest.mark.parametrize(("width", "seed"), [(4, 3), (4, 4), (5, 14), (5, 33)])
def test_no_edit_of_a_small_graph_costs_more_than_placing_it_anew(width, seed):
    """All ops that are left may be in the lock, and fit into fewer regions than they did before."""
    random, targets = Random(seed), ["sketch", "pencil"]
    mod, policy = layered(width, 6, seed), ar.Priority(targets)
    costs = []
    with temporary_registrations():
        claim_ops("sketch", "relax.nn.relu", "relax.add", "relax.sigmoid")
        claim_ops("pencil", "relax.tanh", "relax.add", "relax.multiply")
        before = ar.explain(mod, targets, policy, prepare=False)
        for kind in ["remove"] * 3 + list(EDITS):
            change = edited(mod, kind, random, GENERATED_OPS)
            if change is not None:
                found = replayed(before, change.mod, change.touched, targets, policy, ar.RooflineCost())
                costs.append((found.cost / found.anew, change.what))
    assert len(costs) >= 7
    assert max(costs)[0] <= 1.02, max(costs)


def test_edits_of_light_models_leave_every_op_in_its_region():
    random = Random(1)
    found = [each for _what, each in outcomes(light_models(random), 5, random)]
    assert len(found) == 5
    assert not [each.moved for each in found if each.moved]
    assert all(each.cost <= 1.02 * each.anew for each in found)
