"""A process holds its weights once: what was read is given back, and nothing is packed twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from kits.backends.dnnl.dnnl_harness import needs_onednn
from tvm import relax
from tvm.relax import op

import annotated_region as ar
from annotated_region.backends.dnnl.embedding import embed
from annotated_region.backends.dnnl.graph import Graph

needs_proc = pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the system has no /proc")

WIDTH = 1024  # 4 MB of weights a layer
LAYERS = 12
WORDS = 4000  # 16 MB of which a few rows are read

SCRIPT = """
import json, sys
import numpy as np
import tvm
from tvm import relax

def resident(kind):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(kind)) / 1024

def mapped(name):
    total, inside = 0, False
    for line in open("/proc/self/smaps"):
        head = line.split()
        if not head[0].endswith(":"):
            inside = head[-1] == name
        elif inside and head[0] == "Rss:":
            total += int(head[1])
    return total / 1024

library = tvm.runtime.load_module(sys.argv[1])
machine = relax.VirtualMachine(library, tvm.cpu())
arguments = [tvm.runtime.tensor(array) for array in np.load(sys.argv[2]).values()]
before = resident("RssAnon")
answers = [machine["main"](*arguments).numpy() for _ in range(2)]
assert np.array_equal(*answers)
np.save(sys.argv[3], answers[0])
print(json.dumps({"library": mapped(sys.argv[1]), "own": resident("RssAnon") - before}))
"""


def answered(module: tvm.IRModule, folder: Path, *inputs: np.ndarray) -> tuple[np.ndarray, dict[str, float]]:
    """What a fresh process answers, with the megabytes of the library and of its own that it has then."""
    path, data, result = (folder / name for name in ("model.so", "data.npz", "result.npy"))
    ar.build(ar.partition(module, ["dnnl"], prepare=False)).export_library(str(path))
    np.savez(data, *inputs)
    words = [sys.executable, "-c", SCRIPT, str(path), str(data), str(result)]
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return np.load(result), json.loads(done.stdout)


def matrix(seed: int, rows: int = WIDTH) -> np.ndarray:
    numbers: np.ndarray = np.random.default_rng(seed).standard_normal((rows, WIDTH), "float32")
    return numbers / np.float32(WIDTH**0.5)


def deep_module() -> tvm.IRModule:
    """Words looked up, then layers with biases between the weights."""
    builder = relax.BlockBuilder()
    words = relax.Var("words", relax.TensorType((8,), "int64"))
    with builder.function("main", [words]):
        with builder.dataflow():
            x = builder.emit(op.take(relax.const(matrix(99, WORDS)), words, axis=0))
            for layer in range(LAYERS):
                bias = relax.const(np.full(WIDTH, layer / 10, "float32"))
                x = builder.emit(op.tanh(op.add(op.matmul(x, relax.const(matrix(layer))), bias)))
            result = builder.emit_output(x)
        builder.emit_func_output(result)
    return builder.finalize()


@needs_onednn
@needs_proc
def test_the_library_is_hardly_in_memory_after_the_first_answer(tmp_path: Path) -> None:
    words = np.arange(8, dtype="int64") * 400
    answer, megabytes = answered(deep_module(), tmp_path, words)
    expected = matrix(99, WORDS)[words]
    for layer in range(LAYERS):
        expected = np.tanh(expected @ matrix(layer) + np.float32(layer / 10))
    np.testing.assert_allclose(answer, expected, rtol=1e-3, atol=1e-4)
    weights = LAYERS * 4
    assert (tmp_path / "model.so").stat().st_size > (weights + 15) * 2**20
    assert (
        megabytes["library"] < 14
    )  # code, biases, rows of words, the pages around them; above 20 if biases stand between weights
    assert megabytes["own"] < weights + 24


PACKED_LAYERS = 24  # of 1 MB and their scales


def packed_module() -> tvm.IRModule:
    """Layers of weights of 8 bits."""
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType((2, WIDTH), "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            x: relax.Expr = data
            for layer in range(PACKED_LAYERS):
                x = builder.emit(op.matmul(x, relax.const(matrix(layer))))
            result = builder.emit_output(x)
        builder.emit_func_output(result)
    return ar.passes.QuantizeWeights(bits=8, group=32)(builder.finalize())


@needs_onednn
@needs_proc
def test_packed_weights_are_read_where_the_library_is_mapped(tmp_path: Path) -> None:
    data = np.random.default_rng(5).standard_normal((2, WIDTH)).astype("float32")
    answer, megabytes = answered(packed_module(), tmp_path, data)
    expected = data
    for layer in range(PACKED_LAYERS):
        expected = expected @ matrix(layer)
    assert np.abs(answer - expected).max() < 0.05 * np.abs(expected).max()
    weights = PACKED_LAYERS * 1.0625
    assert weights < (tmp_path / "model.so").stat().st_size / 2**20 < weights + 4
    assert weights < megabytes["library"] < weights + 14
    assert megabytes["own"] < 10  # none of the weights


def shared_module(readers: int) -> tvm.IRModule:
    """One weight, transposed for each of its readers anew."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((8, 2 * WIDTH), "float32"))
    weight = relax.const(np.concatenate([matrix(1, 2 * WIDTH), matrix(2, 2 * WIDTH)], axis=1))
    with builder.function("main", [x]):
        with builder.dataflow():
            y: relax.Expr = x
            for _ in range(readers):
                y = builder.emit(op.tanh(op.matmul(y, op.permute_dims(weight))))
            result = builder.emit_output(y)
        builder.emit_func_output(result)
    return builder.finalize()


@needs_onednn
@needs_proc
def test_a_weight_that_several_products_read_is_packed_once(tmp_path: Path) -> None:
    data = np.random.default_rng(5).standard_normal((8, 2 * WIDTH)).astype("float32")
    answer, megabytes = answered(shared_module(6), tmp_path, data)
    weight = np.concatenate([matrix(1, 2 * WIDTH), matrix(2, 2 * WIDTH)], axis=1)
    for _ in range(6):
        data = np.tanh(data @ weight.T)
    np.testing.assert_allclose(answer, data, rtol=1e-3, atol=1e-4)
    assert megabytes["own"] < 2 * 16 + 16  # six times 16 if each reader packed its own


@given(st.lists(st.integers(1, 40_000), min_size=1, max_size=12))
def test_constants_lie_apart_and_small_ones_first(counts: list[int]) -> None:
    graph, names = Graph("some_region"), [f"constant_{index}" for index in range(len(counts) + 1)]
    sizes = [4 * count for count in (*counts, 300_000)]
    values = {
        name: tvm.runtime.tensor(np.zeros(size // 4, "float32"))
        for name, size in zip(names, sizes, strict=True)
    }
    found = embed(graph, names, values)
    assert found is not None
    embedded, _ = found
    spans = sorted(zip(embedded.offsets, sizes, strict=True))
    assert all(begin + size <= after for (begin, size), (after, _) in pairwise(spans))
    assert [size for _, size in spans] == sorted(sizes)
    assert spans[0][0] >= 8 * len(sizes)  # behind the offsets
    assert all(begin % (4096 if size >= 4096 else 64) == 0 for begin, size in spans)
    assert embedded.symbol.size >= max(begin + size for begin, size in spans)
