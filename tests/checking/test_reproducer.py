"""Reproducers: whole folders, the same bytes each time, whose scripts show the difference."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tvm
from kits.checking.faulty_backend import NAME, Fault, register
from tvm.script import ir as I
from tvm.script import relax as R

import annotated_region as ar
from annotated_region.backends.dnnl import installation
from annotated_region.testing.registry import temporary_registrations

needs_onednn = pytest.mark.skipif(
    installation.unavailable() is not None, reason=str(installation.unavailable())
)


@I.ir_module
class Small:
    @R.function
    def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        with R.dataflow():
            a = R.multiply(x, R.const([1.0, 2.0, 3.0], "float32"))
            b = R.nn.relu(a)
            c = R.add(b, x)
            R.output(c)
        return c


@pytest.fixture
def report():
    with temporary_registrations():
        register(["relax.multiply", "relax.nn.relu", "relax.add"], Fault("scale", "a"))
        yield ar.check(Small, [NAME])


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_a_reproducer_holds_the_smallest_failing_part(report, tmp_path):
    folder = report.save_reproducer(tmp_path / "fault")
    mod = tvm.script.from_source((folder / "module.py").read_text())
    calls = [binding.value for binding in mod["main"].body.blocks[0].bindings]
    assert [str(call.op.name) for call in calls] == ["relax.multiply"]
    expected, actual, inputs, constants = (
        np.load(folder / f"{name}.npz") for name in ("expected", "actual", "inputs", "constants")
    )
    assert np.allclose(expected["a"], inputs["x"] * constants["constant"])
    assert np.allclose(actual["a"], 1.3 * expected["a"])
    assert "a (relax.multiply)" in (folder / "README.txt").read_text()


def test_a_reproducer_is_the_same_bytes_each_time_and_overwrites_nothing(report, tmp_path):
    first, second = (files(report.save_reproducer(tmp_path / name)) for name in ("one", "two"))
    assert first == second
    with pytest.raises(ar.ReproducerError, match=r"already exists and is not overwritten"):
        report.save_reproducer(tmp_path / "one")
    assert not list(tmp_path.glob(".unfinished-*"))


def test_the_script_of_the_engine_needs_nothing_of_ours(report, tmp_path):
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed (extra `onnxruntime`)")
    folder = report.save_reproducer(tmp_path / "fault")
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(folder, elsewhere)
    (elsewhere / "module.py").unlink()
    found = subprocess.run(
        [sys.executable, "show_onnxruntime.py"],
        cwd=elsewhere,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = found.stdout.splitlines()
    value, wanted = float(line.split()[1]), float(line.split()[4])
    assert line.startswith("a: ")
    assert value == pytest.approx(wanted)  # this engine is right


def test_the_script_builds_for_the_target_and_shows_the_difference(report, tmp_path):
    text = (report.save_reproducer(tmp_path / "fault") / "show.py").read_text()
    namespace = {"__file__": str(tmp_path / "fault" / "show.py")}
    exec(compile(text, "show.py", "exec"), namespace)
    assert np.allclose(namespace["answers"][0], np.load(tmp_path / "fault" / "actual.npz")["a"])


def test_nothing_to_reproduce_is_an_error(tmp_path):
    with temporary_registrations():
        register(["relax.multiply"])
        with pytest.raises(ar.ReproducerError, match=r"no region fails"):
            ar.check(Small, [NAME]).save_reproducer(tmp_path / "fault")
    assert not (tmp_path / "fault").exists()


@I.ir_module
class Wide:
    """A product between changes of its shape, which do not allow every extent."""

    @R.function
    def main(x: R.Tensor((6, 48), "float32"), w: R.Tensor((48, 40), "float32")) -> R.Tensor(
        (6, 40), "float32"
    ):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.reshape(a, R.shape([2, 3, 40]))
            c = R.nn.relu(b)
            d = R.reshape(c, R.shape([6, 40]))
            R.output(d)
        return d


def test_shapes_are_the_smallest_that_fail(tmp_path):
    with temporary_registrations():
        register(["relax.matmul", "relax.reshape", "relax.nn.relu"], Fault("scale", "a"))
        folder = ar.check(Wide, [NAME]).save_reproducer(tmp_path / "scale")
        register(["relax.matmul", "relax.reshape", "relax.nn.relu"], Fault("mask", "a"))
        other = ar.check(Wide, [NAME]).save_reproducer(tmp_path / "mask")
    assert [np.load(folder / "inputs.npz")[name].shape for name in ("x", "w")] == [(1, 1), (1, 1)]
    expected, actual = (np.load(folder / f"{name}.npz")["a"] for name in ("expected", "actual"))
    assert np.allclose(actual, 1.3 * expected)
    assert np.load(other / "actual.npz")["a"].shape == (1, 1)
    assert np.load(other / "actual.npz")["a"] == 0


@I.ir_module
class Lookup:
    @R.function
    def main(table: R.Tensor((16, 8), "float32"), ids: R.Tensor((4,), "int64")) -> R.Tensor(
        (4, 8), "float32"
    ):
        with R.dataflow():
            a = R.take(table, ids, axis=0)
            R.output(a)
        return a


def test_indices_stay_within_their_tables(tmp_path):
    with temporary_registrations():
        register(["relax.take"], Fault("scale", "a"))
        inputs = {"table": np.ones((16, 8), "float32"), "ids": np.asarray([9, 1, 2, 3], "int64")}
        folder = ar.check(Lookup, [NAME], inputs=inputs).save_reproducer(tmp_path / "fault")
    kept = np.load(folder / "inputs.npz")
    assert kept["ids"].max() < kept["table"].shape[0]
    assert kept["table"].shape == (16, 1)


@needs_onednn
def test_a_reproducer_of_dnnl_holds_the_lines_of_onednn(tmp_path):
    """An error of a rounding is a fault where nothing is allowed."""
    report = ar.check(Wide, ["dnnl"], atol=1e-12, min_work={"dnnl": 0})
    folder = report.save_reproducer(tmp_path / "fault")
    lines = (folder / "engine.txt").read_text().splitlines()
    assert all(line.startswith("onednn_verbose") for line in lines)
    assert any(",exec,cpu,matmul," in line for line in lines)
    assert files(report.save_reproducer(tmp_path / "again")) == files(folder)


def test_numbers_among_operands_shrink_with_the_extents_that_they_mean(tmp_path):
    @I.ir_module
    class Sliced:
        @R.function
        def main(x: R.Tensor((12, 24), "float32")) -> R.Tensor((12, 24)):
            with R.dataflow():
                a = R.strided_slice(x, axes=[1], begin=[0], end=[24])
                R.output(a)
            return a

    with temporary_registrations():
        register(["relax.strided_slice"], Fault("scale", "a"))
        folder = ar.check(Sliced, [NAME]).save_reproducer(tmp_path / "fault")
    assert np.load(folder / "inputs.npz")["x"].shape == (1, 1)
    assert "R.prim_value(24)" not in (folder / "module.py").read_text()
