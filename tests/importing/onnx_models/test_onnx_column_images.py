"""`Col2Im`: ONNX Runtime's numbers, in ops that targets claim."""

import numpy as np
import pytest
from kits.backends.dnnl.dnnl_harness import needs_onednn, offload, ops_on_host
from kits.onnx_nodes import Node, by_onnx_runtime, by_tvm, model_of_nodes

import annotated_region as ar

CASES = {
    "blocks beside each other": ((4, 6), (2, 3), {}),
    "overlapping blocks": ((5, 6), (3, 2), {}),
    "strides": ((7, 9), (3, 3), {"strides": [2, 3]}),
    "padding": ((5, 4), (3, 3), {"pads": [1, 2, 1, 0], "strides": [2, 1]}),
    "dilation": ((7, 8), (2, 3), {"dilations": [3, 2], "pads": [1, 0, 2, 1]}),
    "gaps between blocks": ((9, 8), (2, 2), {"strides": [4, 5]}),
    "a row": ((9,), (4,), {"strides": [2], "pads": [1, 2]}),
    "a volume": ((4, 3, 5), (2, 2, 3), {"strides": [1, 1, 2]}),
}


def inputs_of(image, block, attributes, batch=2, channels=3):
    """Seeded elements of all blocks."""
    rank = len(image)
    pads = attributes.get("pads", [0] * 2 * rank)
    strides, dilations = (attributes.get(name, [1] * rank) for name in ("strides", "dilations"))
    counts = [
        (pads[axis] + image[axis] + pads[rank + axis] - dilations[axis] * (block[axis] - 1) - 1)
        // strides[axis]
        + 1
        for axis in range(rank)
    ]
    shape = (batch, channels * int(np.prod(block)), int(np.prod(counts)))
    return {"x": np.random.default_rng(0).normal(size=shape).astype("float32")}


def model_of(image, block, attributes, inputs, **options):
    constants = {"image": np.array(image, "int64"), "block": np.array(block, "int64")}
    return model_of_nodes(
        [Node("Col2Im", "x image block", **attributes)], inputs, constants, opset=18, **options
    )


@pytest.mark.parametrize("name", CASES)
def test_overlapping_elements_are_added_up(name):
    inputs = inputs_of(*CASES[name])
    model = model_of(*CASES[name], inputs)
    (expected,), (found,) = by_onnx_runtime(model, inputs), by_tvm(ar.from_onnx(model), inputs)
    np.testing.assert_allclose(found, expected, 1e-6, 1e-6)


@needs_onednn
@pytest.mark.parametrize("name", CASES)
def test_dnnl_claims_them(name):
    inputs = inputs_of(*CASES[name])
    model = model_of(*CASES[name], inputs)
    made = offload(ar.from_onnx(model))
    assert not ops_on_host(made.module)
    (found,) = made.call("main", *inputs.values())
    np.testing.assert_allclose(found, by_onnx_runtime(model, inputs)[0], 1e-6, 1e-6)


def test_a_number_of_one_pixel_reaches_no_other():
    inputs = inputs_of(*CASES["strides"])
    inputs["x"][0, 4, 1] = np.inf
    model = model_of(*CASES["strides"], inputs)
    (found,) = by_tvm(ar.from_onnx(model), inputs)
    assert np.isinf(found).sum() == 1
    assert not np.isnan(found).any()


REFUSED = {
    "'strides' of \\(0, 1\\)": ((4, 6), (2, 3), {"strides": [0, 1]}),
    "'pads' of \\(-1, 0, 0, 0\\)": ((4, 6), (2, 3), {"pads": [-1, 0, 0, 0]}),
    "'image_shape' of \\(0, 6\\)": ((0, 6), (2, 3), {}),
    "other numbers of blocks, dilations, strides or pads than 2 axes": ((4, 6), (2, 3), {"dilations": [1]}),
    "blocks that are larger than the image": ((4, 6), (5, 3), {}),
    "rows for blocks of 7 elements": ((4, 8), (1, 7), {}),
    "has 12 blocks; in an image of these extents there are 16": ((5, 6), (2, 3), {}),
    "has more than 67108864 elements": ((10**4, 10**4), (10**4, 10**4), {"pads": [1, 1, 1, 1]}),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_blocks_without_meaning_are_refused(reason):
    image, block, attributes = REFUSED[reason]
    shape = (2, int(np.prod(block)) + (reason.startswith("rows")), 9 if "more than" in reason else 12)
    inputs = {"x": np.broadcast_to(np.float32(0), shape)}
    with pytest.raises(ar.ModelError, match=reason):
        ar.from_onnx(model_of(image, block, attributes, inputs))
