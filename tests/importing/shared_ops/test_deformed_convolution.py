"""Deformable convolutions from both roads: the results are those of a sum over single samples."""

from __future__ import annotations

import importlib

import numpy as np
import onnx
import onnx.reference
import pytest
import tvm
from kits.importing.deformed_convolutions import Deformed, convolved
from kits.onnx_nodes import Node, by_tvm, model_of_nodes
from tvm import relax

import annotated_region as ar
from annotated_region.backends.dnnl import installation

# PyTorch warns of its own use of its own code.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

needs_onednn = pytest.mark.skipif(
    installation.unavailable() is not None, reason=str(installation.unavailable())
)

FORMS = [
    Deformed(),
    Deformed(has_factors=False, has_bias=False),
    Deformed(groups=2, strides=(2, 1)),
    Deformed(offset_groups=2, dilations=(1, 2), padding=(2, 0, 2, 0), size=(8, 9)),
    Deformed(groups=2, offset_groups=4, kernel=(2, 3), padding=(0, 2, 1, 1), strides=(1, 3)),
    Deformed(size=(1, 5), kernel=(1, 1), padding=(0, 0, 0, 0), batch=1),
    Deformed(size=(3, 1), kernel=(3, 1), padding=(1, 0, 1, 0), channels=1, outputs=1),
]


def from_onnx(form, arrays, *, shapes=(), opset=19):
    """The model of a form with constant weights; `shapes` replaces extents of inputs by names."""
    names = ["x", "w", "offset", "b" if form.has_bias else "-", "mask" if form.has_factors else "-"]
    while names[-1] == "-":
        names.pop()
    node = Node(
        "DeformConv",
        " ".join(names),
        dilations=form.dilations,
        group=form.groups,
        offset_group=form.offset_groups,
        pads=form.padding,
        strides=form.strides,
    )
    constants = {name: array for name, array in arrays.items() if name in "wb"}
    inputs = {name: array for name, array in arrays.items() if name not in "wb"}
    model = model_of_nodes([node], inputs, constants, opset=opset)
    for name, axis, extent in shapes:
        tensor = next(each for each in model.graph.input if each.name == name).type.tensor_type
        tensor.shape.dim[axis].dim_param = extent
    return model, inputs


def by_target(module, target, inputs):
    """What a target computes with the whole module as one region."""
    partitioned = ar.partition(module, [target])
    ops = []
    relax.analysis.post_order_visit(
        partitioned["main"],
        lambda each: (
            ops.append(each.op.name)
            if isinstance(each, relax.Call) and isinstance(each.op, tvm.ir.Op)
            else None
        ),
    )
    assert not ops
    machine = relax.VirtualMachine(ar.build(partitioned).jit(), tvm.cpu())
    result = machine["main"](*(tvm.runtime.tensor(array) for array in inputs))
    return (result if hasattr(result, "numpy") else result[0]).numpy()


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_convolution_from_onnx(form):
    arrays = form.arrays()
    model, inputs = from_onnx(form, arrays)
    (found,) = by_tvm(ar.from_onnx(model), inputs)
    np.testing.assert_allclose(found, convolved(form, arrays), 1e-4, 1e-4)


@needs_onednn
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_convolution_is_one_region(form):
    arrays = form.arrays()
    model, inputs = from_onnx(form, arrays)
    for target in ("dnnl", "onnxruntime"):
        found = by_target(ar.from_onnx(model), target, inputs.values())
        np.testing.assert_allclose(found, convolved(form, arrays), 1e-4, 1e-4)


@needs_onednn
@pytest.mark.parametrize("far", [np.inf, -np.inf, 1e30, -3e9])
def test_samples_far_outside_are_zero(far):
    form = Deformed()
    arrays = form.arrays()
    arrays["offset"][0] = far
    near = {**arrays, "offset": np.where(np.abs(arrays["offset"]) > 1e9, 1e6, arrays["offset"])}
    model, inputs = from_onnx(form, arrays)
    for target in ("dnnl", "onnxruntime"):
        found = by_target(ar.from_onnx(model), target, inputs.values())
        np.testing.assert_allclose(found, convolved(form, near), 1e-4, 1e-4)


@needs_onednn
def test_any_batch_and_size_is_one_region():
    form, other = Deformed(strides=(2, 1)), Deformed(batch=3, size=(10, 4), strides=(2, 1))
    shapes = [(name, 0, "batch") for name in ("x", "offset", "mask")]
    shapes += [("x", 2, "rows"), ("x", 3, "columns")]
    shapes += [(name, axis, f"after{axis}") for name in ("offset", "mask") for axis in (2, 3)]
    arrays = form.arrays()
    model, _ = from_onnx(form, arrays, shapes=shapes)
    module = ar.from_onnx(model)
    for each in (form, other):
        given = {**each.arrays(1), "w": arrays["w"], "b": arrays["b"]}
        inputs = [given[name] for name in ("x", "offset", "mask")]
        np.testing.assert_allclose(by_target(module, "dnnl", inputs), convolved(each, given), 1e-4, 1e-4)


def test_the_results_of_onnx_themselves():
    """The reference of ONNX takes images of more than a row and a column, and has no far offsets."""
    form = Deformed(groups=2, offset_groups=2)
    arrays = form.arrays()
    model, inputs = from_onnx(form, arrays)
    (expected,) = onnx.reference.ReferenceEvaluator(model).run(None, dict(inputs))
    np.testing.assert_allclose(convolved(form, arrays), expected, 1e-4, 1e-4)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_floats(dtype):
    form = Deformed(size=(40, 300), kernel=(1, 2), padding=(0, 0, 0, 1))
    arrays = form.arrays(dtype=dtype)
    model, inputs = from_onnx(form, arrays)
    (found,) = by_tvm(ar.from_onnx(model), inputs)
    expected = convolved(form, arrays)
    assert found.dtype == dtype
    tolerance = {"float16": 2**-10, "float64": 1e-12}[dtype] * np.abs(expected).max()
    np.testing.assert_allclose(found.astype("float64"), expected, 0, tolerance)


@needs_onednn
@pytest.mark.parametrize("form", FORMS[:5], ids=str)
def test_a_convolution_from_pytorch(with_torch, form):
    kit = importlib.import_module("kits.importing.torch_deformed")
    arrays = form.arrays()
    form = Deformed(
        **{**{name: getattr(form, name) for name in form.__slots__}, "padding": form.padding[:2] * 2}
    )
    arrays = form.arrays()
    module = ar.from_exported_program(kit.exported_deformed(form, arrays, any_batch=True))
    last = arrays.get("mask", np.zeros((form.batch, 1), "float32"))
    inputs = [arrays["x"], arrays["offset"], last]
    for target in ("dnnl", "onnxruntime"):
        np.testing.assert_allclose(by_target(module, target, inputs), convolved(form, arrays), 1e-4, 1e-4)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"pads": (1, 1)}, r"the attribute 'pads' of \(1, 1\), not of four numbers"),
        ({"strides": (2,)}, r"the attribute 'strides' of \(2,\), not of two numbers"),
        ({"strides": (0, 1)}, r"'strides' of \(0, 1\), which is not supported"),
        ({"strides": (2, 2)}, r"has an input 2 of shape \(2, 18, 7, 6\); it should be \(2, 18, 4, 3\)"),
        ({"group": 3}, r"'group' of 3 and 'offset_group' of 1, which do not fit"),
        ({"offset_group": 3}, r"'group' of 1 and 'offset_group' of 3, which do not fit"),
        ({"offset_group": 2}, r"has an input 2 of shape \(2, 18, 7, 6\); it should be \(2, 36, 7, 6\)"),
        ({"kernel_shape": (3, 2)}, r"has a 'kernel_shape' of \(3, 2\), and kernels of \(3, 3\)"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(changes, why):
    model, _ = from_onnx(Deformed(), Deformed().arrays())
    (node,) = model.graph.node
    kept = [each for each in node.attribute if each.name not in changes]
    del node.attribute[:]
    node.attribute.extend(kept)
    node.attribute.extend(onnx.helper.make_attribute(*each) for each in changes.items())
    with pytest.raises(ar.ModelError, match=why):
        ar.from_onnx(model)
