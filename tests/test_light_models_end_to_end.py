"""The main job on real models: the nine light models on oneDNN, compared with ONNX Runtime."""

import ctypes
import subprocess
import sys
from importlib.metadata import distribution

import numpy as np
import onnxruntime
import pytest
import tvm
from kits.hash_seeds import outputs_of
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

import annotated_region as ar
from annotated_region.testing.light_models import LIGHT_MODELS, input_of, light_model, light_module

WHOLE = {"resnet50", "vgg19", "densenet121"}
"""These have to be one region; the others may have up to three."""


def reference(model, inputs):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0]


def array_of(result):
    return (result if hasattr(result, "numpy") else result[0]).numpy()


@pytest.fixture
def onednn_log(capfd):
    """What oneDNN ran, by kind of primitive, read from its own log."""
    files = distribution("onednn-cpu-gomp").files or ()
    (path,) = [str(file.locate()) for file in files if file.name == "libdnnl.so.3"]
    library = ctypes.CDLL(path)

    def run(call):
        capfd.readouterr()
        assert library.dnnl_set_verbose(1) == 0
        try:
            result = call()
        finally:
            library.dnnl_set_verbose(0)
            ctypes.CDLL(None).fflush(None)
        lines = [line.split(",") for line in capfd.readouterr().out.splitlines()]
        return result, [fields[3] for fields in lines if fields[:2] == ["onednn_verbose", "exec"]]

    return run


@pytest.mark.parametrize("name", LIGHT_MODELS)
def test_the_model_runs_on_onednn_as_on_onnx_runtime(name, onednn_log):
    model = light_model(name)
    inputs = input_of(model)
    mod = from_onnx(model, keep_params_in_input=False)  # as `light_module`, without drawing the weights again
    convolutions = mod.script().count("R.nn.conv2d(")

    report = ar.explain(mod, ["tensorrt", "dnnl"])
    partitioned = ar.partition(mod, ["tensorrt", "dnnl"])
    (function,) = report.functions
    assert {region.target for region in function.regions} == {"dnnl"}
    assert len(function.regions) <= (1 if name in WHOLE else 3)
    assert all(op.placed == "dnnl" for op in function.ops), str(report)
    relax.analysis.well_formed(partitioned)

    machine = relax.VirtualMachine(ar.build(partitioned), tvm.cpu())
    arguments = [tvm.runtime.tensor(value) for value in inputs.values()]
    result, executed = onednn_log(lambda: array_of(machine["main"](*arguments)))
    expected = reference(model, inputs)
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-4)
    # The seeded weights must make a wrong answer show: the outputs are neither flat nor saturated.
    assert expected.std() > 1e-4
    assert executed.count("convolution") == convolutions
    again, _log = onednn_log(lambda: array_of(machine["main"](*arguments)))
    np.testing.assert_array_equal(again, result)


PARTITION = """
import annotated_region as ar
from annotated_region.testing.light_models import light_module
print(ar.partition(light_module("shufflenet"), ["tensorrt", "dnnl"]).script())
"""


def test_shufflenet_is_partitioned_to_the_same_text_whatever_the_hash_seed():
    texts = outputs_of(PARTITION)
    assert "dnnl_main_0" in texts[0]
    assert texts[0] == texts[1]


RUN = """
import sys
import numpy as np
import tvm
from tvm import relax
library, image, output = sys.argv[1:]
machine = relax.VirtualMachine(tvm.runtime.load_module(library), tvm.cpu())
result = machine["main"](tvm.runtime.tensor(np.load(image)))
np.save(output, (result if hasattr(result, "numpy") else result[0]).numpy())
assert not any(name.split(".")[0] == "annotated_region" for name in sys.modules)
"""


def test_an_exported_library_runs_in_a_fresh_process_with_tvms_runtime_alone(tmp_path):
    model = light_model("squeezenet")
    inputs = input_of(model)
    library, image, output = (str(tmp_path / name) for name in ("model.so", "image.npy", "output.npy"))
    ar.build(ar.partition(light_module("squeezenet"), ["dnnl"])).export_library(library)
    np.save(image, next(iter(inputs.values())))
    subprocess.run([sys.executable, "-c", RUN, library, image, output], check=True, cwd=tmp_path)
    np.testing.assert_allclose(np.load(output), reference(model, inputs), rtol=1e-3, atol=1e-4)
