"""The kernels of a region, by ONNX Runtime's own profile."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

import annotated_region as ar

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed (extra `onnxruntime`)")

from annotated_region.backends.onnxruntime.kernel_times import recorded_steps, recording


@I.ir_module
class Product:
    @R.function
    def main(x: R.Tensor((64, 64), "float32"), w: R.Tensor((64, 64), "float32")) -> R.Tensor:
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.exp(a)
            c = R.sum(b, axis=[1])
            R.output(c)
        return c


X = np.random.default_rng(0).standard_normal((64, 64)).astype("float32")


def test_a_profile_names_the_kernels_of_onnx_runtime():
    executable = ar.build(ar.partition(Product, ["onnxruntime"]))
    (region,) = ar.profile(executable, [X, X], rounds=3).regions
    assert [step.name.split()[0] for step in region.steps] == ["MatMul", "Exp", "ReduceSum"]
    assert all(step.seconds > 0 for step in region.steps)
    assert sum(step.seconds for step in region.steps) < 10 * region.seconds
    assert region.ops == ("a", "b", "c")


def test_recorded_runs_answer_the_same_and_leave_nothing():
    executable = ar.build(ar.partition(Product, ["onnxruntime"]))
    machine = relax.VirtualMachine(executable, tvm.cpu())
    arguments = [tvm.runtime.tensor(0.01 * X), tvm.runtime.tensor(X)]
    plain = machine["main"](*arguments).numpy()
    with recorded_steps() as steps_of:
        record = recording()
        assert record is not None
        assert np.array_equal(machine["main"](*arguments).numpy(), plain)
    assert steps_of("onnxruntime_main_0")
    assert steps_of("another") == ()
    assert recording() is None
    assert not record.folder.exists()
