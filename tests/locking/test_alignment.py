"""Which op of a model is which op of a lock: literal sequences, and edits of random ones."""

import random

import pytest

from annotated_region.locking.alignment import OpLabel, aligned


def labels(text):
    """Ops from words ``key:op`` or ``op``; what stands beside an op is what it has around it."""
    words = [word.rpartition(":")[::2] if ":" in word else ("", word) for word in text.split()]
    kinds = ["<", *(op for _key, op in words), ">"]
    return [
        OpLabel(key or f"lv{number}", op, op, " ".join(kinds[number : number + 3]))
        for number, (key, op) in enumerate(words)
    ]


CASES = {
    "nothing changed": ("a b c", "a b c", [0, 1, 2]),
    "one inserted, names move on": ("a b c", "a x b c", [0, None, 1, 2]),
    "one removed, names move on": ("a b c d", "a c d", [0, 2, 3]),
    "one replaced": ("a b c", "a x c", [0, None, 2]),
    "named ops change places": ("p:a q:b r:c", "r:c p:a q:b", [2, 0, 1]),
    "a named op computes something else": ("p:a q:b", "p:a q:x", [0, None]),
    "blocks that are alike, one more before them": ("c r c r c r", "x c r c r c r", [None, 0, 1, 2, 3, 4, 5]),
    "blocks that are alike, one less": ("s c r c r c r e", "s c r c r e", [0, 1, 2, 5, 6, 7]),
    "another model": ("a b", "x y z", [None, None, None]),
    "empty": ("", "a", [None]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_literal_sequence(name):
    old, new, expected = CASES[name]
    found = aligned(labels(old), labels(new))
    if name == "blocks that are alike, one less":
        # Which of the blocks is gone cannot be told; the others pair in order.
        assert [position is not None for position in found] == [True] * 6
        assert found == sorted(position for position in found if position is not None)
    else:
        assert found == expected


def test_attributes_may_change_where_the_name_stays():
    old = [OpLabel("conv", "conv2d", "1", "1"), OpLabel("b", "relu", "2", "2")]
    new = [OpLabel("conv", "conv2d", "9", "9"), OpLabel("b", "relu", "2", "8")]
    assert aligned(old, new) == [0, 1]


@pytest.mark.parametrize("seed", range(20))
def test_random_edits_leave_nearly_all_pairs(seed):
    chooser = random.Random(seed)
    kinds = [chooser.choice("abcd") for _ in range(300)]
    position = chooser.randrange(300)
    after = [*kinds[:position], *(chooser.choice("wxyz") for _ in range(seed % 4)), *kinds[position:]]
    found = aligned(labels(" ".join(kinds)), labels(" ".join(after)))
    paired = [each for each in found if each is not None]
    assert len(set(paired)) == len(paired)
    right = [*range(position), *([None] * (seed % 4)), *range(position, 300)]
    assert sum(one == other for one, other in zip(found, right, strict=True)) >= 295
