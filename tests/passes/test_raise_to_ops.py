"""RaiseToOps: lowered calls become op calls again, which backends claim like unlowered ones."""

import os

import numpy as np
import pytest
import tvm
from hypothesis import given
from kits.host_machines import host_machine
from kits.op_info.op_info_kit import calls, module_of, tensor
from tvm import relax

import annotated_region as ar
from annotated_region.backends.dnnl import installation
from annotated_region.testing.light_models import LIGHT_MODELS, light_module

# All nine take a quarter of a minute, and minutes to build; the suite takes a few, a campaign all.
IS_CAMPAIGN = "AR_CAMPAIGN_EXAMPLES" in os.environ
MODELS = LIGHT_MODELS if IS_CAMPAIGN else ("squeezenet", "shufflenet")
BUILT = LIGHT_MODELS if IS_CAMPAIGN else ("squeezenet",)

needs_onednn = pytest.mark.skipif(
    installation.unavailable() is not None, reason=str(installation.unavailable())
)


def op_names(mod):
    names = []

    def visit(expr):
        if isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.Op):
            names.append(expr.op.name)

    relax.analysis.post_order_visit(mod["main"], visit)
    return names


@given(calls)
def test_what_was_described_comes_back_as_it_was(call):
    mod = module_of(call)
    raised = ar.passes.RaiseToOps()(ar.passes.LegalizeWithOpInfo()(mod))
    tvm.ir.assert_structural_equal(raised, mod)


@given(calls)
def test_what_is_inferred_lowers_to_the_same_code(call):
    lowered = relax.transform.LegalizeOps()(module_of(call))
    raised = ar.passes.RaiseToOps()(lowered)
    assert "relax.call_tir" not in op_names(raised)
    assert [func for _, func in raised.functions_items() if isinstance(func, tvm.tirx.PrimFunc)] == []
    again = relax.transform.LegalizeOps()(raised)
    codes = [sorted(str(func.body) for _, func in mod.functions_items()) for mod in (lowered, again)]
    assert len(codes[0]) == len(codes[1])


def branches():
    x, w = tensor(1, 4, 8, 8), tensor(4, 4, 3, 3)
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w]):
        with builder.dataflow():
            conv = builder.emit(relax.op.nn.conv2d(x, w, padding=1))
            scaled = builder.emit(relax.op.multiply(conv, relax.const(0.5, "float32")))
            total = builder.emit(relax.op.nn.relu(relax.op.add(scaled, x)))
            parts = builder.emit(relax.op.split(total, 2, 1))
            out = builder.emit_output(relax.op.concat([parts[1], parts[0]], 1))
        builder.emit_func_output(out)
    return builder.get()


def run(mod, *arguments):
    machine = host_machine(mod)
    return machine["main"](*map(tvm.runtime.tensor, arguments)).numpy()


@pytest.mark.parametrize("lower", [relax.transform.LegalizeOps, ar.passes.LegalizeWithOpInfo])
@pytest.mark.parametrize("fuse", [relax.transform.FuseTIR, ar.passes.FuseTIRWithOpInfo])
def test_a_fused_module_is_raised_and_computes_the_same(lower, fuse):
    passes = [lower(), relax.transform.AnnotateTIROpPattern(), relax.transform.FuseOps(), fuse()]
    mod = branches()
    raised = tvm.transform.Sequential([*passes, ar.passes.RaiseToOps()])(mod)
    assert sorted(op_names(raised)) == sorted(op_names(mod))
    generator = np.random.default_rng(0)
    x = generator.standard_normal((1, 4, 8, 8), dtype=np.float32)
    w = generator.standard_normal((4, 4, 3, 3), dtype=np.float32)
    np.testing.assert_allclose(run(raised, x, w), run(mod, x, w), rtol=1e-5, atol=1e-5)


def test_what_nobody_understands_stays():
    def strange(builder, call):
        return builder.call_te(
            lambda x: tvm.te.compute(x.shape, lambda *i: x(*i) * x(*i) + 3.0), call.args[0]
        )

    mod = relax.transform.LegalizeOps({"relax.nn.relu": strange})(branches())
    raised = ar.passes.RaiseToOps()(mod)
    assert op_names(raised).count("relax.call_tir") == 1
    assert "relax.nn.conv2d" in op_names(raised)
    relax.analysis.well_formed(raised)


def test_op_info_that_no_longer_fits_is_not_believed():
    mod = ar.passes.LegalizeWithOpInfo()(module_of(relax.op.permute_dims(tensor(2, 3), [1, 0])))
    (global_var,) = (gv for gv, func in mod.functions_items() if isinstance(func, tvm.tirx.PrimFunc))
    text = str(mod[global_var].attrs["op_info"]).replace("[1, 0]", "[0, 1]")
    mod.update_func(global_var, mod[global_var].with_attr("op_info", text))
    assert op_names(ar.passes.RaiseToOps()(mod)) == ["relax.call_tir"]


def external_ops(mod):
    """The ops of each external function."""
    found = []
    for _, func in sorted(mod.functions_items(), key=lambda item: item[0].name_hint):
        if isinstance(func, relax.Function) and func.attrs and "Codegen" in func.attrs:
            found.append(sorted(op_names(tvm.IRModule({"main": func.without_attr("global_symbol")}))))
    return sorted(found)


@pytest.mark.parametrize("name", MODELS)
def test_a_lowered_model_is_partitioned_as_if_it_had_not_been(name):
    mod = light_module(name)
    raised = ar.passes.RaiseToOps()(relax.transform.LegalizeOps()(mod))
    expected = external_ops(ar.partition(mod, ["dnnl"]))
    assert expected
    assert external_ops(ar.partition(raised, ["dnnl"])) == expected


def answers(mod, image, path):
    ar.build(mod).export_library(str(path))
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(path)), tvm.cpu())
    result = machine["main"](tvm.runtime.tensor(image))
    return (result if hasattr(result, "numpy") else result[0]).numpy()


@needs_onednn
@pytest.mark.parametrize("name", BUILT)
def test_a_lowered_model_computes_on_its_target_what_it_computed_before(name, tmp_path):
    mod = light_module(name)
    # Nobody raises anything here: partitioning does by itself.
    lowered = ar.partition(relax.transform.LegalizeOps()(mod), ["dnnl"])
    before = ar.partition(mod, ["dnnl"])
    assert external_ops(lowered) == external_ops(before) != []
    shape = [int(extent) for extent in mod["main"].params[0].ty.shape]
    image = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    found, expected = (answers(each, image, tmp_path / f"{each is before}.so") for each in (lowered, before))
    assert np.ptp(expected) > 0
    np.testing.assert_array_equal(found, expected)
