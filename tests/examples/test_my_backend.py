"""The backend of ``docs/adding-a-backend.md``: found by its entry point, fails the kit only when wrong."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tvm
from kits.targets.installed_packages_kit import pretend_installed
from tvm import relax

import annotated_region as ar
from annotated_region.testing.conformance import check_backend
from annotated_region.testing.registry import temporary_registrations

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "my_backend"
DOCUMENT = ROOT / "docs" / "adding-a-backend.md"
SOURCE = (FOLDER / "my_backend" / "__init__.py").read_text()


@pytest.fixture
def my_backend(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    module = importlib.import_module("my_backend")
    with temporary_registrations():
        module.register()
        yield module


def small_module(shape=(2, 3)):
    builder = relax.BlockBuilder()
    x, y = (relax.Var(name, relax.TensorType(shape, "float32")) for name in "xy")
    with builder.function("main", [x, y]):
        with builder.dataflow():
            total = builder.emit(relax.op.nn.relu(builder.emit(relax.op.add(x, y))))
            result = builder.emit_output(relax.op.multiply(total, relax.op.tanh(x)))
        builder.emit_func_output(result)
    return builder.get()


def test_it_passes_the_conformance_kit(my_backend):
    found = check_backend(my_backend.NAME, examples=12)
    assert set(found.placed) == set(my_backend.OPS)
    assert found.untried == ()


def test_the_kit_finds_a_wrong_operation_and_shrinks_it(my_backend, monkeypatch):
    monkeypatch.setitem(my_backend.OPS, "relax.multiply", "{0} * {0}")
    with pytest.raises(ar.ConformanceError, match=r"my_backend fails on this graph: ") as caught:
        check_backend(my_backend.NAME, examples=6)
    assert re.findall(r"= R\.([\w.]+)\(", str(caught.value)) == ["multiply"]
    relax.analysis.well_formed(caught.value.module)


def test_it_computes_and_says_what_it_claims(my_backend):
    mod = small_module()
    report = ar.explain(mod, [my_backend.NAME], prepare=False)
    assert str(report).splitlines()[0] == "my_backend: 3 of 4 ops in 1 region"
    machine = relax.VirtualMachine(ar.build(ar.partition(mod, [my_backend.NAME], prepare=False)), tvm.cpu())
    x, y = (np.random.default_rng(seed).standard_normal((2, 3), dtype=np.float32) for seed in (0, 1))
    got = machine["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(y)).numpy()
    np.testing.assert_allclose(got, np.maximum(x + y, 0) * np.tanh(x), rtol=1e-5, atol=1e-6)


def test_composites_are_claimed_and_the_cost_description_is_one(my_backend):
    (function,) = ar.explain(
        small_module(),
        [my_backend.NAME],
        ar.LeastCost(ar.RooflineCost({my_backend.NAME: my_backend.DEVICE})),
        prepare=False,
    ).functions
    claims = {op.op: op.claims.get(my_backend.NAME, ()) for op in function.ops}
    assert "my_backend.add_relu" in claims["relax.nn.relu"]
    assert function.resolution["cost"] > 0


@pytest.mark.parametrize(
    ("ty", "reason"),
    [
        (relax.TensorType((2, 3), "float16"), "only float32"),
        (relax.TensorType((tvm.tirx.Var("n", "int64"), 3), "float32"), "not known before it runs"),
    ],
    ids=["float16", "symbolic"],
)
def test_it_declines_with_a_reason(my_backend, ty, reason):
    builder = relax.BlockBuilder()
    x = relax.Var("x", ty)
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.nn.relu(x))
        builder.emit_func_output(result)
    assert reason in str(ar.explain(builder.get(), [my_backend.NAME], prepare=False))


def test_installed_it_is_found_and_a_broken_one_harms_nobody(tmp_path):
    (entry,) = re.findall(r'^my_backend = "(.*)"$', (FOLDER / "pyproject.toml").read_text(), re.MULTILINE)
    pretend_installed(tmp_path, "my_backend", entry)
    (tmp_path / "broken.py").write_text("raise RuntimeError('out of order')\n")
    pretend_installed(tmp_path, "broken", "broken:register")
    program = (
        "import annotated_region as ar\n"
        "assert 'my_backend' in ar.known_targets() and 'dnnl' in ar.known_targets()\n"
        "try:\n    ar.partition(__import__('tvm').IRModule(), ['broken'])\n"
        "except ar.BackendUnavailableError as error:\n    print(error)\n"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(FOLDER), str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert "provides target 'broken' could not be loaded: RuntimeError: out of order" in finished.stdout


def test_the_document_shows_the_whole_code_that_is_tested():
    """Put together, its pieces are the example, but for the example's docstring."""
    text = DOCUMENT.read_text()
    told = text[: text.index("Install it, and no")]
    pieces = re.findall(r"```python\n(.*?)```", told, re.DOTALL)
    code = SOURCE[SOURCE.index("from __future__") :]
    assert "".join("".join(pieces).split()) == "".join(code.split())
    (project,) = re.findall(r"```toml\n(.*?)```", told, re.DOTALL)
    assert project == (FOLDER / "pyproject.toml").read_text()
