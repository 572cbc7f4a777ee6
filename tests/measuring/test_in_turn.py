"""Programs that are timed in turn: their order, how many rounds, and how well a minimum can be repeated."""

import itertools

import pytest

from annotated_region.measuring import in_turn, timing
from annotated_region.measuring.in_turn import time_in_turn


@pytest.fixture
def samples(monkeypatch):
    """Replaces the clock: a program is a list of samples, taken in turn and from the beginning again."""
    taken = []

    def sample(run, _clock):
        taken.append(run)
        return next(ahead[id(run)])

    def timed(*programs):
        ahead.update((id(each), itertools.cycle(each.times)) for each in programs)
        return time_in_turn(programs)

    ahead = {}
    monkeypatch.setattr(in_turn, "sample", sample)
    monkeypatch.setattr(in_turn, "warm_up", lambda run: run())
    timed.taken = taken
    return timed


class Program:
    def __init__(self, *times):
        self.times = times
        self.runs = 0

    def __call__(self):
        self.runs += 1


def test_each_starts_every_other_round_and_steady_times_end_after_the_fewest(samples):
    one, other = Program(1.0), Program(2.0)
    times = samples(one, other)
    assert [(time.seconds, time.spread) for time in times] == [(1.0, 0.0), (2.0, 0.0)]
    assert samples.taken[:8] == [one, other, other, one, one, other, other, one]
    assert len(samples.taken) == 2 * in_turn._FEWEST
    assert (one.runs, other.runs) == (1, 1)  # to warm up


def test_other_work_makes_samples_longer_and_changes_no_time(samples):
    (time,) = samples(Program(*[1.0] * 3, *[9.0] * 21))
    assert (time.seconds, time.spread) == (1.0, 0.0)


def test_an_outlier_is_not_repeated_in_each_third_and_is_seen_in_the_spread(samples):
    """One round in 500 is short: no third but one can have it, however many rounds follow."""
    (time,) = samples(Program(1.0, *[1.5] * 499))
    assert (time.seconds, time.spread) == (1.0, 0.5)
    assert len(samples.taken) == in_turn._MOST


def test_the_clock_may_be_that_of_the_processor(monkeypatch):
    monkeypatch.setattr(in_turn, "warm_up", lambda run: run())
    ticks = itertools.count()
    (time,) = time_in_turn([Program()], clock=lambda: float(next(ticks)))
    assert (time.seconds, time.spread) == (1.0, 0.0)


def test_a_slow_program_ends_after_a_round_for_each_third(samples, monkeypatch):
    clock = itertools.count(0, 2 * int(in_turn._SECONDS))
    monkeypatch.setattr(in_turn.time, "perf_counter", lambda: float(next(clock)))
    (time,) = samples(Program(5.0, 4.0, 6.0))
    assert (time.seconds, time.spread) == (4.0, 0.5)
    assert len(samples.taken) == 3


def test_programs_run_before_they_are_timed(monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock) / 10)
    program = Program()
    timing.warm_up(program)
    assert program.runs == timing._WARMING
    slow = Program()
    monkeypatch.setattr(timing.time, "perf_counter", lambda: float(next(clock) * 100))
    timing.warm_up(slow)
    assert slow.runs == 1
