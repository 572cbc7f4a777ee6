"""Items that threads take one after the other: each once, whoever comes, and those of a share in order."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")

PROGRAM = """
#include "work_shares.h"
#include <thread>
#include <vector>
using namespace annotated_region_dnnl;
// Threads that come, with the share of each: which of them takes an item, how often it is taken, and when.
extern "C" void taken(int64_t items, int64_t shares, int64_t at_once, const int64_t* coming, int64_t comers,
                      int64_t* takers, int64_t* times, int64_t* order) {
  std::vector<char> memory(WorkShares::bytes(shares) + 64);
  char* const aligned = memory.data() + -reinterpret_cast<uintptr_t>(memory.data()) % 64;
  const WorkShares left(aligned, items, shares, at_once);
  std::atomic<int64_t> counted{0};
  std::vector<std::thread> threads;
  for (int64_t comer = 0; comer < comers; ++comer) {
    threads.emplace_back([&, comer] {
      left.each(coming[comer], [&](int64_t first, int64_t last) {
        for (int64_t item = first; item < last; ++item) {
          takers[item] = comer, ++times[item], order[item] = counted.fetch_add(1);
        }
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (!left.is_empty()) times[0] = -1;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("work_shares")
    (folder / "taken.cc").write_text(PROGRAM)
    runtime = files("annotated_region.backends.dnnl") / "runtime"
    command = ["g++", "-std=c++17", "-O2", "-pthread", "-shared", "-fPIC", f"-I{runtime}", "taken.cc"]
    subprocess.run([*command, "-o", "taken.so"], cwd=folder, check=True)
    return ctypes.CDLL(str(Path(folder, "taken.so")))


def taken(
    library: ctypes.CDLL, items: int, shares: int, at_once: int, coming: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Who took each item, how often it was taken, and when."""
    takers, times, order = np.zeros((3, items), np.int64)
    given_shares = np.array(coming, np.int64)
    numbers = map(ctypes.c_int64, (items, shares, at_once))
    pointers = (ctypes.c_void_p(each.ctypes.data) for each in (takers, times, order))
    library.taken(*numbers, ctypes.c_void_p(given_shares.ctypes.data), ctypes.c_int64(len(coming)), *pointers)
    return takers, times, order


@given(st.integers(1, 200), st.integers(1, 9), st.integers(1, 4), st.data())
def test_each_item_is_taken_once_whoever_comes(library, items, shares, at_once, data):
    coming = data.draw(st.lists(st.integers(0, shares - 1), min_size=1, max_size=6))
    _, times, _ = taken(library, items, shares, at_once, coming)
    assert (times == 1).all()


@given(st.integers(1, 200), st.integers(1, 9), st.integers(1, 4), st.data())
def test_one_that_comes_alone_begins_with_its_own_share(library, items, shares, at_once, data):
    mine = data.draw(st.integers(0, shares - 1))
    _, _, order = taken(library, items, shares, at_once, [mine])
    bounds = [items * share // shares for share in range(shares + 1)]
    begins = [bounds[(mine + other) % shares] for other in range(shares)]
    ends = [bounds[(mine + other) % shares + 1] for other in range(shares)]
    in_turn = [item for begin, end in zip(begins, ends, strict=True) for item in range(begin, end)]
    assert order[in_turn].tolist() == list(range(items))
    assert all(before < after for before, after in pairwise(order[bounds[mine] : bounds[mine + 1]]))
