"""Shapes, types and work of extracted functions: counted by hand, and by TVM's own estimate."""

import pytest
import tvm
from kits.extraction.extraction_modules import every_kind_of_call, small_network
from tvm import relax
from tvm.s_tir.analysis import estimate_tir_flops

import annotated_region as ar
from annotated_region.findings.wording import words_for_type
from annotated_region.testing.light_models import light_module

FLOAT = "float32"


def functions_of(build, *shapes, dtype=FLOAT):
    """The functions of a graph of one op, by what `build` makes of its parameters."""
    params = [relax.Var(f"x{n}", relax.TensorType(shape, dtype)) for n, shape in enumerate(shapes)]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            result = builder.emit_output(build(*params))
        builder.emit_func_output(result)
    return list(ar.extract_hashed_functions(builder.get()).values())


def convolved(x, weight):
    return relax.op.nn.conv2d(x, weight, strides=(2, 2))


# 2 * 5 results of 3 multiply-adds; 7x7 in steps of 2 by 3x3 makes 3x3, of 4 * 9 multiply-adds each, 8 times.
BY_HAND = {
    "matmul": (relax.op.matmul, [(2, 3), (3, 5)], 2 * 2 * 5 * 3, 4 * (6 + 15 + 10)),
    "conv2d": (
        convolved, [(1, 4, 7, 7), (8, 4, 3, 3)],
        2 * (8 * 3 * 3) * (4 * 3 * 3), 4 * (4 * 7 * 7 + 8 * 4 * 9 + 8 * 9),
    ),
    # A padded window adds no operations: its edge is known from positions.
    "conv2d, padded": (
        lambda x, weight: relax.op.nn.conv2d(x, weight, padding=(1, 1)), [(1, 4, 6, 6), (4, 4, 3, 3)],
        2 * (4 * 6 * 6) * (4 * 3 * 3), 4 * (144 + 144 + 144),
    ),
    "add": (relax.op.add, [(4, 5), (5,)], 20, 4 * (20 + 5 + 20)),
    "exp": (relax.op.exp, [(4, 5)], 200, 4 * 40),
    "a move": (relax.op.permute_dims, [(4, 5)], 0, 4 * 40),
    # The largest of each row; its difference from each number, the exponential; their sum; the quotient.
    "softmax": (relax.op.nn.softmax, [(4, 5)], 20 + 20 + 200 + 20 + 20, 4 * 40),
    "a choice": (
        lambda x: relax.op.where(relax.op.greater(x, relax.const(0.0)), relax.op.exp(x), x), [(3,)],
        3 + 30 + 3, 4 * 6,  # the second 3: TVM asks whether the truth value is more than false
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BY_HAND)
def test_work_is_what_a_count_by_hand_gives(what):
    build, shapes, flops, moved = BY_HAND[what]
    (function,) = functions_of(build, *shapes)
    assert (function.flops, function.bytes) == (flops, moved)


def test_a_fused_chain_moves_its_ends_alone():
    found = ar.extract_hashed_functions(small_network()).values()
    (function,) = [each for each in found if "conv2d" in each.name]
    assert function.flops == 2 * (4 * 6 * 6) * (4 * 3 * 3) + 144 + 144  # the bias, the relu
    assert function.bytes == 4 * (144 + 144 + 4 + 144)
    assert list(map(words_for_type, function.inputs)) == [
        "float32[1, 4, 6, 6]", "float32[4, 4, 3, 3]", "float32[1, 4, 1, 1]",
    ]  # fmt: skip
    assert list(map(words_for_type, function.outputs)) == ["float32[1, 4, 6, 6]"]


FOREIGN = """
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def sorted(a: T.Buffer((T.int64(8),), "float32"), b: T.Buffer((T.int64(8),), "float32")):
        with T.sblock("sorted"):
            T.reads(a[0:8])
            T.writes(b[0:8])
            T.call_packed("sort", a.data, b.data)

    @R.function
    def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
        cls = Module
        y = R.call_tir(cls.sorted, (x,), out_ty=R.Tensor((8,), "float32"))
        return y
"""


def test_what_is_not_known_before_it_runs_is_none():
    extent = tvm.tirx.Var("n", "int64")
    (function,) = functions_of(relax.op.nn.relu, (extent, 4))
    assert (function.flops, function.bytes) == (None, None)
    assert list(map(words_for_type, function.outputs)) == ["float32[n, 4]"]
    (foreign,) = ar.extract_hashed_functions(tvm.script.from_source(FOREIGN)).values()
    assert (foreign.flops, foreign.bytes) == (None, 4 * 16)
    assert list(map(words_for_type, (*foreign.inputs, *foreign.outputs))) == ["float32[8]"] * 2


def test_what_is_changed_in_place_is_an_output():
    (_twice, in_place) = ar.extract_hashed_functions(every_kind_of_call()).values()
    assert in_place.inputs == ()
    assert list(map(words_for_type, in_place.outputs)) == ["float32[4]"]
    assert (in_place.flops, in_place.bytes) == (4, 16)


def test_halves_and_several_outputs():
    (function,) = functions_of(lambda x: relax.op.split(x, 2, axis=0), (4, 6), dtype="float16")
    assert list(map(words_for_type, function.outputs)) == ["float16[2, 6]"] * 2
    assert function.bytes == 2 * 48


# TVM counts indices and conditions on positions, and a call of a function not at all.
COUNTED_OTHERWISE = (
    "if_then_else",
    "T.Select",
    "avg_pool",
    "T.exp",
    "T.sqrt",
    "T.rsqrt",
    "T.tanh",
    "T.erf",
    "T.sigmoid",
)


@pytest.mark.parametrize("name", ["squeezenet", "resnet50"])
def test_operations_are_those_of_tvms_estimate_on_a_light_model(name):
    compared = 0
    for function in ar.extract_hashed_functions(light_module(name)).values():
        if not any(word in function.func.script() for word in COUNTED_OTHERWISE):
            assert function.flops == estimate_tir_flops(tvm.IRModule({"main": function.func})), function.name
            compared += 1
    assert compared >= 5


def test_sizes_of_32_bits_are_sizes():
    mod = tvm.script.from_source("""
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def halved(x_handle: T.handle, out_handle: T.handle):
        n = T.int32()
        x = T.match_buffer(x_handle, (n,), "float32")
        out = T.match_buffer(out_handle, (n,), "float32")
        for i in range(n):
            with T.sblock("halved"):
                v = T.axis.spatial(n, i)
                out[v] = x[v] * T.float32(0.5)

    @R.function
    def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
        y = R.call_tir(Module.halved, (x,), out_ty=R.Tensor((8,), "float32"))
        return y
""")
    (function,) = ar.extract_hashed_functions(mod).values()
    (size,) = function.inputs[0].shape.values
    assert str(size.ty) == "int64"
    assert function.bytes is None


def test_bitwise_arithmetic_counts():
    (function,) = functions_of(lambda x: relax.op.bitwise_and(x, x), (4, 6), dtype="int32")
    assert function.flops == 24
