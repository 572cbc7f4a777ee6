"""Measured costs give the same choice repeatedly, on a simulated machine with known noise."""

import itertools
import random
from typing import Any

import pytest
from kits.measuring.noisy_machine import NoisyMachine
from tvm import relax

import annotated_region as ar
from annotated_region.costs import HOST
from annotated_region.measuring import comparing, wholes
from annotated_region.testing.registry import claim_ops, temporary_registrations

OPS = {"relax.add": relax.op.add, "relax.multiply": relax.op.multiply}
pytestmark = pytest.mark.filterwarnings("ignore::annotated_region.MeasurementWarning")

NOISES = [(0.01, False), (0.03, False), (0.02, True)]


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        for target in ("near", "far"):
            claim_ops(target, *OPS)
        yield


def model_of(*names):
    """Ops one after the other, each with another constant, so that each is measured by itself."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for number, name in enumerate(names):
                value = builder.emit(OPS[name](value, relax.const(float(number), "float32")))
            out = builder.emit_output(value)
        builder.emit_func_output(out)
    return builder.get()


MODEL = model_of(*["relax.add"] * 12, *["relax.multiply"] * 12)


def placed(tmp_path, monkeypatch, seconds, noise, bursts, seed, rounds=5, costs=None, machine=NoisyMachine):
    """Who runs each op, measured from nothing."""
    with monkeypatch.context() as patch:
        machine(seconds, noise, bursts, seed).install(patch)
        model = ar.MeasuredCost(costs or tmp_path / f"costs {seed}", rounds, progress=False)
        report = ar.explain(MODEL, ["near", "far"], ar.LeastCost(model), prepare=False).to_dict()
    return {op["key"]: op["placed"] for op in report["functions"][0]["ops"] if op["op"] in OPS}


def speeds(adding=1.0, multiplying=1.0):
    """Seconds of ops; what "near" takes, as a share of what "far" takes."""
    found = {("far", name): 1e-3 for name in OPS} | {(HOST, name): 5e-3 for name in OPS}
    return found | {("near", "relax.add"): 1e-3 * adding, ("near", "relax.multiply"): 1e-3 * multiplying}


@pytest.mark.parametrize(("noise", "bursts"), NOISES)
def test_engines_that_are_equally_fast_share_no_model(tmp_path, monkeypatch, noise, bursts):
    for seed in range(5):
        found = placed(tmp_path, monkeypatch, speeds(), noise, bursts, seed)
        assert set(found.values()) == {"far"}, seed


@pytest.mark.parametrize(
    ("noise", "bursts", "rounds"), [(0.01, False, 5), (0.02, True, 5), (0.03, False, 10)]
)
def test_an_engine_that_is_faster_on_half_the_model_gets_it(tmp_path, monkeypatch, noise, bursts, rounds):
    """By 5 % of the second half, and it is 10 % slower on the first; the noise hides some of its ops."""
    for seed in range(3):
        found = placed(tmp_path, monkeypatch, speeds(1.1, 0.95), noise, bursts, seed, rounds)
        first, second = list(found.values())[:12], list(found.values())[12:]
        assert first.count("far") >= 11, seed
        assert second.count("near") >= 9, seed


def test_a_slower_first_choice_is_left(tmp_path, monkeypatch):
    for share in (0.97, 0.3):
        found = placed(tmp_path, monkeypatch, speeds(share, share), 0.01, False, int(100 * share))
        assert set(found.values()) == {"near"}


def test_what_was_compared_is_not_run_again(tmp_path, monkeypatch):
    """Neither by the same model nor by another with the same file; the answer is the same."""
    costs = tmp_path / "costs"
    first = placed(tmp_path, monkeypatch, speeds(1.1, 0.95), 0.01, False, 1, costs=costs)
    with monkeypatch.context() as patch:
        patch.setattr(NoisyMachine, "runs_of", lambda *_: pytest.fail("something is built"))
        assert placed(tmp_path, monkeypatch, speeds(1.1, 0.95), 0.01, False, 2, costs=costs) == first


@pytest.mark.parametrize("near", [0.8, 1.25])
def test_placements_too_large_to_be_built_together_are_compared_in_pairs(near, tmp_path, monkeypatch):
    wanted = placed(tmp_path, monkeypatch, speeds(1.1, near), 0.01, False, 1)
    built = []

    class Counting(NoisyMachine):
        def runs_of(self, units, builds):
            builds.callback(built.append, -len(units))
            built.append(len(units))
            return super().runs_of(units, builds)

    monkeypatch.setattr(wholes, "MOST_BYTES", 0)
    found = placed(
        tmp_path, monkeypatch, speeds(1.1, near), 0.01, False, 1, costs=tmp_path / "pairs", machine=Counting
    )
    assert found == wanted
    assert sum(built) == 0  # all that was built is freed


def test_two_builds_may_differ_and_a_small_gain_has_to_show_in_three(tmp_path, monkeypatch):
    """Where each build draws a per cent or two for itself, equal engines share no model."""

    class Drawing(NoisyMachine):
        def runs_of(self, units, _builds):
            return [self._run(self.true_seconds(unit) * self._random.gauss(1.0, 0.015)) for unit in units]

    for seed in range(5):
        found = placed(tmp_path, monkeypatch, speeds(), 0.01, False, seed, machine=Drawing)
        assert len(set(found.values())) == 1, seed


def the_hard_way(count, quarter, needed):
    """How likely `needed` or more of the `quarter` least of two equal ways' samples are of one."""
    orders = list(itertools.combinations(range(2 * count), count))
    return sum(sum(place < quarter for place in order) >= needed for order in orders) / len(orders)


@pytest.mark.parametrize("count", [4, 6, 8])
@pytest.mark.parametrize("one_in", [3, 20])
def test_the_test_errs_as_often_as_it_may(monkeypatch, count, one_in):
    monkeypatch.setattr(comparing, "_ONE_IN", one_in)
    quarter = count // 2
    needed = comparing._needed.__wrapped__(count, quarter)
    if needed is None:
        assert the_hard_way(count, quarter, quarter) > 1 / one_in
        return
    assert the_hard_way(count, quarter, needed) <= 1 / one_in < the_hard_way(count, quarter, needed - 1)


@pytest.mark.parametrize("seed", range(20))
def test_the_share_is_the_least_that_passes_the_test(seed):
    """Shrinking the current samples by a little less, the test finds too few of the candidate's."""
    rng = random.Random(seed)
    current = [rng.uniform(1, 2) for _ in range(40)]
    candidate = [rng.uniform(0.9, 2) for _ in range(40)]
    share = comparing._share_at_most(current, candidate)

    def of_the_fastest(factor):
        pooled = sorted([(each * factor, False) for each in current] + [(each, True) for each in candidate])
        return sum(is_candidate for _seconds, is_candidate in pooled[:20])

    needed = comparing._needed(40, 20)
    assert of_the_fastest(share * (1 + 1e-9)) >= needed > of_the_fastest(share * (1 - 1e-9))


def test_too_few_samples_tell_nothing_unless_they_are_far_apart(monkeypatch):
    told = {
        "slow": itertools.cycle([1.0, 1.1]),
        "fast": itertools.cycle([0.8, 0.81]),
        "far": itertools.cycle([0.4]),
    }
    monkeypatch.setattr(comparing, "sample", lambda run: next(told[run]))
    monkeypatch.setattr(comparing, "warm_up", lambda _run: None)
    monkeypatch.setattr(comparing, "_LOOKS", (5,))
    ways: Any = ("slow", "fast", "far")
    slow, fast, far = ways
    assert not comparing.compare(slow, fast, 1).is_faster
    assert comparing.compare(slow, far, 1).is_faster
    assert not comparing.compare(far, slow, 1).is_faster


class Settling(NoisyMachine):
    """A target whose library tries slower ways in the first runs of what is built."""

    TRIALS = 6

    def runs_of(self, units, builds):
        runs = super().runs_of(units, builds)
        return [
            self._settling(run) if unit.target == "near" else run
            for unit, run in zip(units, runs, strict=True)
        ]

    def _settling(self, run):
        trials = itertools.repeat(None, self.TRIALS)

        def first_tries() -> None:
            for _each in range(3 if next(trials, 0) is None else 1):
                run()

        return first_tries


def test_what_settles_in_its_first_runs_is_not_judged_by_them(tmp_path, monkeypatch):
    found = placed(tmp_path, monkeypatch, speeds(0.9, 0.9), 0.01, False, 1, machine=Settling)
    assert set(found.values()) == {"near"}


def refusing(word):
    """Builds like a noisy machine, but for units of a target that has to refuse."""

    class Refusing(NoisyMachine):
        def runs_of(self, units, builds):
            for unit in units:
                if unit.target == word and len(unit.func.body.blocks[0].bindings) > 6:
                    raise ar.RegionRejectedError("too long", "main")
            return super().runs_of(units, builds)

    return Refusing


@pytest.mark.parametrize(("refused", "taken"), [("far", "near"), ("near", "far")])
def test_a_placement_that_its_target_refuses_as_a_whole_is_not_taken(tmp_path, monkeypatch, refused, taken):
    found = placed(tmp_path, monkeypatch, speeds(), 0.01, False, 1, machine=refusing(refused))
    assert set(found.values()) == {taken}
