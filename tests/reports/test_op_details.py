"""The details of an op in reports: types, work and origin, in lines, as data and in pictures."""

import pytest
import tvm
from tvm.script import ir as I
from tvm.script import relax as R

import annotated_region as ar
from annotated_region.drawing.quotient import quotient
from annotated_region.expr_map import ExprMap
from annotated_region.findings.wording import words_for_type, words_for_work
from annotated_region.functions.marking import bindings_in, marked
from annotated_region.origins import span_of
from annotated_region.testing.registry import claim_ops, temporary_registrations


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        claim_ops("sketch", "relax.nn.conv2d", "relax.nn.relu")
        claim_ops("sketch", "relax.tanh", answer="no tanh")
        yield


@I.ir_module
class Network:
    @R.function
    def main(x: R.Tensor((1, 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
        with R.dataflow():
            a = R.nn.conv2d(x, w)
            b = R.tanh(a)
            c = R.nn.relu(b)
            R.output(c)
        return c


@I.ir_module
class Symbolic:
    @R.function
    def main(x: R.Tensor(("n", 4), "float16"), y: R.Tensor(dtype="float32", ndim=2)):
        with R.dataflow():
            a = R.tanh(x)
            b = R.tanh(y)
            c = (a, b)
            R.output(c)
        return c


def network():
    (func,) = Network.functions.values()
    names = ("/features/block.0/conv/Conv_of_a_name_too_long_for_a_box", "/act/Tanh", "c")
    named = ((each, span_of(name)) for each, name in zip(bindings_in(func.body), names, strict=True))
    return tvm.IRModule({"main": marked(func, ExprMap(named))})


def explained(mod):
    return ar.explain(mod, ["sketch"], prepare=False)


def test_a_line_for_each_op():
    assert explained(network()).details().splitlines() == [
        "/features/block.0/conv/Conv_of_a_name_too_long_for_a_box = nn.conv2d: float32[1, 3, 8, 8], "
        "float32[4, 3, 3, 3] -> float32[1, 4, 6, 6]; 7.78 kflop, 1.78 kB; sketch, region 0; "
        "claimed by sketch: nn.conv2d",
        "/act/Tanh = tanh: float32[1, 4, 6, 6] -> float32[1, 4, 6, 6]; 1.44 kflop, 1.15 kB; host; "
        "declined by sketch: no tanh",
        "c = nn.relu: float32[1, 4, 6, 6] -> float32[1, 4, 6, 6]; 144 flop, 1.15 kB; sketch, region 1; "
        "claimed by sketch: nn.relu",
    ]


def test_the_same_as_data():
    first, *_ = explained(network()).to_dict()["functions"][0]["ops"]
    assert first["origin"] == first["key"] == "/features/block.0/conv/Conv_of_a_name_too_long_for_a_box"
    assert first["inputs"] == ["float32[1, 3, 8, 8]", "float32[4, 3, 3, 3]"]
    assert first["output"] == "float32[1, 4, 6, 6]"
    # 4 x 6 x 6 results of 3 x 3 x 3 products and as many sums; 192 + 108 + 144 numbers of 4 bytes.
    assert first["flops"] == 2 * 4 * 6 * 6 * 27
    assert first["bytes"] == 4 * (192 + 108 + 144)


def test_the_work_of_what_has_no_fixed_size_is_not_known():
    ops = explained(Symbolic).to_dict()["functions"][0]["ops"]
    assert [(op["inputs"], op["output"]) for op in ops] == [
        (["float16[n, 4]"], "float16[n, 4]"),
        (["float32[?, ?]"], "float32[?, ?]"),
    ]
    assert [(op["flops"], op["bytes"]) for op in ops] == [(None, None), (None, None)]


def test_the_summary_says_where_host_ops_come_from():
    report = explained(network())
    assert str(report).splitlines()[1:] == [
        "host: tanh at /act/Tanh (declined by sketch: no tanh)",
        "sketch: the regions of /features/block.0/conv/Conv_of_a_name_too_long_for_a_box and c are separate: "
        "/act/Tanh is on a path between them",
    ]


def test_a_box_of_one_op_shows_the_end_of_its_origin():
    boxes = quotient(explained(network()).functions[0]).boxes
    assert [box.lines[:2] for box in boxes[:3]] == [
        ("nn.conv2d", "...0/conv/Conv_of_a_name_too_long_for_a_box"),
        ("tanh", "/act/Tanh"),
        ("nn.relu", "c"),
    ]


@pytest.mark.parametrize(
    ("flops", "moved", "words"),
    [
        (None, None, ""),
        (0, 12, "12 B"),
        (999, 1000, "999 flop, 1 kB"),
        (236_027_904, 3_851_264, "236 Mflop, 3.85 MB"),
        (2 * 10**15, 10**9, "2e+03 Tflop, 1 GB"),
    ],
)
def test_work_in_words(flops, moved, words):
    assert words_for_work(flops, moved) == words


def test_types_in_words():
    pair = tvm.ir.TupleType(
        [tvm.relax.TensorType((2, 3), "int8"), tvm.relax.TensorType(dtype="bool", ndim=-1)]
    )
    assert words_for_type(pair) == "(int8[2, 3], bool[...])"


def test_extents_in_words():
    n, m = tvm.tirx.Var("n", "int64"), tvm.tirx.Var("m", "int64")
    shape = (n * 5, tvm.tirx.min(n, m) + 1, 7)
    assert words_for_type(tvm.relax.TensorType(shape, "int8")) == "int8[n*5, min(n,m)+1, 7]"
