"""The cache exposes its filled rows, appends to them, and is unchanged by rows that do not fit."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

import annotated_region as ar

ROWS = [(2, 3), (2, 3), (4,)]


def new_rows(count: int, seed: int = 0, rows: list[tuple[int, ...]] | None = None) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((count, *row), "float32") for row in rows or ROWS]


def test_appended_rows_are_those_of_a_concatenation():
    cache, whole = ar.KeyValueCache(ROWS, 16), new_rows(0)
    for seed, count in enumerate((1, 3, 4, 7, 1)):
        new = new_rows(count, seed)
        cache.append(new if seed % 2 else [tvm.runtime.tensor(each) for each in new])
        whole = [np.concatenate(pair) for pair in zip(whole, new, strict=True)]
        for past, expected in zip(cache.past(), whole, strict=True):
            np.testing.assert_array_equal(past.numpy(), expected)
    assert (cache.capacity, cache.length, tuple(cache.filled)) == (16, 16, (16,))


def test_no_earlier_row_moves():
    cache = ar.KeyValueCache(ROWS, 8)
    cache.append(new_rows(3))
    first = [np.from_dlpack(past) for past in cache.past()]
    cache.append(new_rows(3, 1))
    later = [np.from_dlpack(past) for past in cache.past()]
    memory = [np.from_dlpack(each) for each in cache.memory]
    assert [[len(each) for each in rows] for rows in (first, later, memory)] == [[3] * 3, [6] * 3, [8] * 3]
    addresses = [[each.ctypes.data for each in rows] for rows in (first, later, memory)]
    assert addresses[0] == addresses[1] == addresses[2]
    np.testing.assert_array_equal(first[0], new_rows(3)[0])


def test_rows_that_a_step_has_written_are_counted():
    cache = ar.KeyValueCache(ROWS, 8)
    cache.append(new_rows(5))
    for memory, rows in zip(cache.memory, new_rows(2, 1), strict=True):
        np.from_dlpack(memory)[5:7] = rows
    cache.advance(2)
    assert cache.length == 7
    np.testing.assert_array_equal(cache.past()[1].numpy()[5:], new_rows(2, 1)[1])
    with pytest.raises(ar.InputError, match="7 tokens and 2 more do not fit into a cache for 8"):
        cache.advance(2)
    assert cache.length == 7


def test_a_mask_hides_what_comes_later():
    cache = ar.KeyValueCache(ROWS, 8)
    cache.append(new_rows(5))
    expected = [[1] * 5 + [1, 0], [1] * 5 + [1, 1]]
    np.testing.assert_array_equal(cache.mask(2) == 0, np.array(expected, bool))
    assert cache.mask(2).min() == np.float32(-1e30)


@pytest.mark.parametrize(("capacity", "rows"), [(0, ROWS), (-3, ROWS), (8, [])])
def test_a_cache_that_holds_nothing_is_an_error(capacity, rows):
    words = rf"a cache for {capacity} tokens with {len(rows)} kinds of rows holds nothing"
    with pytest.raises(ar.InputError, match=words):
        ar.KeyValueCache(rows, capacity)


WRONG = {
    "too many": (new_rows(4), "5 tokens and 4 more do not fit into a cache for 8"),
    "none": (new_rows(0), "5 tokens and 0 more do not fit into a cache for 8"),
    "fewer kinds": (new_rows(1)[:2], "a step returned 2 kinds of rows; the cache has 3"),
    "other heads": (
        new_rows(1, 0, [(2, 3), (1, 3), (4,)]),
        r"past 1 are float32 \(1, 1, 3\).* another model",
    ),
    "other counts": (
        [*new_rows(1)[:2], new_rows(2)[2]],
        r"past 2 are float32 \(2, 4\); the cache takes float32 \(1, 4\)",
    ),
    "other type": ([each.astype("float16") for each in new_rows(1)], r"past 0 are float16 \(1, 2, 3\)"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_an_error_and_changes_nothing(case):
    given, words = WRONG[case]
    cache = ar.KeyValueCache(ROWS, 8)
    cache.append(new_rows(5))
    before = [past.numpy() for past in cache.past()]
    with pytest.raises(ar.InputError, match=words):
        cache.append(given)
    assert cache.length == 5
    for past, expected in zip(cache.past(), before, strict=True):
        np.testing.assert_array_equal(past.numpy(), expected)


def test_a_mask_for_too_many_is_an_error():
    cache = ar.KeyValueCache(ROWS, 8)
    with pytest.raises(ar.InputError, match="0 tokens and 9 more do not fit into a cache for 8"):
        cache.mask(9)


def test_a_cleared_cache_begins_again():
    cache = ar.KeyValueCache(ROWS, 4)
    cache.append(new_rows(4))
    cache.clear()
    cache.append(new_rows(2, 1))
    assert cache.length == 2
    np.testing.assert_array_equal(cache.past()[2].numpy(), new_rows(2, 1)[2])
