"""Regions share work among workers of their own, a bounded number, and change nothing for other libraries."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from kits.backends.dnnl.dnnl_harness import needs_onednn, single
from tvm import relax, tirx
from tvm.relax import op
from tvm.support import cc

import annotated_region as ar
from annotated_region.backends.dnnl.runtime_units import RUNTIME

BEGINNING = """
import os, sys, threading
import numpy as np
import tvm
from tvm import relax

def new_machine():
    return relax.VirtualMachine(tvm.runtime.load_module(sys.argv[1]), tvm.cpu())

data = tvm.runtime.tensor(np.random.default_rng(0).standard_normal((1, 16, 40, 40)).astype("float32"))
machine = new_machine()
"""

CALLERS = """
def threads():
    return len(os.listdir("/proc/self/task"))

before, machines = threads(), [new_machine() for _ in range(16)]
gate, counts, answers = threading.Barrier(17), [], []

def call(machine):
    for _ in range(20):
        answers.append(machine["main"](data).numpy())
    gate.wait()
    gate.wait()

callers = [threading.Thread(target=call, args=(machine,)) for machine in machines]
[caller.start() for caller in callers]
gate.wait()
added = threads() - before - 16
gate.wait()
[caller.join() for caller in callers]
assert all(np.array_equal(answer, answers[0]) for answer in answers)
assert len(answers) == 320
assert added == 3, added  # four shares: the caller's, and one for each of three workers
"""

FIRST_RUNS = """
import os, sys
import numpy as np
import tvm
from tvm import relax

machine = relax.VirtualMachine(tvm.runtime.load_module(sys.argv[1]), tvm.cpu())

def of_workers():
    own, total = str(os.getpid()), 0
    for thread in os.listdir("/proc/self/task"):
        if thread != own:
            total += int(open(f"/proc/self/task/{thread}/schedstat").read().split()[0])
    return total

def times(rows):
    data, found = tvm.runtime.tensor(np.random.default_rng(rows).random((rows, 1024), "float32")), []
    for _ in range(3):
        before = of_workers()
        machine["main"](data)
        found.append(of_workers() - before)
    return found

shares = [found[0] / max(found) for found in map(times, (512, 520))]
print(max(shares))
"""

SLOPES = """
import sys
import numpy as np
import tvm
from tvm import relax

machine = relax.VirtualMachine(tvm.runtime.load_module(sys.argv[1]), tvm.cpu())
rows = [tvm.runtime.tensor(np.ones((1, width), "float32")) for width in (17, 33, 5, 50)]
print([sorted(set(each.numpy().ravel().tolist())) for each in machine["main"](*rows)])
"""

ENVIRONMENT = """
import ctypes, os

def of_c():
    pointer = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
    entries = []
    while pointer[len(entries)] is not None:
        entries.append(pointer[len(entries)])
    return sorted(entries)

before = dict(os.environ), of_c()
import tvm
from tvm import relax
import numpy as np
import annotated_region as ar

x = relax.Var("x", relax.TensorType((64, 64), "float32"))
builder = relax.BlockBuilder()
with builder.function("main", [x]):
    with builder.dataflow():
        out = builder.emit_output(builder.emit(relax.op.nn.softmax(relax.op.matmul(x, x))))
    builder.emit_func_output(out)
assert (dict(os.environ), of_c()) == before, "import"
mod = ar.partition(builder.get(), ["dnnl"])
assert (dict(os.environ), of_c()) == before, "partition"
executable = ar.build(mod)
machine = relax.VirtualMachine(executable.jit() if hasattr(executable, "jit") else executable, tvm.cpu())
assert (dict(os.environ), of_c()) == before, "build"
machine["main"](tvm.runtime.tensor(np.ones((64, 64), "float32")))
assert (dict(os.environ), of_c()) == before, "run"
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Convolutions of several kinds, products whose shares meet half-way, and kernels of our own."""
    draw = np.random.default_rng(1)

    def weight(*shape: int) -> relax.Expr:
        return relax.const(draw.standard_normal(shape).astype("float32") / 8)

    x = relax.Var("x", relax.TensorType((1, 16, 40, 40), "float32"))
    wide = op.nn.conv2d(x, weight(64, 16, 3, 3), padding=1)
    deep = op.nn.conv2d(wide, weight(64, 1, 3, 3), padding=1, groups=64)
    rows = op.reshape(deep, (64, 1600))
    products = op.matmul(op.matmul(rows, op.permute_dims(rows)), rows)
    sums = op.sum(op.exp(op.nn.softmax(products)), axis=[0])
    normed = op.nn.group_norm(
        deep, weight(64), weight(64), num_groups=4, channel_axis=1, axes=[2, 3], epsilon=1e-5
    )
    total = op.add(op.mean(normed, axis=[1, 2]), op.reshape(op.mean(sums), (1, 1)))
    path = tmp_path_factory.mktemp("threads") / "library.so"
    ar.build(ar.partition(single([x], total), ["dnnl"], prepare=False)).export_library(str(path))
    return path


def run(program: str, *arguments: str, threads: int = 4) -> str:
    environment = {"TVM_NUM_THREADS": str(threads), "PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    # What `make sanitize` needs of the environment.
    environment |= {name: os.environ[name] for name in ("LD_PRELOAD", "ASAN_OPTIONS") if name in os.environ}
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *arguments],
        capture_output=True, text=True, timeout=120, check=False, env=environment,
    )  # fmt: skip
    assert (finished.returncode, finished.stderr) == (0, "")
    return finished.stdout


def exported(library: Path) -> list[str]:
    """The mangled names of what other libraries of a process can bind to, if it is defined by the runtime."""
    listing = subprocess.run(
        ["nm", "--dynamic", "--defined-only", str(library)], capture_output=True, text=True, check=True
    )
    names = [line.split()[-1] for line in listing.stdout.splitlines()]
    # Variables of functions begin with _ZZN, and the guards of their initialization with _ZGVZN.
    return [name for name in names if re.match(r"_Z(GV)?Z?NK?21annotated_region_dnnl", name)]


@needs_onednn
def test_libraries_of_a_process_share_the_workers_of_their_version_and_nothing_else(library: Path) -> None:
    names = exported(library)
    (version,) = {found for name in names for found in re.findall(r"9threads_\d|10threads_\d\d", name)}
    assert [name for name in names if f"21annotated_region_dnnl{version}" not in name] == []
    for shared in ("Workers3all", "Contention4only", "Call6active", "helpers"):
        assert any(shared in name for name in names), shared


@needs_onednn
def test_many_callers_share_the_workers(library: Path) -> None:
    run(BEGINNING + CALLERS, str(library))


@needs_onednn
def test_a_caller_computes_the_same_on_one_processor(library: Path) -> None:
    answer = "print(b''.join(machine['main'](data).numpy().tobytes() for _ in range(12)).hex())"
    alone = "import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    assert run(BEGINNING + answer, str(library)) == run(alone + BEGINNING + answer, str(library))


@needs_onednn
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a worker needs a processor of its own")
def test_a_worker_that_sleeps_is_woken_in_the_first_run_of_a_plan(tmp_path: Path) -> None:
    """Each number of rows has a plan of its own; one thread sorts, for longer than a worker waits."""
    x = relax.Var("x", relax.TensorType((tirx.Var("n", "int64"), 1024), "float32"))
    weight = relax.const(np.random.default_rng(0).standard_normal((1024, 3072)).astype("float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            line = builder.emit(op.sort(op.reshape(x, (-1,))))
            product = op.matmul(op.reshape(line, (-1, 1024)), weight)
            output = builder.emit_output(op.sum(op.matmul(product, op.permute_dims(weight)), axis=[0]))
        builder.emit_func_output(output)
    path = tmp_path / "library.so"
    ar.build(ar.partition(builder.finalize(), ["dnnl"], prepare=False)).export_library(str(path))
    assert float(run(FIRST_RUNS, str(path), threads=2)) > 0.4


@needs_onednn
@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_slopes_are_applied_once_by_any_number_of_threads(tmp_path: Path, threads: int) -> None:
    """Two threads of oneDNN compute the same elements of a row that is no whole number of vectors."""
    rows = [relax.Var(f"x{width}", relax.TensorType((1, width), "float32")) for width in (17, 33, 5, 50)]
    builder = relax.BlockBuilder()
    with builder.function("main", rows):
        with builder.dataflow():
            below = [builder.emit(op.multiply(row, op.negative(row))) for row in rows]
            slopes = [relax.const(np.full(row.ty.shape[1].value, 3, "float32")) for row in rows]
            results = [builder.emit(op.nn.prelu(each, by, 1)) for each, by in zip(below, slopes, strict=True)]
            output = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(output)
    path = tmp_path / "library.so"
    ar.build(ar.partition(builder.get(), ["dnnl"], prepare=False)).export_library(str(path))
    assert run(SLOPES, str(path), threads=threads) == "[[-3.0], [-3.0], [-3.0], [-3.0]]\n"


@needs_onednn
def test_the_environment_stays_as_it_was() -> None:
    run(ENVIRONMENT)


@needs_onednn
def test_the_library_gives_no_part_of_openmp_to_others(library: Path) -> None:
    exported = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True
    ).stdout
    assert "__tvm_ffi_" in exported
    assert "GOMP_" not in exported
    assert "omp_get" not in exported


PROGRAM = """
#include "processors.h"
extern "C" double quota(const char* mount, const char* path) {
  return annotated_region_dnnl::quota_of_path(mount, path);
}
"""


@pytest.fixture(scope="module")
def processors(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("processors")
    (folder / "program.cc").write_text(PROGRAM, encoding="utf-8")
    headers = RUNTIME
    options = ["-std=c++17", "-fPIC", "-shared", f"-I{headers}", str(folder / "program.cc")]
    subprocess.run([cc.get_cc(), *options, "-o", str(folder / "program.so")], check=True)
    library = ctypes.CDLL(str(folder / "program.so"))
    library.quota.restype = ctypes.c_double
    return library


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, np.inf),
        ({"cpu.max": "max 100000"}, np.inf),
        ({"a/b/cpu.max": "150000 100000"}, 1.5),
        ({"a/cpu.max": "50000 100000", "a/b/cpu.max": "150000 100000"}, 0.5),
        ({"cpu.max": "100000 100000", "a/b/cpu.max": "max 100000"}, 1.0),
        ({"a/cpu.cfs_quota_us": "-1", "a/cpu.cfs_period_us": "100000"}, np.inf),
        ({"a/b/cpu.cfs_quota_us": "25000", "a/b/cpu.cfs_period_us": "10000"}, 2.5),
    ],
)
def test_the_quota_is_the_least_of_the_groups_around(
    processors: ctypes.CDLL, tmp_path: Path, files: dict[str, str], quota: float
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n", encoding="utf-8")
    assert processors.quota(str(tmp_path).encode(), b"/a/b") == quota


STRESS = Path(__file__).parents[2] / "sanitizers" / "threads.cc"


@needs_onednn
def test_callers_and_workers_do_not_race(tmp_path: Path) -> None:
    """With more rounds: ``make sanitize-threads``."""
    program = tmp_path / "threads"
    words = ["-std=c++17", "-O1", "-g", "-fsanitize=thread", "-pthread", f"-I{RUNTIME}"]
    subprocess.run([cc.get_cc(), *words, str(STRESS), "-o", str(program), "-ldl"], check=True, timeout=120)
    threads = {"OMP_NUM_THREADS": "4", "TVM_NUM_THREADS": "4"}
    finished = subprocess.run(
        [str(program), "30"], capture_output=True, text=True, timeout=120, check=False, env=threads
    )
    assert (finished.returncode, finished.stderr) == (0, "")
