"""`Einsum`, `Pad` and `Tile`: ONNX Runtime's numbers, and ops that targets claim."""

import numpy as np
import onnx
import pytest
from kits.onnx_nodes import Node, by_onnx_runtime, by_tvm, compared, model_of_nodes
from onnx import TensorProto, helper
from tvm import relax

import annotated_region as ar
from annotated_region.errors import ModelError

CLOSE = 2e-6

EQUATIONS = {
    "sums of squares": "bhwc,hkc->bhwk",
    "along the other side": "bhwc,wkc->bhwk",
    "a product of matrices": "ij,jk",
    "its result turned round": "ij,jk->ki",
    "a stack of products": "bij,bjk->bik",
    "scores of attention": "bqhd,bkhd->bhqk",
    "values of attention": "bhqk,bkhd->bqhd",
    "an inner product": "i,i->",
    "an outer product": "i,j->ij",
    "elements": "ij,ij->ij",
    "elements along one axis": "ij,j->ji",
    "a permutation": "ijk->kij",
    "sums of one operand": "ijk->j",
    "letters in order of the alphabet": "ba",
    "everything summed": "ij->",
    "dots": "...ij,...jk->...ik",
    "dots without an arrow": "b...,b",
    "dots of different lengths": "...ij,jk->...ik",
    "three operands": "ij,jk,kl->il",
    "three operands that share": "bi,bj,bk->bijk",
    "a letter that goes last": "ai,bi,ci->abc",
    "what one operand alone sums": "ijx,jky->ik",
    "two sums and two sides": "abcd,cdef->abef",
    "capital letters": "aB,Bc->aBc",
    "spaces": " i j , j k -> i k ",
    "a diagonal": "ii->i",
    "a trace": "iij->j",
    "a sum without a right side": "bij,bj->bi",
}
EXTENTS = dict(zip("abcdefhijklqwxykB", (2, 3, 4, 3, 2, 5, 2, 3, 4, 2, 3, 5, 2, 2, 3, 3, 4), strict=True))
DOTS = (2, 3)


def operands_of(equation, seed=0):
    rng = np.random.default_rng(seed)
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    counts = [DOTS if len(term) > 4 or place == 0 else DOTS[1:] for place, term in enumerate(terms)]
    shapes = [
        [
            extent
            for part in term.replace("...", ".")
            for extent in (dots if part == "." else (EXTENTS[part],))
        ]
        for term, dots in zip(terms, counts, strict=True)
    ]
    return {f"x{place}": rng.standard_normal(shape).astype("float32") for place, shape in enumerate(shapes)}


@pytest.mark.sweep
@pytest.mark.parametrize("name", EQUATIONS)
def test_einsum_is_that_of_onnx_runtime(name):
    inputs = operands_of(EQUATIONS[name])
    model = model_of_nodes([Node("Einsum", " ".join(inputs), equation=EQUATIONS[name])], inputs, {})
    assert max(compared(model, inputs)) <= CLOSE
    is_opaque = any(
        isinstance(call.op, relax.GlobalVar) or "call_tir" in call.op.name for call in calls_of(model)
    )
    assert is_opaque == (name in ("a diagonal", "a trace"))


def calls_of(model):
    body = ar.from_onnx(model)["main"].body
    return [
        binding.value
        for block in body.blocks
        for binding in block.bindings
        if isinstance(binding.value, relax.Call)
    ]


@pytest.mark.parametrize(
    ("equation", "shapes", "message"),
    [
        ("ij,jk->ik", [(2, 3)], "has 1 inputs, and an equation of 2"),
        ("ij->", [(2, 3, 4)], "an input 0 of rank 3, and 'ij' in its equation"),
        ("i_->i", [(2, 3)], "which is malformed"),
        ("ij->ii", [(2, 3)], "whose result is malformed"),
        ("ij->k", [(2, 3)], "whose result is malformed"),
        ("...i->i", [(2, 3)], "which sums the ellipsis"),
    ],
)
def test_equations_that_are_declined(equation, shapes, message):
    inputs = {f"x{place}": np.zeros(shape, "float32") for place, shape in enumerate(shapes)}
    model = model_of_nodes([Node("Einsum", " ".join(inputs), equation=equation)], inputs, {})
    with pytest.raises(ModelError, match=message):
        ar.from_onnx(model)


PADS = {
    "constant": ("constant", [0, 1, 2, 3, 0, 1], None, None),
    "a number": ("constant", [1, 0, 0, 0, 2, 0], None, -1.5),
    "reflected": ("reflect", [0, 1, 2, 0, 2, 3], None, None),
    "repeated": ("edge", [3, 1, 2, 0, 2, 9], None, None),
    "from the other end": ("wrap", [0, 1, 3, 0, 3, 4], None, None),
    "axes": ("constant", [1, 2, 3, 0], [-1, 0], 2.5),
    "axes that are reflected": ("reflect", [1, 2], [2], None),
    "cut off": ("constant", [0, -1, -2, 0, -1, 1], None, 3.0),
    "cut off and repeated": ("edge", [0, -1, 2, 0, 1, -2], None, None),
    "cut off and reflected": ("reflect", [0, -1, 2, 0, 1, -1], None, None),
    "nothing": ("constant", [0] * 6, None, None),
}


def padded(form, dtype="float32"):
    mode, pads, axes, value = form
    data = np.random.default_rng(1).integers(-9, 9, (2, 3, 5)).astype(dtype)
    constants = {"p": np.array(pads, "int64")}
    names = ["x", "p", "-", "-"]
    if value is not None:
        constants["v"], names[2] = np.array(value, dtype), "v"
    if axes is not None:
        constants["a"], names[3] = np.array(axes, "int64"), "a"
    node = Node("Pad", " ".join(names), mode=mode)
    return model_of_nodes([node], {"x": data}, constants, opset=19), {"x": data}


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("name", PADS)
def test_padding_is_that_of_onnx_runtime(name, dtype):
    form = PADS[name]
    if dtype == "int64" and form[3] is not None:
        form = (*form[:3], 7)
    model, inputs = padded(form, dtype)
    assert compared(model, inputs) == [0]


def test_padding_with_minus_infinity():
    model, inputs = padded(("constant", [1, 0, 0, 0, 2, 0], None, -np.inf))
    (expected,), (result,) = by_onnx_runtime(model, inputs), by_tvm(ar.from_onnx(model), inputs)
    assert np.array_equal(expected, result)


def test_padding_with_a_quantized_number():
    """Quantizers round the value as they round the data."""
    data = np.random.default_rng(0).standard_normal((2, 3)).astype("float32")
    constants = {
        "p": np.array([0, 1, 0, 2], "int64"),
        "v": np.array(7, "uint8"),
        "s": np.array(0.3, "float32"),
        "z": np.array(5, "uint8"),
    }
    model = model_of_nodes(
        [Node("DequantizeLinear", "v s z", "n"), Node("Pad", "x p n")], {"x": data}, constants
    )
    assert compared(model, {"x": data}) == [0]


def test_padding_of_truth_values():
    data = np.array([[True, False, True]])
    model = model_of_nodes([Node("Pad", "x p", "y")], {"x": data}, {"p": np.array([0, 1, 0, 2], "int64")})
    assert compared(model, {"x": data}) == [0]


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (("reflect", [0, 3, 0, 0, 0, 0], None, None), "takes 3 elements of 3 on axis 1 by 'reflect'"),
        (("wrap", [0, 0, 6, 0, 0, 0], None, None), "takes 6 elements of 5 on axis 2 by 'wrap'"),
        (("constant", [0, 1], None, None), "has 2 paddings for 3 axes"),
        (("constant", [1, 1], [3], None), r"has the axes \[3\] for an input of rank 3"),
        (("constant", [-3, 0], [0], None), "cuts off more than there is on axis 0"),
        (("mirror", [0] * 6, None, None), "the attribute 'mode' of 'mirror'"),
    ],
)
def test_paddings_that_are_declined(form, message):
    with pytest.raises(ModelError, match=message):
        ar.from_onnx(padded(form)[0])


@pytest.mark.parametrize("counts", [(2, 1, 3), (1, 1, 1), (0, 1, 1)])
def test_tiles(counts):
    data = np.random.default_rng(2).standard_normal((2, 3, 2)).astype("float32")
    model = model_of_nodes([Node("Tile", "x n")], {"x": data}, {"n": np.array(counts, "int64")})
    assert compared(model, {"x": data}) == [0]


@pytest.mark.parametrize("counts", [(2, 1, -1), (2**31, 1, 1), (2, 1)])
def test_repetitions_that_are_declined(counts):
    data = np.ones((2, 3, 2), "float32")
    model = model_of_nodes([Node("Tile", "x n")], {"x": data}, {"n": np.array(counts, "int64")})
    with pytest.raises(ModelError, match=r"has the repetitions \[.*\] for an input of rank 3"):
        ar.from_onnx(model)


def symbolic(nodes, constants, rank):
    extents = ["batch", *range(3, 2 + rank)]
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, extents)
    graph = helper.make_graph(
        nodes,
        "symbolic",
        [info],
        [helper.make_empty_tensor_value_info("y")],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10)


SYMBOLIC = {
    "einsum": (
        [Node("Einsum", "x w", "y", equation="bhwc,hkc->bhwk")],
        {"w": np.ones((3, 2, 5), "float32")},
        4,
    ),
    "einsum with a batch of its own": ([Node("Einsum", "x x", "y", equation="bic,bjc->bij")], {}, 3),
    "pad": ([Node("Pad", "x p", "y", mode="edge")], {"p": np.array([1, 0, 2, 0, 1, 0], "int64")}, 3),
    "cut off": ([Node("Pad", "x p", "y")], {"p": np.array([-1, 0, 0, -1, 0, 0], "int64")}, 3),
    "tile": ([Node("Tile", "x n", "y")], {"n": np.array([2, 1, 3], "int64")}, 3),
}


@pytest.mark.parametrize("name", SYMBOLIC)
def test_onnx_runtime_takes_them_with_any_batch(name):
    nodes, constants, rank = SYMBOLIC[name]
    model = symbolic(nodes, constants, rank)
    module = ar.from_onnx(model)
    report = ar.explain(module, ["onnxruntime"])
    assert [len(function.regions) for function in report.functions] == [1]
    host = {op.op for function in report.functions for op in function.ops if op.placed == "host"}
    checks = {"relax.match_cast"} if name == "cut off" else set()  # that there is what is cut off
    assert host == checks
