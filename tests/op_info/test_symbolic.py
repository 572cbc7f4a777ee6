"""Symbolic sizes: ops whose shapes are known when the code runs, and code that only looks like them."""

import re

import numpy as np
import pytest
import tvm
import tvm_ffi
from kits.host_machines import host_machine
from kits.op_info.op_info_kit import infos_of, lowered, module_of, prim_func, tensor
from kits.op_info.symbolic_kit import SYMBOLIC, difference_at
from kits.zoo.registry import onnx_network
from kits.zoo.zoo_kit import onnx_case
from tvm import relax

import annotated_region as ar
from annotated_region.op_info import DerivedExtent, ExtentOf, Shape
from annotated_region.op_info.attach import attached

op = relax.op
n, m = (tvm.tirx.Var(name, "int64") for name in "nm")

SIZES = [(3, 2), (1, 1), (2, 5)]


@pytest.mark.sweep
@pytest.mark.parametrize("name", SYMBOLIC)
def test_the_op_is_inferred_and_computes_the_same_at_every_size(name):
    func = lowered(module_of(SYMBOLIC[name]))
    info = ar.infer_op_info(func)
    assert info is not None
    assert info.name == SYMBOLIC[name].op.name
    assert ar.OpInfo.from_dict(info.to_dict()) == info
    differences = [difference_at(func, info, numbers) for numbers in SIZES]
    assert set(differences) - {None} == {0.0}


def changed(name, old, new):
    """The code of a call with one line of its body changed."""
    func = lowered(module_of(SYMBOLIC[name]))
    lines = func.script(show_meta=True).splitlines()
    number = max(i for i, line in enumerate(lines) if "] = " in line and "T.axis" not in line)
    assert re.search(old, lines[number]), lines[number]
    lines[number] = re.sub(old, new, lines[number], count=1)
    code = tvm.script.from_source("\n".join(lines))
    assert not tvm_ffi.structural_equal(code, func)
    return code


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("heads apart", r"// m % n", "// n % n"),
        ("heads apart", r"\* m \+", "* n +"),
        ("heads apart", r"// T.int64\(8\)", "// T.int64(4)"),
        ("rows in one", r"% m\b", "% n"),
        ("rows of one", r"\(n \* m\)", "(n * m - T.int64(1))"),
        ("windows", r"v_ax1 \* T.int64\(2\)", "v_ax1"),
        ("more of one", r"x\[T.int64\(0\), v_ax1", "x[T.int64(0), v_ax1 // T.int64(2)"),
        ("join", r"<= v_ax1", "< v_ax1"),
        ("join two", r"v_ax0 - n\b", "v_ax0 - m"),
        ("positions", r"= v_ax0", "= v_ax0 * v_ax0"),
        ("one-hot", r"== v_ax2", "== v_ax2 + T.int64(1)"),
        ("tile", r"% n\b", "% T.int64(1)"),
        ("repeat", r"// T.int64\(2\)", "// T.int64(3)"),
        ("flip", r"- T.int64\(1\)", "- T.int64(2)"),
        ("pad", r"<= m", "< m"),
        ("upper triangle", r"< v_i2", "< v_i1"),
        ("window of a row", r"v_yy \+ v_ry", "v_yy * T.int64(2) + v_ry"),
        ("nearest", r"T.floor", "T.ceil"),
        ("softmax of a sum", r"/", "-"),
        ("first", r"T.min\(T.int64\(0\), m\)", "T.min(T.int64(1), m)"),
        ("last", r"m - T.int64\(1\)", "m - T.int64(2)"),
        ("every second", r"v_ax1 \* T.int64\(2\)", "v_ax1 * T.int64(3)"),
    ],
)
def test_another_index_is_another_op(name, old, new):
    assert ar.infer_op_info(changed(name, old, new)) is None


@pytest.mark.parametrize(
    "call",
    [op.reshape(tensor(n, 8), (m, 8)), op.reshape(tensor(n, m), (n + m,))],
    ids=["other rows", "a sum"],
)
def test_a_reshape_to_another_number_of_elements_is_no_op(call):
    """TVM lowers it, but the code is that of a reshape only where the sizes happen to fit."""
    assert ar.infer_op_info(lowered(module_of(call))) is None


@pytest.mark.parametrize(
    "call",
    [
        op.concat([tensor(n, m, 2), tensor(n, 1, 2)], 1),
        op.concat([tensor(n, 4), tensor(n, 3)], 1),
        op.stack([tensor(n, m), tensor(n, m)], 0),
    ],
    ids=["symbolic", "fixed", "stack"],
)
def test_a_join_of_tensors_of_unequal_sizes_is_no_op(call):
    """Of the other tensor, the code reads as many rows as the first one has."""
    func = lowered(module_of(call))
    assert ar.infer_op_info(func) is not None
    code = func.script(show_meta=True)
    code = (
        code
        if "m = TypeVar" in code
        else code.replace('n = TypeVar("n")', 'n = TypeVar("n")\nm = TypeVar("m")')
    )
    code = code.replace("x_1: T.Buffer((n,", "x_1: T.Buffer((m,")
    assert "x_1: T.Buffer((m," in code
    assert ar.infer_op_info(tvm.script.from_source(code)) is None


def test_sizes_may_be_zero_where_only_a_sum_is_an_extent():
    func = lowered(module_of(op.tanh(tensor(n + 1, 4))))
    assert ar.infer_op_info(func) is not None
    code = func.script(show_meta=True)
    before = tvm.script.from_source(re.sub(r"T.tanh\(x\[v_i0,", "T.tanh(x[v_i0 + n - T.int64(1),", code))
    assert not tvm_ffi.structural_equal(before, func)
    assert ar.infer_op_info(before) is None


FUSE = [relax.transform.AnnotateTIROpPattern(), relax.transform.FuseOps()]
FORMS = {
    "lowered": [relax.transform.LegalizeOps()],
    "fused": [relax.transform.LegalizeOps(), *FUSE, relax.transform.FuseTIR()],
    "attached": [ar.passes.LegalizeWithOpInfo(), *FUSE, ar.passes.FuseTIRWithOpInfo()],
}


@pytest.mark.parametrize("form", FORMS)
def test_an_extent_inside_a_fused_function_is_derived_from_its_parameters(form):
    x = tensor(n, 4)
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            longer = builder.emit(op.nn.pad(x, [0, 1, 0, 0]))
            twice = builder.emit(op.broadcast_to(longer, (2, n + 1, 4)))
            out = builder.emit_output(op.sum(op.exp(twice), [1]))
        builder.emit_func_output(out)
    mod = tvm.transform.Sequential(FORMS[form])(builder.get())
    if form != "lowered":
        infos = infos_of(prim_func(relax.transform.DeadCodeElimination()(mod)))
        assert [info.name for info in infos] == [
            "relax.nn.pad",
            "relax.broadcast_to",
            "relax.exp",
            "relax.sum",
        ]
        assert infos[1].arg_roles[1].source == Shape((2, DerivedExtent("add", (ExtentOf(0, 0), 1)), 4))
    raised = ar.passes.RaiseToOps()(mod)
    assert "call_tir" not in raised.script()
    machine = host_machine(raised)
    for count in (3, 1):
        given = np.random.default_rng(0).random((count, 4), np.float32)
        found = machine["main"](tvm.runtime.tensor(given)).numpy()
        expected = np.exp(given).sum(0) + 1
        np.testing.assert_allclose(found, np.stack([expected, expected]), rtol=1e-6)


@pytest.mark.parametrize("extent", [n, n + m, n * 4], ids=str)
def test_attached_shapes_come_back_as_they_were(extent):
    x, y = tensor(1, extent), tensor(n, m)
    builder = relax.BlockBuilder()
    with builder.function("main", [x, y]):
        with builder.dataflow():
            out = builder.emit_output(op.broadcast_to(x, (n, extent)))
        builder.emit_func_output(out)
    mod = builder.get()
    described = ar.passes.LegalizeWithOpInfo()(mod)
    assert attached(prim_func(described)) is not None
    tvm.ir.assert_structural_equal(ar.passes.RaiseToOps()(described)["main"], mod["main"])
    # Nothing is attached here.
    plain = relax.transform.LegalizeOps()(mod)
    tvm.ir.assert_structural_equal(ar.passes.RaiseToOps()(plain)["main"], mod["main"])


def test_an_extent_is_the_same_however_it_is_written():
    """TVM infers ``n * 2`` rows for the op and ``2 * n`` for its code."""
    mod = ar.passes.LegalizeWithOpInfo()(module_of(op.repeat(tensor(n, 3), 2, 0)))
    raised = ar.passes.RaiseToOps()(mod)
    assert "call_tir" not in raised.script()
    (binding,) = raised["main"].body.blocks[0].bindings
    tvm.ir.assert_structural_equal(binding.value.ty, binding.var.ty, True)


NETWORKS = [("gpt2_decode", "any_past"), ("llama_decode", "symbolic"), ("swin", "symbolic")]


@pytest.mark.parametrize(
    ("name", "sizes", "form"),
    [
        ("llama_decode", "symbolic", "lowered"),
        ("llama_decode", "symbolic", "fused"),
        ("llama_decode", "symbolic", "attached"),
        ("swin", "symbolic", "fused"),
        ("super_resolution", "symbolic", "fused"),
        ("wavenet", "symbolic", "lowered"),
        ("t5", "symbolic", "lowered"),
    ],
)
def test_a_lowered_network_of_symbolic_sizes_is_one_region(name, sizes, form):
    model = onnx_network(name)
    module = ar.from_onnx(model.proto(next(each for each in model.forms if each.name == sizes)))
    mod = tvm.transform.Sequential(FORMS[form])(module)
    partitioned = ar.partition(mod, ["dnnl"], cross_compile=True)
    assert len(externals(partitioned)) == 1
    assert not [func for func in partitioned.functions.values() if isinstance(func, tvm.tirx.PrimFunc)]


def externals(mod):
    return [func for func in mod.functions.values() if func.attrs and "Codegen" in func.attrs]


@pytest.mark.parametrize(("name", "sizes"), NETWORKS)
def test_a_fused_network_of_symbolic_sizes_computes_what_it_computed_when_it_is_raised(name, sizes):
    model = onnx_network(name)
    case = onnx_case(model, next(each for each in model.forms if each.name == sizes))
    raised = ar.passes.RaiseToOps()(tvm.transform.Sequential(FORMS["fused"])(case.module))
    assert "call_tir" not in raised["main"].script()
    machine = relax.VirtualMachine(ar.build(raised).jit(), tvm.cpu())
    for call, expected in zip(case.calls, case.expected, strict=True):
        results = machine["main"](*(tvm.runtime.tensor(value) for value in call.values()))
        found = [results] if hasattr(results, "numpy") else list(results)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one.numpy(), other, rtol=1e-3, atol=1e-4)
