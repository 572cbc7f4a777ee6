"""``--quantize``: a float ONNX file and an .npz of inputs become int8, in four commands."""

import json

import numpy as np
import onnx
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import needs_onednn
from kits.command_line.command_line_kit import small_model
from kits.quantizing.small_networks import arrays_for, error_of, onnxruntime_answers, residual_network
from tvm import relax

import annotated_region as ar
from annotated_region.command_line.run import main
from annotated_region.inputs import inputs_in_stack


@pytest.fixture
def model(tmp_path):
    onnx.save(residual_network(), tmp_path / "model.onnx")
    return str(tmp_path / "model.onnx")


@pytest.fixture
def images(tmp_path):
    stack = np.concatenate([each["image"] for each in arrays_for(residual_network(), range(8))])
    np.savez(tmp_path / "images.npz", image=stack)
    return str(tmp_path / "images.npz")


@needs_onednn
def test_a_float_file_becomes_a_library_of_int8(model, images, tmp_path, capsys):
    library = str(tmp_path / "model.so")
    assert main(["partition", model, "--targets", "dnnl", "--quantize", images, "-o", library]) == 0
    assert (
        "10 of 10 products in int8 (100.0 % of the multiplications), of 8 inputs" in capsys.readouterr().err
    )
    machine = relax.VirtualMachine(tvm.runtime.load_module(library), tvm.cpu())
    inputs = arrays_for(residual_network(), range(50, 54))
    found = [machine["main"](tvm.runtime.tensor(each["image"])).numpy() for each in inputs]
    assert 1e-4 < error_of(found, onnxruntime_answers(residual_network(), inputs)) < 0.05


@needs_onednn
def test_what_is_kept_is_said(model, images, capsys):
    arguments = ["partition", model, "--targets", "dnnl", "--quantize", images, "--keep", "relax.matmul"]
    assert main([*arguments, "--ranges", "entropy"]) == 0
    assert "it is kept ('relax.matmul')" in capsys.readouterr().err


@pytest.fixture
def small(tmp_path):
    """The words that name a model of one convolution, a target, and eight inputs."""
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).random((8, 3, 8, 8), "float32"))
    return [str(small_model(tmp_path)), "--targets", "dnnl", "--quantize", str(tmp_path / "x.npz"), "--json"]


@needs_onednn
def test_explain_shows_what_is_in_int8(small, capsys):
    assert main(["explain", *small]) == 0
    shown = capsys.readouterr()
    assert "1 of 1 products in int8" in shown.err
    (function,) = json.loads(shown.out)["functions"]
    assert {op["placed"] for op in function["ops"] if "quantize" in op["op"]} == {"dnnl"}
    assert main(["explain", *small[:3], "--json"]) == 0
    assert "quantize" not in capsys.readouterr().out


@needs_onednn
def test_check_holds_int8_against_int8_of_the_host(small, capsys):
    assert main(["check", *small]) == 0
    shown = capsys.readouterr()
    assert "1 of 1 products in int8" in shown.err
    assert '"relax.quantize"' in shown.out
    assert json.loads(shown.out)["regions"]


@needs_onednn
def test_bench_says_what_runs_in_floats(small, capsys):
    assert main(["bench", *small, "--rounds", "1"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"dnnl", "ONNX Runtime, not quantized"}


REFUSED = {
    "no file of inputs": (["--keep", "x"], "need --quantize with a file of inputs"),
    "a name that fits nothing": (["--quantize", "IMAGES", "--keep", "x"], "no product is called 'x'"),
    "no such file": (["--quantize", "none.npz"], "none.npz is not a readable file"),
    "other inputs": (["--quantize", "OTHERS"], "no parameter is called 'picture'"),
    "pickled inputs": (["--quantize", "PICKLED"], "holds pickled objects"),
}


@needs_onednn
@pytest.mark.parametrize("command", ["partition", "explain", "check", "bench"])
@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_calibrated_is_one_line(what, command, model, images, tmp_path, capsys):
    np.savez(tmp_path / "others.npz", picture=np.ones((1, 3, 16, 16), "float32"))
    np.savez(tmp_path / "pickled.npz", image=np.array([{}], dtype=object))
    files = {name.upper(): str(tmp_path / f"{name}.npz") for name in ("images", "others", "pickled")}
    options, message = REFUSED[what]
    assert main([command, model, "--targets", "dnnl", *(files.get(each, each) for each in options)]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


def function_of(*shapes):
    params = [
        relax.Var(f"x{number}", relax.TensorType(shape, "float32")) for number, shape in enumerate(shapes)
    ]
    return relax.Function(params, relax.SeqExpr([], params[0]), ret_ty=params[0].ty)


@pytest.mark.parametrize(
    ("parameter", "array", "count"),
    [
        ((1, 4), (5, 4), 5),
        ((1, 4), (5, 1, 4), 5),
        ((1, 4), (1, 4), 1),
        ((2, 4), (6, 4), 3),
        ((2, 4), (5, 4), 1),
    ],
)
def test_stacked_inputs_are_taken_apart(parameter, array, count):
    values = np.arange(np.prod(array), dtype="float32").reshape(array)
    found = inputs_in_stack(function_of(parameter), {"x0": values})
    assert len(found) == count
    assert np.array_equal(np.concatenate([each["x0"].reshape(-1) for each in found]), values.reshape(-1))


def test_arrays_of_different_numbers_of_inputs_are_refused():
    arrays = {"x0": np.ones((3, 4), "float32"), "x1": np.ones((2, 4), "float32")}
    with pytest.raises(ar.InputError, match="different numbers of inputs: 'x0' 3, 'x1' 2"):
        inputs_in_stack(function_of((1, 4), (1, 4)), arrays)
