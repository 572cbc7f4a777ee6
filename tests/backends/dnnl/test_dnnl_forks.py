"""A region computes the same in a parent and its forked children; each case has a process, which may hang."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from kits.backends.dnnl.dnnl_harness import external_functions, needs_onednn, single
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar

# What each case begins with. A child that hangs is ended by its alarm, and its status is not zero.
BEGINNING = """
import multiprocessing, os, signal, sys, threading
import numpy as np
import tvm
from tvm import relax

def new_machine():
    return relax.VirtualMachine(tvm.runtime.load_module(sys.argv[1]), tvm.cpu())

machine = new_machine()

def data(rows):
    return np.random.default_rng(rows).standard_normal((rows, 64)).astype("float32")

def computed(rows, machine=machine):
    return machine["main"](tvm.runtime.tensor(data(rows))).numpy()

def forked(action):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(0 if action() else 1)
    return child

def check(child):
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, f"a child ended with {status}"

expected = {rows: computed(rows) for rows in (256, 300)}

def is_right(rows):
    return np.array_equal(computed(rows), expected[rows])

region = tvm.runtime.load_module(sys.argv[1]).get_function(sys.argv[2], query_imports=True)

def computed_without_machine(rows):
    result = tvm.runtime.empty((rows, 64), "float32")
    region(tvm.runtime.tensor(data(rows)), result)
    return result.numpy()
"""

CASES = {
    "a hundred children, and the parent goes on in between": """
for _ in range(100):
    check(forked(lambda: is_right(256)))
    assert is_right(256)
""",
    "a child of a child": """
def generations(left):
    if left:
        check(forked(lambda: generations(left - 1)))
    return is_right(256)

check(forked(lambda: generations(3)))
""",
    "workers of multiprocessing": """
def work(rows):
    signal.alarm(60)
    return is_right(rows)

with multiprocessing.get_context("fork").Pool(2) as pool:
    assert all(pool.map(work, [256, 300] * 20))
""",
    "threads of a child, and what shapes it alone has seen": """
def threaded():
    wrong = []
    def compute():
        if not np.array_equal(computed(300, new_machine()), expected[300]):
            wrong.append(True)
    threads = [threading.Thread(target=compute) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return not wrong and computed(17).shape == (17, 64)

for _ in range(5):
    check(forked(threaded))
""",
    "while other threads run plans and make new ones": """
# Without TVM's virtual machine: its memory pool has a mutex, which a fork may leave locked in the child.
done = threading.Event()

def busy(first):
    rows = first
    while not done.is_set():
        computed_without_machine(rows)
        rows = first + (rows + 1) % 40

threads = [threading.Thread(target=busy, args=(first,), daemon=True) for first in (10, 100)]
[thread.start() for thread in threads]
for _ in range(40):
    check(forked(lambda: np.array_equal(computed_without_machine(256), expected[256])))
done.set()
[thread.join() for thread in threads]
""",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A library with one region, over any number of rows, worth several threads; and the region's symbol."""
    rows = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((rows, 64), "float32"))
    weight = np.random.default_rng(3).standard_normal((64, 64)).astype("float32")
    product = op.nn.softmax(op.matmul(op.nn.relu(op.matmul(x, relax.const(weight))), relax.const(weight)))
    path = tmp_path_factory.mktemp("forks") / "library.so"
    module = ar.partition(single([x], product), ["dnnl"], prepare=False)
    ar.build(module).export_library(str(path))
    [symbol] = external_functions(module)
    return str(path), symbol


@needs_onednn
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_region_runs_after_a_fork(library: tuple[str, str], case: str) -> None:
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BEGINNING + case, *library],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (finished.returncode, finished.stderr) == (0, "")
