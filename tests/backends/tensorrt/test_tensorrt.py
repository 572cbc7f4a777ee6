"""TensorRT on machines with and without it: claims, artefacts, fallbacks, and the documented calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
import tvm
from kits.backends.relax_kit import module, op_views, var
from kits.backends.tensorrt.documented_tensorrt import FakeCuda, FakeTensorrt
from kits.lighter_models import LIGHTER_MODELS
from tvm import relax, tirx
from tvm.relax import op
from tvm.relax.frontend.onnx import from_onnx

import annotated_region as ar
import annotated_region_tvm
from annotated_region.backends.onnx_emitter import assembly, emit_all, trial
from annotated_region.backends.onnx_emitter.assembly import array_of
from annotated_region.backends.onnxruntime.session import SessionSettings, make_session
from annotated_region.backends.tensorrt import codegen, cuda, fallback, installation, rules, runtime
from annotated_region.errors import BackendUnavailableError, BuildError, CacheWarning, CodegenError
from annotated_region.targets.rules import patterns_of
from annotated_region.testing.light_models import input_of, light_model, light_module
from annotated_region.testing.registry import temporary_registrations

needs_none = pytest.mark.skipif(installation.unavailable() is None, reason="TensorRT and a GPU are here")


def array(*shape, seed=5):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def two_results(rows=4, seed=5):
    x = var("x", (rows, 32))

    def make(builder):
        product = builder.emit(op.matmul(x, relax.const(array(32, 16, seed=seed))))
        return op.nn.relu(product), op.argmax(product, axis=1)

    return module([x], make)


def check_two(machine, rows=4, seed=1):
    data = array(rows, 32, seed=seed)
    product = data @ array(32, 16)
    first, second = (part.numpy() for part in machine["main"](tvm.runtime.tensor(data)))
    np.testing.assert_allclose(first, np.maximum(product, 0), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(second, product.argmax(1))


def partitioned(mod):
    return ar.partition(mod, ["tensorrt"], prepare=False, cross_compile=True)


def machine_of(mod, **options):
    return relax.VirtualMachine(ar.build(partitioned(mod), options={"tensorrt": options}), tvm.cpu())


def regions_of(mod):
    return [function for function in mod.functions.values() if function.attrs and "Codegen" in function.attrs]


# --- claims


@pytest.mark.parametrize("name", LIGHTER_MODELS)
def test_a_light_model_is_one_region_whose_artefact_computes_the_same(name):
    model = light_model(name)
    inputs = input_of(model)
    (region,) = regions_of(
        ar.partition(from_onnx(model, keep_params_in_input=False), ["tensorrt"], cross_compile=True)
    )
    (emitted,) = emit_all([region], rules.DIALECT)
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)
    del model
    # As it runs from a library: without its weights, which stay where they lie.
    weights = {name: array_of(emitted.graph.weights[name]) for name in emitted.weights}
    session = make_session(emitted.skeleton().SerializeToString(), weights, SessionSettings())
    found = session.run(None, dict(zip((port.name for port in emitted.inputs), inputs.values(), strict=True)))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-3, atol=1e-5)


def reason(make, *params):
    return trial(op_views(module(params, make))[-1], rules.DIALECT)


def test_what_the_support_matrix_leaves_out_is_declined_with_a_reason():
    x, line, whole = var("x", (1, 4, 8, 8)), var("line", (1, 4, 8)), var("whole", (8,), "int32")
    assert reason(lambda _: op.nn.max_pool2d(x, (2, 2)), x) is None
    assert reason(lambda _: op.nn.max_pool1d(line, 2), line).endswith("pooling is over two or three axes")
    assert reason(lambda _: op.nn.max_pool2d(x, (2, 2), dilation=(2, 2)), x).endswith("the window is dilated")
    assert "not int32" in reason(lambda _: op.clip(whole, 0, 6), whole)
    assert "data type float64 is none of" in reason(lambda _: op.astype(x, "float64"), x)
    assert "more than 8 axes" in reason(lambda _: op.reshape(line, (1, 1, 1, 1, 1, 1, 2, 2, 8)), line)
    assert "more than 2147483647 elements" in reason(lambda _: op.zeros((1 << 16, 1 << 15), "float32"))
    rows, cells = var("rows", (2, 1), "int64"), var("cells", (2, 4, 8))
    assert reason(lambda _: op.scatter_nd(line, rows, cells), line, rows, cells) is None
    added = reason(lambda _: op.scatter_nd(line, rows, cells, "add"), line, rows, cells)
    assert added == "tensorrt does not support ScatterND here: the reduction add"


def test_a_tvm_with_its_own_generator_gets_composites_under_its_names(monkeypatch):
    """What is registered already under the name of the generator stays, and takes the place of TVM's own."""
    x = var("x", (1, 3, 8, 8))
    mod = module([x], lambda _: op.nn.conv2d(x, relax.const(array(4, 3, 3, 3))))
    monkeypatch.delitem(annotated_region_tvm.REGISTERED, "tensorrt", raising=False)
    with temporary_registrations():
        codegen.register_codegen()
        assert "tensorrt.nn.conv2d" in [pattern.name for pattern in patterns_of("tensorrt")]
        (region,) = regions_of(partitioned(mod))
    inner = [binding.value for block in region.body.blocks for binding in block.bindings]
    composites = [each for each in inner if isinstance(each, relax.Function)]
    assert [str(each.attrs["Composite"]) for each in composites] == ["tensorrt.nn.conv2d"]


@needs_none
def test_a_report_shows_what_a_machine_with_tensorrt_would_get():
    report = ar.explain(light_module("squeezenet"), ["tensorrt", "dnnl"])
    (function,) = report.functions
    assert {op.placed for op in function.ops} == {"dnnl"}
    assert "pip install tensorrt" in function.unavailable["tensorrt"]
    assert "cannot run here" in str(report)


# --- where TensorRT is missing


@needs_none
def test_building_works_and_running_says_what_to_install(tmp_path):
    part = partitioned(two_results())
    executable = ar.build(part, options={"tensorrt": {"onnx_folder": tmp_path / "models"}})
    assert [file.name for file in (tmp_path / "models").iterdir()] == ["tensorrt_main_0.onnx"]
    found = onnxruntime.InferenceSession(str(tmp_path / "models/tensorrt_main_0.onnx")).run(
        None, {"x": array(4, 32)}
    )
    np.testing.assert_allclose(found[0], np.maximum(array(4, 32) @ array(32, 16), 0), rtol=1e-4, atol=1e-5)
    executable.export_library(str(tmp_path / "model.so"))
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(tmp_path / "model.so")), tvm.cpu())
    with pytest.raises(BackendUnavailableError, match=r"target 'tensorrt'.*pip install tensorrt"):
        check_two(machine)


def test_building_takes_the_package_onnx(monkeypatch):
    monkeypatch.setattr("annotated_region.backends.onnx_emitter.packages.find_spec", lambda _name: None)
    with pytest.raises(BackendUnavailableError, match="the package onnx is not installed; pip install onnx"):
        ar.build(partitioned(two_results()))


@needs_none
@pytest.mark.parametrize("name", ["onnxruntime", "tvm"])
def test_a_fallback_runs_the_region_and_says_so_once(name):
    fallback._warn_once.cache_clear()
    machine = machine_of(two_results(), fallback=name)
    with pytest.warns(UserWarning, match=f"its regions run on {name}, as the option 'fallback' requests"):
        check_two(machine)
    check_two(machine, seed=2)
    check_two(machine_of(two_results(), fallback=name))  # a second warning would be an error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precison": "fp16"}, "does not know the option 'precison'; known: precision, workspace"),
        ({"precision": "int8"}, "does not know the precision 'int8'; known: fp32, tf32, fp16, bf16"),
        ({"fallback": "numpy"}, "does not know the fallback 'numpy'"),
        ({"profiles": {"n": (4, 2, 8)}}, "profile of 'n' is .*; give minimum, typical and maximum"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_when_the_module_is_built(options, message):
    with pytest.raises(CodegenError, match=message):
        machine_of(two_results(), **options)


def test_a_missing_gpu_is_told_from_a_missing_library(monkeypatch):
    monkeypatch.setattr(cuda, "load_cuda", lambda: None)
    assert str(cuda.device_problem()).startswith("the CUDA runtime is not installed")
    monkeypatch.setattr(cuda, "load_cuda", lambda: FakeCuda(devices=0))
    assert str(cuda.device_problem()).startswith("there is no NVIDIA GPU")
    monkeypatch.setattr(cuda, "load_cuda", FakeCuda)
    assert cuda.device_problem() is None


# --- the documented calls


@pytest.fixture
def tensorrt(monkeypatch, tmp_path):
    """The stand-in in the place of the module, with a cache folder of its own."""
    device = FakeCuda()
    made = FakeTensorrt(device)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(runtime, "unavailable", lambda: None)
    monkeypatch.setattr(runtime, "require_library", lambda: made)
    monkeypatch.setattr(runtime, "load_cuda", lambda: device)
    return made


def cached(tmp_path):
    return sorted((tmp_path / "cache" / "annotated-region" / "tensorrt").iterdir())


def test_an_engine_is_built_once_and_run_with_documented_calls(tensorrt):
    machine = machine_of(two_results(), workspace=1 << 20)
    for seed in (1, 2):
        check_two(machine, seed=seed)
    assert len(tensorrt.named("Builder.build_serialized_network")) == 1
    assert tensorrt.named("IBuilderConfig.set_memory_pool_limit") == [
        {"pool": "WORKSPACE", "pool_size": 1 << 20}
    ]
    assert tensorrt.named("IBuilderConfig.clear_flag") == [{"flag": "TF32"}]
    assert tensorrt.named("IOptimizationProfile.set_shape") == [
        {"input": "x", "min": (4, 32), "opt": (4, 32), "max": (4, 32)}
    ]
    assert len(tensorrt.named("IExecutionContext.execute_async_v3")) == 2
    assert tensorrt.cuda.waited
    assert len(tensorrt.cuda.memory) == 3, "one buffer for each input and output, made once"


def test_an_engine_in_the_cache_is_taken_by_the_next_process(tensorrt, tmp_path):
    check_two(machine_of(two_results()))
    assert len(cached(tmp_path)) == 2
    check_two(machine_of(two_results()))
    assert len(tensorrt.named("Builder.build_serialized_network")) == 1
    check_two(machine_of(two_results(), workspace=4096))
    assert len(tensorrt.named("Builder.build_serialized_network")) == 2


@pytest.mark.parametrize("harm", ["cut", "changed", "exchanged"])
def test_a_cache_entry_that_is_corrupt_or_of_something_else_is_built_anew(tensorrt, tmp_path, harm):
    check_two(machine_of(two_results()))
    files = cached(tmp_path)
    contents = [file.read_bytes() for file in files]
    harmed = {
        "cut": [content[:-5] for content in contents],
        "changed": [content[:-1] + bytes([content[-1] ^ 1]) for content in contents],
        "exchanged": contents[::-1],
    }[harm]
    for file, content in zip(files, harmed, strict=True):
        file.write_bytes(content)
    with pytest.warns(CacheWarning, match="is damaged; it is removed and rebuilt"):
        check_two(machine_of(two_results()))
    assert len(tensorrt.named("Builder.build_serialized_network")) == 2
    assert [file.read_bytes() for file in cached(tmp_path)] == contents


def test_an_engine_that_tensorrt_refuses_is_built_anew(tensorrt, monkeypatch):
    monkeypatch.setattr(
        runtime.stored, "load", lambda _target, key: b"of another release" if "engine" in key else None
    )
    check_two(machine_of(two_results()))
    assert len(tensorrt.named("Builder.build_serialized_network")) == 1


def test_another_version_or_device_has_engines_and_timings_of_its_own(tensorrt, tmp_path):
    check_two(machine_of(two_results()))
    tensorrt.__version__ = "10.17.0"
    check_two(machine_of(two_results()))
    assert len(cached(tmp_path)) == 4
    tensorrt.cuda.attributes[76] = 9
    check_two(machine_of(two_results()))
    assert len(cached(tmp_path)) == 6


def test_an_engine_is_of_one_model_with_its_weights_one_shape_and_its_options(tensorrt):
    """What differs in one of these is built, and what differs in none is not."""
    builds: list[int] = []
    cases: list[tuple[tvm.IRModule, dict[str, Any]]] = [
        (two_results(), {}),
        (two_results(seed=6), {}),
        (two_results(rows=5), {}),
        (two_results(), {"precision": "tf32"}),
        (two_results(), {"workspace": 4096}),
        (two_results(), {"device": 0}),
    ]
    for mod, options in cases:
        machine = machine_of(mod, **options)
        rows = int(mod["main"].params[0].ty.shape.values[0])
        machine["main"](tvm.runtime.tensor(array(rows, 32)))
        builds.append(len(tensorrt.named("Builder.build_serialized_network")))
    assert builds == [1, 2, 3, 4, 5, 5]


def test_timings_are_kept_and_those_that_do_not_fit_are_dropped(tensorrt):
    check_two(machine_of(two_results()))
    check_two(machine_of(two_results(), workspace=4096))
    assert [
        call["serialized_timing_cache"] for call in tensorrt.named("IBuilderConfig.create_timing_cache")
    ] == [
        b"",
        b"timed",
    ]
    tensorrt.refuses = "timings"
    check_two(machine_of(two_results(), workspace=8192))
    assert tensorrt.named("IBuilderConfig.create_timing_cache")[-1] == {"serialized_timing_cache": b""}


def test_nothing_is_kept_when_that_is_asked_for_or_others_could_write_there(tensorrt, tmp_path):
    folder = tmp_path / "cache" / "annotated-region"
    check_two(machine_of(two_results(), cache=False))
    objects = sorted(folder.iterdir())  # compiled C++ is the linker's to keep, not TensorRT's
    assert all(path.name.startswith(("headers-", "library-", "object-")) for path in objects)
    folder.chmod(0o777)
    with pytest.warns(CacheWarning, match="nothing is cached"):
        check_two(machine_of(two_results()))
    assert sorted(folder.iterdir()) == objects


def test_without_a_profile_each_shape_has_an_engine(tensorrt):
    machine = machine_of(two_results(tirx.Var("n", "int64")))
    for rows in (2, 5, 2):
        check_two(machine, rows)
    assert len(tensorrt.named("Builder.build_serialized_network")) == 2


def test_with_a_profile_one_engine_serves_a_range(tensorrt):
    machine = machine_of(two_results(tirx.Var("n", "int64")), profiles={"n": (1, 4, 8)})
    for rows in (2, 5, 8):
        check_two(machine, rows)
    assert tensorrt.named("IOptimizationProfile.set_shape") == [
        {"input": "x", "min": (1, 32), "opt": (4, 32), "max": (8, 32)}
    ]
    with pytest.raises(BuildError, match=r"input 'x' has the shape \(9, 32\), outside of the profile"):
        check_two(machine, 9)


def test_a_shape_that_is_passed_is_given_by_its_values(tensorrt):
    n = tirx.Var("n", "int64")
    x, other = var("x", (1, 3)), var("other", (n, 2))
    mod = module([x, other], lambda _: (op.exp(op.broadcast_to(x, (n, 3))), op.cumprod(other, 1)))
    machine = machine_of(mod)
    for rows in (4, 2):
        found = machine["main"](tvm.runtime.tensor(array(1, 3)), tvm.runtime.tensor(array(rows, 2)))[0]
        np.testing.assert_allclose(found.numpy(), np.repeat(np.exp(array(1, 3)), rows, 0), rtol=1e-6)
    assert [call["opt"] for call in tensorrt.named("IOptimizationProfile.set_shape_input")] == [(4,), (2,)]


@pytest.mark.parametrize(("precision", "flag"), [("tf32", "TF32"), ("fp16", "FP16"), ("bf16", "BF16")])
def test_a_precision_is_a_flag_of_tensorrt_10(tensorrt, precision, flag):
    check_two(machine_of(two_results(), precision=precision))
    assert tensorrt.named("IBuilderConfig.set_flag") == [{"flag": flag}]


def test_tensorrt_11_runs_the_same_and_has_no_flags_for_half_precision(tensorrt, monkeypatch):
    newer = FakeTensorrt(tensorrt.cuda, "11.1.0")
    monkeypatch.setattr(runtime, "require_library", lambda: newer)
    check_two(machine_of(two_results()))
    with pytest.raises(BackendUnavailableError, match=r"TensorRT 11\.1\.0 has no switch for fp16"):
        check_two(machine_of(two_results(), precision="fp16"))


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        ("parse", "tensorrt_main_0: TensorRT cannot read the model: no such operator"),
        ("build", "tensorrt_main_0: TensorRT found no implementation of the model"),
        ("execute", "TensorRT could not run an engine"),
    ],
)
def test_what_tensorrt_refuses_is_an_error_that_names_the_region(tensorrt, refused, message):
    tensorrt.refuses = refused
    with pytest.raises(BuildError, match=message):
        check_two(machine_of(two_results()))


def test_a_model_too_large_for_one_message_is_read_from_a_file(tensorrt, monkeypatch):
    monkeypatch.setattr(assembly, "LARGEST_MESSAGE", 100)
    check_two(machine_of(two_results()))
    assert len(tensorrt.named("OnnxParser.parse_from_file")) == 1
    assert tensorrt.named("OnnxParser.parse") == []


def test_a_device_that_is_not_there_is_an_error_with_cudas_number(tensorrt):
    with pytest.raises(
        BackendUnavailableError, match="cudaSetDevice failed with CUDA's error 101 on device 3"
    ):
        check_two(machine_of(two_results(), device=3))


def test_the_real_library_runs_a_region():
    reason = installation.unavailable()
    if reason:
        pytest.skip(reason)
    part = ar.partition(two_results(), ["tensorrt"], prepare=False)
    check_two(relax.VirtualMachine(ar.build(part), tvm.cpu()))
