"""Counting over many inputs is counting once; ranges are what their definitions say; steps hold zero."""

import numpy as np
import pytest

from annotated_region.quantizing.bias_correction import ChannelShifts
from annotated_region.quantizing.histogram import Histogram
from annotated_region.quantizing.method_names import RANGES
from annotated_region.quantizing.ranges import ValueRange, chosen_range
from annotated_region.quantizing.steps import rounded_channels, steps_of


def histogram_of(*arrays, bins=2048):
    histogram = Histogram(bins)
    for array in arrays:
        histogram.add(array)
    return histogram


def normal(size=20000, seed=0):
    return np.random.default_rng(seed).standard_normal(size).astype("float32")


@pytest.mark.parametrize("factor", [1.0, 3.0, 40.0])
def test_later_and_larger_values_are_counted_as_at_once(factor):
    """The bins are those of the first values, doubled; numpy counts all values in them."""
    parts = [normal(seed=0), factor * normal(seed=1), factor**2 * normal(seed=2)]
    histogram = histogram_of(*parts)
    doublings = np.log2(histogram.top / np.abs(parts[0]).max())
    assert doublings == pytest.approx(round(doublings))
    edges = np.linspace(-histogram.top, histogram.top, 2 * histogram.bins + 1)
    wanted, _ = np.histogram(np.concatenate(parts).astype("float64"), edges)
    # A value within rounding of an edge may lie on the other side of it.
    assert np.abs(np.cumsum(histogram.counts) - np.cumsum(wanted)).max() <= 2
    whole = np.concatenate(parts)
    assert (histogram.low, histogram.high) == (whole.min(), whole.max())
    assert histogram.counts.sum() == whole.size


def test_zeros_are_counted_by_themselves():
    histogram = histogram_of(np.zeros(5, "float32"), np.array([0, 1, -2, 0], "float32"))
    assert (histogram.zeros, histogram.counts.sum(), histogram.top) == (7, 2, 2.0)
    assert histogram_of(np.zeros(5, "float32")).is_zero


def test_minmax_is_what_was_seen_with_zero():
    assert chosen_range(histogram_of(np.array([2, 5], "float32")), "minmax", 0) == ValueRange(0, 5)
    assert chosen_range(histogram_of(np.array([-2, 5], "float32")), "minmax", 0) == ValueRange(-2, 5)


@pytest.mark.parametrize("percentile", [90.0, 99.0, 99.9])
def test_percentile_is_that_of_numpy(percentile):
    values = np.concatenate([normal(), np.zeros(1000, "float32")])
    reach = chosen_range(histogram_of(values), "percentile", percentile)
    width = float(np.abs(values).max()) / 2048
    out = (100 - percentile) / 2
    # Two bins, and the gaps between values at the ends.
    assert abs(reach.low - float(np.percentile(values, out))) <= 4 * width
    assert abs(reach.high - float(np.percentile(values, 100 - out))) <= 4 * width


def rounded(values, reach):
    steps = steps_of(reach, "uint8", symmetric=False)
    numbers = np.clip(np.rint(values / steps.scale) + steps.zero, 0, 255)
    return (numbers - steps.zero) * steps.scale


def squares(values, reach):
    return np.square(rounded(values, reach) - values).mean()


@pytest.mark.parametrize("tail", [0.0, 8.0, 100.0])
def test_mse_has_the_least_error_of_all_thresholds(tail):
    values = np.concatenate([normal(), np.array([tail, -tail], "float32")])
    found = squares(values, chosen_range(histogram_of(values), "mse", 0))
    top = np.abs(values).max()
    best = min(
        squares(values, ValueRange(max(values.min(), -share * top), min(values.max(), share * top)))
        for share in np.linspace(0.13, 1, 200)
    )
    assert found <= 1.1 * best
    assert found < 0.98 * squares(values, chosen_range(histogram_of(values), "minmax", 0))


def test_entropy_cuts_outliers_off_and_keeps_even_distributions():
    values = np.concatenate([normal(1500000), np.array([60.0], "float32")])
    assert 3 < chosen_range(histogram_of(values), "entropy", 0).high < 20
    even = np.linspace(-1, 1, 50001).astype("float32")
    assert chosen_range(histogram_of(even), "entropy", 0).high > 0.95


@pytest.mark.parametrize("method", ["entropy", "mse"])
def test_probabilities_of_an_attention_are_not_clipped(method):
    """Most are next to nothing, and the few that are not are what counts."""
    scores = 4 * normal(20000).reshape(-1, 100)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    values = powers / powers.sum(axis=1, keepdims=True)
    reach = chosen_range(histogram_of(values), method, 0)
    assert squares(values, reach) <= squares(values, ValueRange(0, float(values.max())))
    assert reach.high > 0.9 * values.max()


@pytest.mark.parametrize("method", RANGES)
def test_values_of_one_sign_have_ranges_of_one_side(method):
    reach = chosen_range(histogram_of(np.abs(normal())), method, 99.9)
    assert reach.low == 0
    assert 1 < reach.high <= np.abs(normal()).max()


@pytest.mark.parametrize(("dtype", "symmetric"), [("uint8", False), ("int8", False), ("int8", True)])
@pytest.mark.parametrize("reach", [(-1.0, 3.0), (0.0, 2.0), (-5.0, 0.0), (0.0, 1e-42), (-1e-3, 1e30)])
def test_steps_cover_the_range_and_hold_zero(dtype, symmetric, reach):
    steps = steps_of(ValueRange(*reach), dtype, symmetric=symmetric)
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    assert least <= steps.zero <= most
    if symmetric:
        assert steps.zero == 0
    ends = (least - steps.zero) * float(steps.scale), (most - steps.zero) * float(steps.scale)
    slack = 0.5001 * float(steps.scale) + 1e-40
    assert ends[0] <= reach[0] + slack
    assert ends[1] >= reach[1] - slack


def test_weights_are_rounded_by_channel_to_the_nearest():
    weight = np.random.default_rng(0).standard_normal((6, 5, 3)).astype("float32")
    weight[2] = 0
    weight[3] *= 1e-3
    channels = rounded_channels(weight, 0)
    back = channels.numbers * channels.scales[:, None, None]
    assert channels.scales[2] == 1
    assert np.abs(channels.numbers).max(axis=(1, 2)).tolist() == [127, 127, 0, 127, 127, 127]
    assert (np.abs(back - weight) <= 0.5001 * channels.scales[:, None, None]).all()


def shifts_of(means):
    shifts = ChannelShifts()
    for each in means:
        shifts.add(np.asarray(each, "float32"))
    return shifts


def test_a_certain_shift_stays_and_chance_is_taken_for_chance():
    random = np.random.default_rng(0)
    noise = random.standard_normal((20, 64))
    assert shifts_of([[1.0, -2.0]] * 3).certain().tolist() == [1.0, -2.0]
    assert np.abs(shifts_of(noise).certain()).max() < 0.5 * np.abs(noise.mean(axis=0)).max()
    found = shifts_of(noise + 3).certain()
    assert np.abs(found - 3).max() < 1
    # The estimator: all channels shrink by one factor, what chance explains of their squares.
    mean, spread = (noise + 3).mean(axis=0), (noise + 3).var(axis=0, ddof=1) / 20
    assert found == pytest.approx(mean * (1 - spread.sum() / np.square(mean).sum()), rel=1e-5)
    assert shifts_of([[5.0, 5.0]]).certain().tolist() == [0, 0]
