"""What a policy answers is checked against the claims, and its faults are named."""

import numpy as np
import pytest

import annotated_region as ar
from annotated_region.costs.roofline import CPU
from annotated_region.ids import NodeId
from annotated_region.regions.node_region import ClaimedUnit, NodeRegion
from annotated_region.testing.graphs import SIX_OPS, module_of
from annotated_region.testing.registry import claim_ops, temporary_registrations


def answering(make):
    class Strange:
        def resolve(self, regions, _pinned):
            return make(list(regions.node_regions.values()))

    return Strange()


def of(*nodes, target="sketch", units=()):
    return NodeRegion(target, tuple(map(NodeId, nodes)), units)


@pytest.fixture(autouse=True)
def _targets():
    with temporary_registrations():
        claim_ops("sketch", "relax.add", "relax.nn.relu")
        claim_ops("pencil", "relax.add")
        yield


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda _claims: None, "answered None; return an annotated_region.Resolution"),
        (lambda _claims: ar.Resolution([of()]), "answered a region of 'sketch' without ops; leave it out"),
        (lambda _claims: ar.Resolution([of(99)]), "gives node 99 to 'sketch', which does not claim it"),
        (
            lambda claims: ar.Resolution([of(*claims[0].nodes, target="npu")]),
            "to 'npu', which does not claim it; choose among the claims",
        ),
        (
            lambda claims: ar.Resolution([claims[0], claims[0]]),
            "of 'sketch' and 'sketch'; keep one of them",
        ),
        (
            lambda claims: ar.Resolution(
                [of(claims[0].nodes[0], units=(ClaimedUnit(claims[0].nodes, "sketch.pair"),))]
            ),
            "splits the composite 'sketch.pair' of 'sketch'; keep all of its ops or none",
        ),
    ],
)
def test_an_answer_that_is_no_resolution_names_the_policy(make, said):
    with pytest.raises(ar.PolicyError, match=r"^main: the policy Strange ") as raised:
        ar.partition(module_of(SIX_OPS), ["sketch"], answering(make), prepare=False)
    assert said in str(raised.value)


def test_a_policy_that_leaves_a_pinned_op_out_is_named():
    nobody = answering(lambda _claims: ar.Resolution([]))
    with pytest.raises(ar.PolicyError, match=r"leaves .* on the host, which is pinned"):
        ar.partition(module_of(SIX_OPS), ["sketch"], nobody, prepare=False, pins={"relax.add": "sketch"})


def test_regions_that_need_each_others_results_name_the_policy():
    chain = {name: ("relax.nn.relu", (before,)) for name, before in zip("abcd", "xabc", strict=True)}
    crossed = answering(lambda _claims: ar.Resolution([of(0, 2), of(1, 3)]))
    with pytest.raises(
        ar.PolicyError, match=r"the policy Strange made a cycle: main: these regions depend on"
    ):
        ar.partition(module_of(chain), ["sketch"], crossed, prepare=False)


def test_details_that_are_not_json_are_an_error_of_the_document():
    told = answering(lambda claims: ar.Resolution(claims[:1], {"ops": np.int64(3)}))
    report = ar.explain(module_of(SIX_OPS), ["sketch"], told, prepare=False)
    with pytest.raises(ar.DocumentError, match=r"the report cannot be JSON: .*int64.*; convert it"):
        report.to_json()


class Costs:
    """A cost model of the same three answers."""

    def __init__(self, launch=1.0, compute=1.0, transfer=1.0):
        self.answers = launch, compute, transfer

    def launch(self, _target):
        return self.answers[0]

    def compute(self, _target, _unit):
        return self.answers[1]

    def transfer(self, _size, _source, _destination):
        return self.answers[2]


@pytest.mark.parametrize(
    ("costs", "said"),
    [
        (Costs(launch=-1.0), "a launch takes a finite time"),
        (Costs(compute=float("nan")), "the cost of a unit is not negative; got nan"),
        (Costs(transfer=-1.0), "a transfer takes a finite time"),
    ],
)
def test_what_is_no_cost_is_an_error_of_the_policy(costs, said):
    with pytest.raises(ar.PolicyError, match=said):
        ar.partition(module_of(SIX_OPS), ["sketch", "pencil"], ar.LeastCost(costs), prepare=False)


@pytest.mark.parametrize("least", [-1.0, float("nan")])
def test_a_minimum_of_work_is_no_negative_number(least):
    with pytest.raises(ar.UsageError, match=r"the least work for 'sketch' is .*; give a number of 0 or more"):
        ar.partition(module_of(SIX_OPS), ["sketch"], prepare=False, min_work={"sketch": least})
    with pytest.raises(ar.InvalidBackendError, match=r"'sketch': min_work=.* is not a limit"):
        ar.register_backend("sketch", min_work=least)


@pytest.mark.parametrize("name", ["host", "a target", "one,two", "a=b"])
def test_a_name_that_users_could_not_write_is_no_target(name):
    with pytest.raises(ar.InvalidBackendError, match=f"{name!r} cannot be the name of a backend"):
        ar.register_rule(name, "relax.add")(lambda _op: True)
    assert name not in ar.known_targets()


@pytest.mark.parametrize("field", ["flops", "bandwidth", "link", "launch", "latency"])
def test_a_device_has_speeds_and_times(field):
    given = {"flops": 1.0, "bandwidth": 1.0, field: -1.0}
    with pytest.raises(ar.UsageError, match=f"the argument {field} is -1.0; pass a number"):
        ar.Device(**given)
    assert ar.Device(flops=CPU.flops, bandwidth=CPU.bandwidth).latency == 0
