"""OpenVINO end to end: models, several results, any shape, settings, threads, and what goes wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial

import numpy as np
import onnx
import onnxruntime
import openvino
import pytest
import tvm
import tvm_ffi
from kits.backends import engine_kit
from kits.backends.engine_kit import array, call, expected_two, results_of_threads, two_results
from kits.backends.relax_kit import module, var
from kits.interrupts import heard
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar
from annotated_region.backends.onnx_emitter import packages
from annotated_region.backends.openvino import compiled, installation, runtime, support
from annotated_region.backends.openvino.settings import CompileSettings
from annotated_region.errors import (
    BackendUnavailableError,
    BuildError,
    CodegenError,
    RegionRejectedWarning,
)
from annotated_region.testing.light_models import input_of, light_model, light_module

built = partial(engine_kit.built, "openvino")


@pytest.fixture(autouse=True, scope="module")
def _cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def symbols_of(mod):
    return [
        str(name.name_hint)
        for name, function in mod.functions.items()
        if function.attrs and "Codegen" in function.attrs
    ]


def recorded(calls, make):
    def make_and_note(*args):
        calls.append(args)
        return make(*args)

    return make_and_note


# --- it runs


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_a_light_model_is_one_region_and_runs_as_on_onnx_runtime(name):
    model = light_model(name)
    inputs = input_of(model)
    partitioned = ar.partition(light_module(name), ["openvino"])
    assert symbols_of(partitioned) == ["openvino_main_0"]
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


def test_one_machine_runs_any_batch_and_length_and_no_rows():
    n, s = tirx.Var("n", "int64"), tirx.Var("s", "int64")
    x = var("x", (n, s, 8))

    def make(builder):
        flat = builder.emit(op.reshape(x, (n * s, 8)))
        product = builder.emit(op.matmul(flat, relax.const(array(8, 8))))
        return op.nn.softmax(op.reshape(product, (n, s, 8)), -1)

    machine = built(module([x], make))
    for extents in ((1, 1), (3, 5), (0, 4), (2, 7)):
        data = array(*extents, 8)
        scores = np.exp(data @ array(8, 8))
        np.testing.assert_allclose(
            call(machine, data)[0], scores / scores.sum(-1, keepdims=True), rtol=1e-4, atol=1e-6
        )


def test_a_symbol_that_no_tensor_of_the_region_has_is_passed_as_a_shape():
    n = tirx.Var("n", "int64")
    x, other = var("x", (1, 3)), var("other", (n, 2))
    mod = module([x, other], lambda _: (op.exp(op.broadcast_to(x, (n, 3))), op.cumprod(other, 1)))
    partitioned = ar.partition(mod, ["openvino"], prepare=False)
    (symbol,) = symbols_of(partitioned)
    assert any(isinstance(param.ty, relax.ShapeType) for param in partitioned[symbol].params)
    machine = relax.VirtualMachine(ar.build(partitioned), tvm.cpu())
    for rows in (4, 1):
        found = call(machine, array(1, 3), array(rows, 2))[0]
        np.testing.assert_allclose(found, np.repeat(np.exp(array(1, 3)), rows, 0), rtol=1e-6)


def test_a_parameter_that_no_op_needs_has_no_port_in_the_compiled_model():
    n = tirx.Var("n", "int64")
    x, y = var("x", (n, 3)), var("y", (n, 3))

    def make(_builder):
        return op.add(x, op.multiply(op.zeros_like(y), relax.const(np.float32(1))))

    np.testing.assert_array_equal(
        call(built(module([x, y], make)), array(2, 3), array(2, 3, seed=1))[0], array(2, 3)
    )


def test_half_precision_and_truth_values_pass_as_they_are():
    x, y = var("x", (2, 8), "float16"), var("y", (2, 8), "bool")
    mod = module([x, y], lambda _: (op.where(y, op.nn.gelu(x), x), op.logical_not(y)))
    data, mask = array(2, 8).astype("float16"), array(2, 8, seed=9) > 0
    first, second = call(built(mod), data, mask)
    assert first.dtype == np.float16
    np.testing.assert_array_equal(first[~mask], data[~mask])
    np.testing.assert_array_equal(second, ~mask)


def test_products_are_of_single_precision_unless_bf16_is_asked_for():
    """OpenVINO itself computes in bf16 where the processor has it; on others both answers are the same."""
    x = var("x", (16, 256))
    mod = module([x], lambda _: op.matmul(x, relax.const(array(256, 64))))
    data = array(16, 256, seed=2)
    wanted = data.astype("float64") @ array(256, 64).astype("float64")
    error = {
        precision: np.abs(call(built(mod, precision=precision), data)[0] - wanted).max()
        for precision in ("f32", "bf16")
    }
    assert error["f32"] < 1e-4
    has_bf16 = "BF16" in installation.core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    assert (error["bf16"] > 1e-2) == has_bf16


def test_two_modules_with_functions_of_one_name_keep_apart():
    def adding(value):
        x = var("x", (3,))
        return built(module([x], lambda _: op.add(x, relax.const(np.full(3, value, "float32")))))

    one, two = adding(1), adding(2)
    zeros = np.zeros(3, "float32")
    assert [call(machine, zeros)[0][0] for machine in (one, two, one)] == [1, 2, 1]


def test_names_that_mean_something_elsewhere_are_names():
    x, y = var("x:0", (3,)), var("../Identity", (3,))
    mod = module([x, y], lambda _: op.subtract(x, op.exp(y)))
    found = call(built(mod), array(3), array(3, seed=1))[0]
    np.testing.assert_allclose(found, array(3) - np.exp(array(3, seed=1)), rtol=1e-5, atol=1e-6)


def test_several_threads_may_call_one_region():
    loaded = ar.build(ar.partition(two_results(), ["openvino"], prepare=False)).jit()
    for data, found in results_of_threads(loaded, 4, 32):
        np.testing.assert_allclose(found, expected_two(data)[0], rtol=1e-4, atol=1e-5)


def test_forked_children_run_what_the_parent_has_run():
    """A child has none of the threads of OpenVINO; one that waits for them is ended by its alarm."""
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


def test_an_interrupt_leaves_a_region_that_runs_again():
    machine = built(two_results())
    data = array(4, 32)
    expected = call(machine, data)[0]
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)

    def run_on():
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        while True:
            call(machine, data)

    try:
        with heard(), pytest.raises(KeyboardInterrupt):
            run_on()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    np.testing.assert_array_equal(call(machine, data)[0], expected)


# --- nothing is copied, nothing is made twice


def test_a_view_that_begins_anywhere_is_read_and_written_there():
    machine = built(module([x := var("x", (5, 3))], lambda _: op.exp(x)))
    data = array(40, 3)[7:12]
    assert data.ctypes.data % 64
    np.testing.assert_allclose(machine["main"](tvm_ffi.from_dlpack(data)).numpy(), np.exp(data), rtol=1e-5)


def test_a_model_is_compiled_once_for_all_machines_of_a_library(monkeypatch):
    made = []
    monkeypatch.setattr(runtime, "compiled_model", recorded(made, runtime.compiled_model))
    loaded = ar.build(ar.partition(two_results(), ["openvino"], prepare=False)).jit()
    for _ in range(2):
        machine = relax.VirtualMachine(loaded, tvm.cpu())
        for _ in range(2):
            call(machine, array(4, 32))
    assert len(made) == 1


# --- compiled models are kept


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The folder of what is kept, and a list that grows with each model that is compiled."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = []
    monkeypatch.setattr(compiled, "_made", recorded(made, compiled._made))
    return tmp_path / "annotated-region" / "openvino", made


def answered():
    np.testing.assert_allclose(
        call(built(two_results()), array(4, 32))[0], expected_two(array(4, 32))[0], rtol=1e-4, atol=1e-5
    )


def test_a_compiled_model_is_taken_from_the_cache_by_its_content(kept):
    folder, made = kept
    answered()
    answered()
    assert len(made) == len(list(folder.iterdir())) == 1
    call(built(two_results(), precision="bf16"), array(4, 32))
    assert len(made) == 2


@pytest.mark.filterwarnings("ignore:the cached file:annotated_region.errors.CacheWarning")
def test_what_is_damaged_is_compiled_anew(kept):
    folder, made = kept
    answered()
    (entry,) = folder.iterdir()
    entry.write_bytes(entry.read_bytes()[:-7])
    answered()
    assert len(made) == 2


def test_what_openvino_refuses_is_compiled_anew(kept, monkeypatch):
    _, made = kept
    monkeypatch.setattr(compiled.stored, "load", lambda _target, _key: b"of another version")
    answered()
    assert len(made) == 2  # when it is built, and at the first call


def test_nothing_is_kept_where_that_is_asked_for(kept):
    folder, made = kept
    call(built(two_results(), cache=False), array(4, 32))
    assert len(made) == 2  # when it is built, and at the first call
    assert not folder.exists()


# --- settings


def test_settings_reach_the_device(monkeypatch):
    made = []
    monkeypatch.setattr(runtime, "compiled_model", recorded(made, runtime.compiled_model))
    call(built(two_results(), threads=1, precision="bf16", dynamic_quantization=32), array(4, 32))
    ((_symbol, _model, _weights, settings),) = made
    assert settings == CompileSettings("CPU", "bf16", 32, False, 1, True)


def test_the_compiled_model_has_the_properties_that_are_asked_for(monkeypatch):
    made = []
    make = compiled.compiled_model

    def make_and_keep(*args):
        made.append(make(*args))
        return made[-1]

    monkeypatch.setattr(runtime, "compiled_model", make_and_keep)
    x = var("x", (4, 32))
    mod = module([x], lambda _: op.matmul(x, relax.const(array(32, 16))))
    for _ in range(2):  # the second time from the cache
        call(built(mod, threads=1), array(4, 32))
    for each in made:
        assert each.get_property("INFERENCE_PRECISION_HINT") == openvino.Type.f32
        assert each.get_property("DYNAMIC_QUANTIZATION_GROUP_SIZE") == 0
        assert each.get_property("INFERENCE_NUM_THREADS") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"thread": 1}, r"does not know the option 'thread'; known: device, precision"),
        ({"precision": "i8"}, r"precision 'i8'; known: f32, bf16, f16"),
        ({"threads": -1}, r"threads -1; known: 0 and more"),
        ({"dynamic_quantization": "32"}, r"dynamic_quantization '32'"),
        ({"device": ""}, r"device ''; known: names of devices"),
        ({"cache": "yes"}, r"cache 'yes'"),
        ({"snippets": 1}, r"snippets 1; known: True, False"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_when_the_module_is_built(options, message):
    with pytest.raises(CodegenError, match=message):
        built(two_results(), **options)


def test_a_region_that_openvino_refuses_goes_to_the_host():
    """Its bias has more axes than the product, which the plugin forgets when it fuses them."""
    x = var("x", (1, 1, 16))

    def make(builder):
        product = builder.emit(op.matmul(x, relax.const(array(16, 16))))
        return op.add(product, relax.const(array(1, 1, 1, 16)))

    mod = module([x], make)
    with pytest.warns(RegionRejectedWarning, match=r"result of shape \[1,1,16\] instead of \[1,1,1,16\]"):
        machine = built(mod)
    data = array(1, 1, 16)
    wanted = (data @ array(16, 16))[None] + array(1, 1, 1, 16)
    np.testing.assert_allclose(call(machine, data)[0], wanted, rtol=1e-4, atol=1e-5)


def test_a_device_that_is_not_there_is_named_at_run_time():
    machine = built(two_results(), device="NoSuchDevice")
    with pytest.raises(BackendUnavailableError, match=r"has no device NoSuchDevice, only .*CPU"):
        call(machine, array(4, 32))


def test_a_model_that_openvino_refuses_is_an_error_that_names_the_region():
    port = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [3]) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Mod", ["x", "x"], ["y"])], "g", port[:1], port[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9)
    with pytest.raises(BuildError, match=r"region_3: OpenVINO cannot compile it for CPU: "):
        compiled.compiled_model("region_3", model.SerializeToString(), {}, CompileSettings(cache=False))


# --- what it takes


def test_openvino_is_asked_once_for_ops_of_one_kind(monkeypatch):
    asked = []
    monkeypatch.setattr(support, "_asked", asked.append)
    monkeypatch.setattr(support, "_ANSWERS", {})

    def make(builder):
        value = builder.emit(op.matmul(x, relax.const(array(8, 12))))
        value = builder.emit(op.matmul(value, relax.const(array(12, 20))))
        return op.nn.relu(op.nn.relu(value))

    x = var("x", (4, 8))
    ar.explain(module([x], make), ["openvino"], prepare=False)
    assert [[each.kind for each in model.graph.operators] for model in asked] == [["MatMul"], ["Relu"]]


def test_what_openvino_has_nothing_for_is_declined_with_its_answer(monkeypatch):
    class Refusing:
        def read_model(self, content):
            return installation.core().read_model(content)

        def query_model(self, model, _device, _properties):
            return {
                node.get_friendly_name(): "CPU"
                for node in model.get_ops()
                if "Relu" not in node.get_type_name()
            }

    monkeypatch.setattr(support, "core", Refusing)
    monkeypatch.setattr(support, "_ANSWERS", {})
    report = str(
        ar.explain(module([x := var("x", (4, 8))], lambda _: op.nn.relu(x)), ["openvino"], prepare=False)
    )
    assert "OpenVINO's CPU plugin does not support this Relu" in report


def test_a_convolution_with_a_kernel_of_unknown_extents_is_declined():
    x, kernel = var("x", (1, 3, 8, 8)), var("kernel", (tirx.Var("n", "int64"), 3, 3, 3))
    mod = module([x, kernel], lambda _: op.nn.conv2d(x, kernel))
    assert "kernels have static extents" in str(ar.explain(mod, ["openvino"], prepare=False))


def test_every_other_op_has_a_reason():
    x = var("x", (4, 8))
    report = ar.explain(module([x], lambda _: op.cumprod(op.exp(x), 1)), ["openvino"], prepare=False)
    (function,) = report.functions
    assert [entry.placed for entry in function.ops] == ["openvino", "host"]
    assert "ONNX has no cumulative product" in str(report)


# --- where it is missing


def test_a_missing_library_is_reported_with_its_remedy(monkeypatch):
    find = packages.find_spec
    monkeypatch.setattr(packages, "find_spec", lambda name: None if name == "openvino" else find(name))
    assert installation.unavailable() == "openvino not installed; pip install openvino"
    report = ar.explain(two_results(), ["openvino"], prepare=False)
    assert "pip install openvino" in str(report)
    assert [list(entry.claims) for entry in report.functions[0].ops] == [["openvino"]] * 3
    with pytest.raises(BackendUnavailableError, match="pip install openvino"):
        ar.build(ar.partition(two_results(), ["openvino"], prepare=False, cross_compile=True))


RUN = """
import sys
import numpy as np
import tvm
from tvm import relax
library, image, mode = sys.argv[1:]
if mode == "with":
    import annotated_region.backends.openvino
machine = relax.VirtualMachine(tvm.runtime.load_module(library), tvm.cpu())
print(machine["main"](tvm.runtime.tensor(np.load(image)))[0].numpy().sum())
"""


def test_an_exported_library_has_its_runtime_in_python_or_its_own(tmp_path):
    """The package is imported, found as a plugin of TVM, or left out: then the runtime in C++ runs."""
    path, image = str(tmp_path / "model.so"), str(tmp_path / "image.npy")
    ar.build(ar.partition(two_results(), ["openvino"], prepare=False)).export_library(path)
    np.save(image, array(4, 32))
    for mode, autoload in (("with", "0"), ("without", "1"), ("without", "0")):
        result = subprocess.run(
            [sys.executable, "-c", RUN, path, image, mode],
            env=os.environ | {"TVM_DEVICE_BACKEND_AUTOLOAD": autoload},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        np.testing.assert_allclose(float(result.stdout), expected_two(array(4, 32))[0].sum(), rtol=1e-4)
