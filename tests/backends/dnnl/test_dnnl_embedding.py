"""Large constants lie in the library itself, and are read again from there after they were given back."""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import needs_onednn
from tvm import relax, tirx
from tvm.relax import op
from tvm.support import cc

import annotated_region as ar
from annotated_region.backends.dnnl.embedding import embed
from annotated_region.backends.dnnl.graph import Graph

WIDTH = 600  # 1.4 MB of weights


def weights(seed: int) -> np.ndarray:
    numbers: np.ndarray = np.random.default_rng(seed).standard_normal((WIDTH, WIDTH), "float32")
    return numbers / np.float32(WIDTH**0.5)


def module() -> tvm.IRModule:
    """Two functions over any number of rows; one also answers a constant as it is."""
    builder = relax.BlockBuilder()
    for seed, name in enumerate(("first", "second")):
        rows = tirx.Var("rows", "int64")
        x = relax.Var("x", relax.TensorType((rows, WIDTH), "float32"))
        matrix, shift = relax.const(weights(seed)), relax.const(np.arange(WIDTH, dtype="float32"))
        with builder.function(name, [x]):
            with builder.dataflow():
                product = builder.emit(op.add(op.matmul(x, matrix), shift))
                result = builder.emit_output(op.nn.relu(product))
            builder.emit_func_output(result)
    return builder.finalize()


@needs_onednn
def test_embedded_constants_serve_every_shape_and_function(tmp_path: Path) -> None:
    library, plain = tmp_path / "embedded.so", tmp_path / "plain.so"
    ar.build(ar.partition(module(), ["dnnl"])).export_library(str(library))
    tvm.compile(module(), "llvm").export_library(str(plain))
    weights_bytes = 2 * 4 * WIDTH * WIDTH  # in both libraries once, and the runtime in one of them
    assert library.stat().st_size < plain.stat().st_size + weights_bytes // 2
    loaded = tvm.runtime.load_module(str(library))
    machine = relax.VirtualMachine(loaded, tvm.cpu())
    for rows in (1, 7, 64, 7, 1):
        data = np.random.default_rng(rows).standard_normal((rows, WIDTH)).astype("float32")
        for seed, name in enumerate(("first", "second")):
            expected = np.maximum(data @ weights(seed) + np.arange(WIDTH), 0)
            found = machine[name](tvm.runtime.tensor(data)).numpy()
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@needs_onednn
@pytest.mark.skipif(platform.machine() != "x86_64", reason="elsewhere code reaches further than 2 GB")
def test_constants_may_lie_gigabytes_behind_the_code_that_reads_them(tmp_path: Path) -> None:
    library, far = tmp_path / "far.so", 5 << 30
    options = [f"-Wl,--section-start=.lrodata={far:#x}"]
    ar.build(ar.partition(module(), ["dnnl"])).export_library(str(library), options=options)
    command = ["readelf", "--wide", "--sections", str(library)]
    sections = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (place,) = re.findall(r" \.lrodata +PROGBITS +([0-9a-f]+)", sections)
    assert int(place, 16) == far
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cpu())
    data = np.random.default_rng(0).standard_normal((3, WIDTH)).astype("float32")
    for seed, name in enumerate(("first", "second")):
        expected = np.maximum(data @ weights(seed) + np.arange(WIDTH), 0)
        found = machine[name](tvm.runtime.tensor(data)).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def region(count: int) -> tuple[Graph, dict[str, tvm.runtime.Tensor]]:
    graph = Graph("some_region")
    graph.tensor((count,), source="weights")
    return graph, {"weights": tvm.runtime.tensor(np.ones(count, "float32"))}


def test_small_constants_are_left_to_tvm() -> None:
    graph, values = region(1000)
    assert embed(graph, ["weights"], values) is None


def test_without_a_compiler_constants_are_left_to_tvm(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, values = region(1 << 19)
    monkeypatch.setattr(cc, "get_cc", lambda: None)
    assert embed(graph, ["weights"], values) is None
    monkeypatch.setattr(cc, "get_cc", lambda: "/no/such/compiler")
    assert embed(graph, ["weights"], values) is None
