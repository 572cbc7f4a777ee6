"""ONNX Runtime end to end: models, several results, any shape, settings, threads, and what goes wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
import tvm_ffi
from kits.backends import engine_kit
from kits.backends.engine_kit import array, call, expected_two, results_of_threads, two_results
from kits.backends.relax_kit import module, var
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar
from annotated_region.backends.onnx_emitter import packages
from annotated_region.backends.onnx_emitter.entry import Description
from annotated_region.backends.onnxruntime import installation, runtime
from annotated_region.backends.onnxruntime.session import SessionSettings
from annotated_region.errors import BackendUnavailableError, CodegenError
from annotated_region.testing.light_models import input_of, light_model, light_module

built = partial(engine_kit.built, "onnxruntime")


def recorded(calls, make):
    def make_and_note(*args):
        calls.append(args)
        return make(*args)

    return make_and_note


def symbols_of(mod):
    return [
        str(name.name_hint)
        for name, function in mod.functions.items()
        if function.attrs and "Codegen" in function.attrs
    ]


# --- it runs


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_a_light_model_is_one_region_and_runs_as_on_onnx_runtime_itself(name):
    model = light_model(name)
    inputs = input_of(model)
    partitioned = ar.partition(light_module(name), ["onnxruntime"])
    assert symbols_of(partitioned) == ["onnxruntime_main_0"]
    machine = relax.VirtualMachine(ar.build(partitioned), tvm.cpu())
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for _ in range(2):
        found = call(machine, *inputs.values())[0]
        np.testing.assert_allclose(found, session.run(None, inputs)[0], rtol=1e-3, atol=1e-5)


def test_several_results_are_written_where_the_caller_wants_them():
    machine = built(two_results())
    for seed in (1, 2):
        data = array(4, 32, seed=seed)
        found, wanted = call(machine, data), expected_two(data)
        np.testing.assert_allclose(found[0], wanted[0], rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(found[1], wanted[1])


def test_a_result_that_is_transposed_and_quantized_is_given_out_as_it_is():
    x, scale, zero = var("x", (2, 3)), relax.const(np.float32(0.05)), relax.const(np.int8(0))

    def make(builder):
        made = builder.emit(op.exp(x))
        turned = builder.emit(op.permute_dims(made))
        small = builder.emit(op.quantize(turned, scale, zero, axis=0))
        return relax.Tuple([made, builder.emit(op.dequantize(small, scale, zero, axis=0))])

    data = np.array([[0, 1, 2], [3, 4, 5]], "float32")
    found = call(built(module([x], make)), data)
    np.testing.assert_allclose(found[0], np.exp(data), rtol=1e-6)
    assert found[1].max() == np.float32(127) * np.float32(0.05)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_of_bounds_that_cross_the_lower_one_counts_as_in_tvm(dtype):
    x = var("x", (3,), dtype)
    found = call(built(module([x], lambda _: op.clip(x, 2, 1))), np.array([0, 1, 5], dtype))
    np.testing.assert_array_equal(found[0], np.full(3, 2, dtype))


def test_one_machine_runs_any_batch_and_length():
    n, s = tirx.Var("n", "int64"), tirx.Var("s", "int64")
    x = var("x", (n, s, 8))

    def make(builder):
        flat = builder.emit(op.reshape(x, (n * s, 8)))
        product = builder.emit(op.matmul(flat, relax.const(array(8, 8))))
        return op.nn.softmax(op.reshape(product, (n, s, 8)), -1)

    machine = built(module([x], make))
    for extents in ((1, 1), (3, 5), (2, 7)):
        data = array(*extents, 8)
        scores = np.exp(data @ array(8, 8))
        np.testing.assert_allclose(
            call(machine, data)[0], scores / scores.sum(-1, keepdims=True), rtol=1e-4, atol=1e-6
        )


def test_a_symbol_that_no_tensor_of_the_region_has_is_passed_as_a_shape():
    n = tirx.Var("n", "int64")
    x, other = var("x", (1, 3)), var("other", (n, 2))
    mod = module([x, other], lambda _: (op.exp(op.broadcast_to(x, (n, 3))), op.cumprod(other, 1)))
    partitioned = ar.partition(mod, ["onnxruntime"], prepare=False)
    (symbol,) = symbols_of(partitioned)
    assert any(isinstance(param.ty, relax.ShapeType) for param in partitioned[symbol].params)
    machine = relax.VirtualMachine(ar.build(partitioned), tvm.cpu())
    for rows in (4, 1):
        found = call(machine, array(1, 3), array(rows, 2))[0]
        np.testing.assert_allclose(found, np.repeat(np.exp(array(1, 3)), rows, 0), rtol=1e-6)


def test_half_precision_and_truth_values_pass_as_they_are():
    x, y = var("x", (2, 8), "float16"), var("y", (2, 8), "bool")
    mod = module([x, y], lambda _: (op.where(y, op.nn.gelu(x), x), op.logical_not(y)))
    data, mask = array(2, 8).astype("float16"), array(2, 8, seed=9) > 0
    first, second = call(built(mod), data, mask)
    assert first.dtype == np.float16
    np.testing.assert_array_equal(first[~mask], data[~mask])
    np.testing.assert_array_equal(second, ~mask)


def test_two_modules_with_functions_of_one_name_keep_apart():
    def adding(value):
        x = var("x", (3,))
        return built(module([x], lambda _: op.add(x, relax.const(np.full(3, value, "float32")))))

    one, two = adding(1), adding(2)
    zeros = np.zeros(3, "float32")
    assert [call(machine, zeros)[0][0] for machine in (one, two, one)] == [1, 2, 1]


def test_several_threads_may_call_one_region():
    loaded = ar.build(ar.partition(two_results(), ["onnxruntime"], prepare=False)).jit()
    for data, found in results_of_threads(loaded, 4, 32):
        np.testing.assert_allclose(found, expected_two(data)[0], rtol=1e-4, atol=1e-5)


def test_forked_children_run_what_the_parent_has_run():
    """A child has none of the threads of ONNX Runtime; one that waits for them is ended by its alarm."""
    x = var("x", (256, 256))
    mod = module([x], lambda _: op.nn.softmax(op.matmul(x, relax.const(array(256, 256)))))
    machine = built(mod, threads=4)
    data = array(256, 256, seed=6)
    expected = call(machine, data)[0]
    for _ in range(20):
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            os._exit(0 if np.array_equal(call(machine, data)[0], expected) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        np.testing.assert_array_equal(call(machine, data)[0], expected)


def test_onnx_runtime_and_dnnl_share_a_model():
    """What one declines the other may take; both kinds of code are linked into one library."""
    x = var("x", (1, 8))

    def make(builder):
        left = builder.emit(op.nn.relu(op.matmul(x, relax.const(array(8, 40)))))
        return op.nn.selu(left)

    partitioned = ar.partition(module([x], make), ["dnnl", "onnxruntime"], prepare=False)
    assert sorted(name.split("_")[0] for name in symbols_of(partitioned)) == ["dnnl", "onnxruntime"]
    machine = relax.VirtualMachine(ar.build(partitioned), tvm.cpu())
    data = array(1, 8, seed=8)
    expected = 1.0507009873554805 * np.maximum(data @ array(8, 40), 0)  # SELU of what is not negative
    np.testing.assert_allclose(call(machine, data)[0], expected, rtol=1e-4, atol=1e-5)


# --- nothing is copied, nothing is made twice


class RecordingSession:
    """Notes what is bound."""

    def __init__(self):
        self.bound = []

    def get_providers(self):
        return ["CPUExecutionProvider"]

    def io_binding(self):
        return self

    def bind_input(self, *place):
        self.bound.append(place)

    bind_output = bind_input

    def run_with_iobinding(self, binding):
        assert binding is self


def test_inputs_and_outputs_are_bound_where_they_lie():
    session = RecordingSession()
    runner = runtime.Runner(Description("r", ("a",), ("b",), ()), session, {})
    source, target = (tvm.runtime.tensor(array(2, 3)) for _ in range(2))
    runner(source, target)
    dtype = np.dtype("float32")
    assert session.bound == [
        ("a", "cpu", 0, dtype, [2, 3], source.data_ptr()),
        ("b", "cpu", 0, dtype, [2, 3], target.data_ptr()),
    ]


def test_a_view_with_gaps_is_made_dense():
    session = RecordingSession()
    runner = runtime.Runner(Description("r", ("a",), (), ()), session, {})
    view = tvm_ffi.from_dlpack(np.arange(12, dtype="float32").reshape(3, 4)[:, ::2])
    assert not view.is_contiguous()
    runner(view)
    ((_name, _device, _index, _dtype, shape, address),) = session.bound
    assert shape == [3, 2]
    assert address != view.data_ptr()


def test_a_session_is_made_once_for_all_machines_of_a_library(monkeypatch):
    made = []
    monkeypatch.setattr(runtime, "make_session", recorded(made, runtime.make_session))
    loaded = ar.build(ar.partition(two_results(), ["onnxruntime"], prepare=False)).jit()
    for _ in range(2):
        machine = relax.VirtualMachine(loaded, tvm.cpu())
        for _ in range(2):
            call(machine, array(4, 32))
    assert len(made) == 1


def test_weights_are_read_where_they_lie():
    weights = tvm.runtime.tensor(array(64, 64))
    seen = {}

    def make_session(_model, arrays, _settings):
        seen.update(arrays)
        return RecordingSession()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime, "make_session", make_session)
        runtime.open_region(Description("r", (), (), ("w",)), b"", [weights])
    assert seen["w"].ctypes.data == weights.data_ptr()


# --- settings


def test_settings_reach_the_session(monkeypatch):
    made = []
    monkeypatch.setattr(runtime, "make_session", recorded(made, runtime.make_session))
    call(built(two_results(), threads=2, spinning=True, optimization="basic"), array(4, 32))
    ((_model, _weights, settings),) = made
    assert settings == SessionSettings(("CPUExecutionProvider",), 2, True, "basic")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"thread": 1}, r"does not know the option 'thread'; known: providers, threads"),
        ({"optimization": "most"}, r"optimization 'most'; known: disable_all"),
        ({"threads": -1}, r"-1 threads"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_when_the_module_is_built(options, message):
    with pytest.raises(CodegenError, match=message):
        built(two_results(), **options)


def test_a_provider_that_is_not_there_is_named_at_run_time():
    machine = built(two_results(), providers=["NoSuchExecutionProvider"])
    with pytest.raises(BackendUnavailableError, match=r"has no NoSuchExecutionProvider, only .*CPUExecution"):
        call(machine, array(4, 32))


# --- where it is missing


def test_a_missing_library_is_reported_with_its_remedy(monkeypatch):
    find = packages.find_spec
    monkeypatch.setattr(packages, "find_spec", lambda name: None if name == "onnxruntime" else find(name))
    assert installation.unavailable() == "onnxruntime not installed; pip install onnxruntime"
    report = str(ar.explain(two_results(), ["onnxruntime"], prepare=False))
    assert "pip install onnxruntime" in report
    with pytest.raises(BackendUnavailableError, match="pip install onnxruntime"):
        ar.build(ar.partition(two_results(), ["onnxruntime"], prepare=False, cross_compile=True))


def test_every_claim_has_a_converter_and_every_other_op_a_reason():
    x = var("x", (4, 8))
    report = ar.explain(module([x], lambda _: op.cumprod(op.exp(x), 1)), ["onnxruntime"], prepare=False)
    (function,) = report.functions
    assert [entry.placed for entry in function.ops] == ["onnxruntime", "host"]
    assert "ONNX has no cumulative product" in str(report)


SCATTERED = ("float16", "float32", "float64", "int32", "int64", "int8", "uint8", "bool")


def is_run_by_onnx_runtime(kind, reduction, dtype):
    """Whether a model of one such operator, written without the emitter, runs."""
    element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    indices = np.array([[0] * 3, [1] * 3] if kind == "ScatterElements" else [[0], [1]], "int64")
    values = {"x": (3, 3), "u": (2, 3), "y": (3, 3)}
    x, u, y = (onnx.helper.make_tensor_value_info(name, element, shape) for name, shape in values.items())
    node = onnx.helper.make_node(kind, ["x", "i", "u"], ["y"], reduction=reduction)
    graph = onnx.helper.make_graph(
        [node], "scatter", [x, u], [y], [onnx.numpy_helper.from_array(indices, "i")]
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        session.run(None, {name: np.ones(values[name], dtype) for name in "xu"})
    except (ort_errors.NotImplemented, ort_errors.RuntimeException):
        return False
    return True


@pytest.mark.parametrize("dtype", SCATTERED)
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("kind", ["ScatterElements", "ScatterND"])
def test_scattering_is_claimed_for_the_types_that_it_or_a_wider_type_runs_for(kind, reduction, dtype):
    x = var("x", (3, 3), dtype)
    how = "update" if reduction == "none" else reduction
    if kind == "ScatterElements":
        indices, u = relax.const(np.array([[0] * 3, [1] * 3], "int64")), var("u", (2, 3), dtype)
        built = module([x, u], lambda _: op.scatter_elements(x, indices, u, 0, how))
    else:
        indices, u = relax.const(np.array([[0], [1]], "int64")), var("u", (2, 3), dtype)
        built = module([x, u], lambda _: op.scatter_nd(x, indices, u, how))
    (function,) = ar.explain(built, ["onnxruntime"], prepare=False).functions
    claimed = [entry.placed == "onnxruntime" for entry in function.ops]
    types = [dtype, "float32"] if dtype == "float16" else [dtype]
    assert claimed == [any(is_run_by_onnx_runtime(kind, reduction, each) for each in types)]


RUN = """
import sys
import numpy as np
import tvm
from tvm import relax
library, image, mode = sys.argv[1:]
if mode == "with":
    import annotated_region.backends.onnxruntime
machine = relax.VirtualMachine(tvm.runtime.load_module(library), tvm.cpu())
print(machine["main"](tvm.runtime.tensor(np.load(image)))[0].numpy().sum())
"""


def test_an_exported_library_finds_its_runtime_also_where_plugins_of_tvm_are_off(tmp_path):
    path, image = str(tmp_path / "model.so"), str(tmp_path / "image.npy")
    ar.build(ar.partition(two_results(), ["onnxruntime"], prepare=False)).export_library(path)
    np.save(image, array(4, 32))

    def run(mode, autoload):
        return subprocess.run(
            [sys.executable, "-c", RUN, path, image, mode],
            env=os.environ | {"TVM_DEVICE_BACKEND_AUTOLOAD": autoload},
            capture_output=True,
            text=True,
            check=False,
        )

    for result in (run("with", "0"), run("without", "1"), run("without", "0")):
        assert result.returncode == 0, result.stderr
        np.testing.assert_allclose(float(result.stdout), expected_two(array(4, 32))[0].sum(), rtol=1e-4)
