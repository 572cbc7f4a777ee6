"""ONNX Runtime and oneDNN in one model: who is cheaper for what gets it, and the whole computes the same."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.relax import op

import annotated_region as ar
from annotated_region.backends.dnnl import installation
from annotated_region.host_targets import UNOPTIMIZED

TARGETS = ["onnxruntime", "dnnl"]
needs_onednn = pytest.mark.skipif(
    installation.unavailable() is not None, reason=str(installation.unavailable())
)


def weight(*shape, seed=0):
    values = np.random.default_rng(seed).standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
    return relax.const(values.astype("float32"))


def small_network():
    """Two convolutions, then a softmax over a product."""
    x = relax.Var("x", relax.TensorType((1, 8, 16, 16), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for seed in range(2):
                value = builder.emit(op.nn.conv2d(value, weight(8, 8, 3, 3, seed=seed), padding=1))
                value = builder.emit(op.nn.relu(value))
            flat = builder.emit(op.reshape(value, (1, 8 * 16 * 16)))
            scores = builder.emit(op.matmul(flat, weight(8 * 16 * 16, 10)))
            out = builder.emit_output(op.nn.softmax(scores))
        builder.emit_func_output(out)
    return builder.finalize()


def run(executable, data):
    return relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(data)).numpy()


class Prices:
    """A cost model by which convolutions are oneDNN's, and the rest is ONNX Runtime's."""

    def launch(self, target):
        return 1.0

    def compute(self, target, unit):
        convolves = any(view.name in ("relax.nn.conv2d", "relax.nn.relu") for view in unit.ops)
        return {"host": 100.0, "dnnl": 1.0 if convolves else 50.0, "onnxruntime": 50.0 if convolves else 1.0}[
            target
        ]

    def transfer(self, size, source, destination):
        return 0.0 if source == destination == "host" else 0.5


def placed(report):
    (function,) = report.functions
    return [entry.placed for entry in function.ops]


@needs_onednn
def test_each_engine_gets_what_it_is_cheaper_for_and_the_whole_runs():
    mod = small_network()
    policy = ar.LeastCost(Prices())
    assert placed(ar.explain(mod, TARGETS, policy, prepare=False)) == ["dnnl"] * 4 + ["onnxruntime"] * 3
    part = ar.partition(mod, TARGETS, policy, prepare=False)
    externals = [name.name_hint for name in part.get_global_vars() if name.name_hint != "main"]
    assert sorted(name.split("_")[0] for name in externals) == ["dnnl", "onnxruntime"]
    data = np.random.default_rng(1).standard_normal((1, 8, 16, 16)).astype("float32")
    np.testing.assert_allclose(
        run(ar.build(part), data), run(tvm.compile(mod, UNOPTIMIZED), data), rtol=1e-4, atol=1e-6
    )


@needs_onednn
def test_measured_costs_place_no_worse_than_any_single_engine(tmp_path):
    """What the clock says differs from machine to machine; that the cheapest placement is found does not."""
    mod = small_network()
    costs = ar.MeasuredCost(tmp_path / "costs.sqlite", rounds=1, progress=False)
    policy = ar.LeastCost(costs)
    cost = {
        name: ar.explain(mod, targets, policy, prepare=False).to_dict()["cost"]
        for name, targets in {"both": TARGETS, "dnnl": ["dnnl"], "onnxruntime": ["onnxruntime"]}.items()
    }
    assert cost["both"] <= min(cost["dnnl"], cost["onnxruntime"]) * (1 + 1e-9)
    data = np.random.default_rng(2).standard_normal((1, 8, 16, 16)).astype("float32")
    part = ar.partition(mod, TARGETS, policy, prepare=False)
    np.testing.assert_allclose(
        run(ar.build(part), data), run(tvm.compile(mod, UNOPTIMIZED), data), rtol=1e-4, atol=1e-6
    )


def test_what_a_session_fuses_is_one_composite():
    (region,) = [
        function
        for function in ar.partition(small_network(), ["onnxruntime"], prepare=False).functions.values()
        if function.attrs and "Codegen" in function.attrs
    ]
    inner = [
        b.value for block in region.body.blocks for b in block.bindings if isinstance(b.value, relax.Function)
    ]
    assert [str(function.attrs["Composite"]) for function in inner] == ["onnxruntime.conv2d_relu"] * 2


def test_a_composite_is_declined_for_what_one_of_its_ops_is_declined_for():
    x = relax.Var("x", relax.TensorType((1, 8, 9, 9), "float64"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            kernel = relax.const(np.ones((8, 8, 3, 3)), "float64")
            out = builder.emit_output(op.nn.relu(builder.emit(op.nn.conv2d(x, kernel))))
        builder.emit_func_output(out)
    report = str(ar.explain(builder.finalize(), ["onnxruntime"], prepare=False))
    assert "onnxruntime supports Conv for float16, float32, not float64" in report
