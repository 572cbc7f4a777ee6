"""Large constants lie in the library itself, and are read again from there after they were given back."""

from __future__ import annotations

import gc
import platform
import re
import subprocess
import tarfile
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
from annotated_region.compilation.elf_object import symbol_of
from annotated_region.compilation.objects import SharedLibraryLinker

WIDTH = 800  # two weights of 2.6 MB, so that half of both is more than the 1.45 MB of the runtime


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
    require_right(str(library))


def require_right(library: str) -> None:
    """Both functions of a library answer right."""
    machine = relax.VirtualMachine(tvm.runtime.load_module(library), tvm.cpu())
    data = np.random.default_rng(0).standard_normal((3, WIDTH)).astype("float32")
    for seed, name in enumerate(("first", "second")):
        expected = np.maximum(data @ weights(seed) + np.arange(WIDTH), 0)
        found = machine[name](tvm.runtime.tensor(data)).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@needs_onednn
def test_every_way_of_linking_finds_the_constants(tmp_path: Path) -> None:
    """The module that was built is gone by then: the executable holds them."""
    built = ar.build(ar.partition(module(), ["dnnl"]))
    gc.collect()
    (tmp_path / "other.c").write_text("int other = 1;\n", encoding="ascii")
    ways: dict[str, dict[str, object]] = {
        "ours.so": {},
        "again.so": {},
        "more_of_ours.so": {"addons": [str(tmp_path / "other.c")]},
        "of_others.so": {
            "fcompile": SharedLibraryLinker(built.sources),
            "addons": [str(tmp_path / "other.c")],
        },
    }
    for name, words in ways.items():
        library = str(tmp_path / name)
        built.export_library(library, **words)
        require_right(library)
    assert (tmp_path / "ours.so").read_bytes() == (tmp_path / "again.so").read_bytes()


@needs_onednn
def test_an_archive_of_sources_and_objects_holds_the_constants(tmp_path: Path) -> None:
    archive = tmp_path / "objects.tar"
    ar.build(ar.partition(module(), ["dnnl"])).export_library(str(archive))
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "objects", filter="data")
    found = [symbol_of(each) for each in sorted((tmp_path / "objects").rglob("*.o"))]
    sizes = [each.size for each in found if each is not None]
    assert len(sizes) == 2
    assert all(0 <= size - 4 * WIDTH * WIDTH < 1 << 14 for size in sizes)


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
