"""Code that differs from the code of an op in one property of a loop, a buffer or a number."""

import math

import pytest
import tvm
import tvm_ffi
from kits.op_info.op_info_kit import infos_of, lowered, module_of, prim_func, tensor
from tvm import relax

import annotated_region as ar
from annotated_region.op_info import Number, Result
from annotated_region.op_info.infer import composition_of

HEAD = """
@T.prim_func(private=True, s_tir=True)
def main({params}):
"""
SUM = """
    for i in range(4):
        for {outer} in {outer_range}:
            for {inner} in {inner_range}:
                with T.sblock("sum"):
                    v = T.axis.spatial(4, i)
                    v_j = T.axis.reduce(8, j)
                    v_k = T.axis.reduce(6, k)
                    with T.init():
                        out[v] = T.float32(0)
                    out[v] = out[v] + x[v, v_j, v_k]
"""
ELEMENTWISE = """
    for i in range(4):
        with T.sblock("block"):
            v = T.axis.spatial(4, i)
            out[v] = {value}
"""
DEAD = """
    copy = T.sblock_alloc_buffer((4,), "float32")
    for i in range(4):
        with T.sblock("copy"):
            v = T.axis.spatial(4, i)
            copy[v] = T.tanh(x[v])
"""


def summed(outer="j", inner="k", outer_range="range(8)", inner_range="range(6)"):
    body = SUM.format(outer=outer, inner=inner, outer_range=outer_range, inner_range=inner_range)
    return parsed('x: T.Buffer((4, 8, 6), "float32"), out: T.Buffer((4,), "float32")', body)


def elementwise(value, x='x: T.Buffer((4,), "float32")', before=""):
    return parsed(f'{x}, out: T.Buffer((4,), "float32")', before + ELEMENTWISE.format(value=value))


def parsed(params, body):
    return tvm.script.from_source(HEAD.format(params=params) + body)


def test_a_sum_is_all_of_its_elements_in_their_order():
    info = ar.infer_op_info(summed())
    assert info is not None
    assert info.name == "relax.sum"
    assert ar.infer_op_info(summed(outer_range="T.serial(0, 8, step=2)")) is None
    # Floating point sums depend on the order.
    assert ar.infer_op_info(summed("k", "j", "range(6)", "range(8)")) is None


@pytest.mark.parametrize(
    ("properties", "name"), [("", "relax.exp"), (", offset_factor=1", "relax.exp"), (", elem_offset=2", None)]
)
def test_a_tensor_that_starts_inside_another_is_no_argument(properties, name):
    info = ar.infer_op_info(elementwise("T.exp(x[v])", f'x: T.Buffer((4,), "float32"{properties})'))
    assert (info and info.name) == name


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("T.atan2(x[v], T.float32({}))", "relax.atan2"),
        ("T.float32({})", "relax.full"),
        ("T.max(x[v], T.float32({}))", "relax.maximum"),
    ],
)
def test_the_zero_below_0_keeps_its_sign(value, name):
    below = ar.infer_op_info(elementwise(value.format("-0.0")))
    assert below is not None
    assert below.name == name
    (number,) = (role.source for role in below.arg_roles if isinstance(role.source, Number))
    assert math.copysign(1, number.value) == -1
    assert str(below) != str(ar.infer_op_info(elementwise(value.format("0.0"))))


def test_results_that_are_not_used_are_ops_too():
    composition = composition_of(elementwise("T.exp(x[v])", before=DEAD))
    assert composition is not None
    assert [info.name for info in composition.ops] == ["relax.tanh", "relax.exp"]
    assert composition.outputs == (Result(1),)


def test_what_the_start_of_a_sum_or_a_place_reads_is_read():
    started = """
    for i, k in T.grid(4, 8):
        with T.sblock("sum"):
            v, v_k = T.axis.remap("SR", [i, k])
            with T.init():
                out[v] = y[v]
            out[v] = out[v] + x[v, v_k]
"""
    params = 'x: T.Buffer((4, 8), "float32"), y: T.Buffer((4,), "float32"), out: T.Buffer((4,), "float32")'
    assert ar.infer_op_info(parsed(params, started)) is None
    placed = ELEMENTWISE.format(value="x[v]").replace("out[v]", "out[places[v]]")
    params = 'x: T.Buffer((4,), "float32"), places: T.Buffer((4,), "int32"), out: T.Buffer((4,), "float32")'
    assert ar.infer_op_info(parsed(params, placed)) is None


@pytest.mark.parametrize("count", [100, 1200])
def test_code_that_is_nested_too_deeply_is_no_op(count):
    func = lowered(module_of(relax.op.concat([tensor(1, 2) for _ in range(count)], 0)))
    info = ar.infer_op_info(func)
    assert (info is None) == (count > 1000)


def test_vectors_with_a_small_number_are_no_norm():
    x, y, z = tensor(6), tensor(6), tensor(6)
    builder = relax.BlockBuilder()
    with builder.function("main", [x, y, z]):
        with builder.dataflow():
            active = builder.emit(relax.op.nn.leakyrelu(builder.emit(relax.op.add(x, y)), 0.01))
            out = builder.emit_output(relax.op.multiply(active, z))
        builder.emit_func_output(out)
    fuse = [relax.transform.AnnotateTIROpPattern(), relax.transform.FuseOps(), relax.transform.FuseTIR()]
    mod = tvm.transform.Sequential([relax.transform.LegalizeOps(), *fuse])(builder.get())
    assert [info.name for info in infos_of(prim_func(mod))] == [
        "relax.add",
        "relax.nn.leakyrelu",
        "relax.multiply",
    ]


def test_the_variance_of_everything_is_no_transposed_convolution():
    # Its first blocks move elements, and its last one reduces; the mean has another type here.
    func = lowered(module_of(relax.op.variance(tensor(2, 3, 4, dtype="float64"))))
    code = func.script(show_meta=True).replace('T.int64(1)), "float64")', 'T.int64(1)), "int8")')
    changed = tvm.script.from_source(code)
    assert not tvm_ffi.structural_equal(changed, func)
    assert ar.infer_op_info(changed) is None
