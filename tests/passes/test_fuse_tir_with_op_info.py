"""Op info through fusion: ResNet-50 lists conv, add and relu with strides and pads; parameters are right."""

import pytest
import tvm
from kits.op_info.op_info_kit import infos_of, tensor
from tvm import relax

import annotated_region as ar
from annotated_region.op_info import Parameter, Result
from annotated_region.testing.light_models import light_model, light_module

FUSED = tvm.transform.Sequential([relax.transform.AnnotateTIROpPattern(), relax.transform.FuseOps()])


def conv_add_relu():
    x, w, b = tensor(1, 16, 14, 14), tensor(8, 8, 3, 3), tensor(8, 1, 1)
    builder = relax.BlockBuilder()
    with builder.function("main", [b, w, x]):
        with builder.dataflow():
            conv = builder.emit(relax.op.nn.conv2d(x, w, strides=2, padding=(1, 0, 1, 2), groups=2))
            total = builder.emit(relax.op.add(b, conv))
            out = builder.emit_output(relax.op.nn.relu(total))
        builder.emit_func_output(out)
    return builder.get()


def prim_funcs(mod):
    return {gv.name_hint: func for gv, func in mod.functions_items() if isinstance(func, tvm.tirx.PrimFunc)}


LOWERINGS = {
    "attached": [ar.passes.LegalizeWithOpInfo(), FUSED, ar.passes.FuseTIRWithOpInfo()],
    "inferred before fusion": [relax.transform.LegalizeOps(), FUSED, ar.passes.FuseTIRWithOpInfo()],
    "inferred after fusion": [relax.transform.LegalizeOps(), FUSED, relax.transform.FuseTIR()],
}


@pytest.mark.parametrize("passes", LOWERINGS.values(), ids=LOWERINGS.keys())
def test_a_fused_function_lists_its_ops_and_where_their_arguments_come_from(passes):
    mod = tvm.transform.Sequential([*passes, relax.transform.DeadCodeElimination()])(conv_add_relu())
    (func,) = prim_funcs(mod).values()
    conv, add, relu = infos_of(func)
    assert (conv.name, add.name, relu.name) == ("relax.nn.conv2d", "relax.add", "relax.nn.relu")
    assert conv.attrs["strides"] == (2, 2)
    assert conv.attrs["padding"] == (1, 0, 1, 2)
    assert conv.attrs["groups"] == 2
    params = [tuple(map(int, param.shape)) for param in func.params]
    data, weight = (role.source for role in conv.arg_roles)
    assert (params[data.index], params[weight.index]) == ((1, 16, 14, 14), (8, 8, 3, 3))
    sources = {role.source for role in add.arg_roles}
    assert sources == {Result(0), Parameter(params.index((8, 1, 1)))}
    assert [role.source for role in relu.arg_roles] == [Result(1)]


def test_the_code_is_that_of_fuse_tir():
    fused = tvm.transform.Sequential([relax.transform.LegalizeOps(), FUSED])(conv_add_relu())
    ours, plain = ar.passes.FuseTIRWithOpInfo()(fused), relax.transform.FuseTIR()(fused)
    for name, func in prim_funcs(plain).items():
        tvm.ir.assert_structural_equal(ours[name].without_attr("op_info"), func)
        assert "op_info" in ours[name].attrs


def test_a_part_that_nobody_understands_leaves_no_info():
    def strange(builder, call):
        return builder.call_te(
            lambda x: tvm.te.compute(x.shape, lambda *i: x(*i) * x(*i) + 3.0), call.args[0]
        )

    lower = relax.transform.LegalizeOps({"relax.nn.relu": strange})
    mod = tvm.transform.Sequential([lower, FUSED, ar.passes.FuseTIRWithOpInfo()])(conv_add_relu())
    (func,) = prim_funcs(mod).values()
    assert ar.op_infos(func) is None


@pytest.mark.parametrize("fuse", [relax.transform.FuseTIR, ar.passes.FuseTIRWithOpInfo])
def test_convolutions_of_resnet50_are_known_after_fusion(fuse):
    mod = ar.passes.PrepareForInference()(light_module("resnet50"))
    mod = tvm.transform.Sequential([relax.transform.LegalizeOps(), FUSED, fuse()])(mod)
    infos = {name: infos_of(func) for name, func in prim_funcs(mod).items()}
    listed = [tuple(info.name.split(".")[-1] for info in ops) for ops in infos.values()]
    assert listed.count(("conv2d", "add", "relu")) > 5
    attrs = [info.attrs for ops in infos.values() for info in ops if info.name == "relax.nn.conv2d"]
    assert {(each["strides"], each["padding"]) for each in attrs} == given_windows("resnet50")
    stem = next(ops for ops in infos.values() if ops[0].attrs.get("padding") == (3, 3, 3, 3))
    assert stem[0].attrs["strides"] == (2, 2)
    assert [info.name for info in stem] == ["relax.nn.conv2d", "relax.add", "relax.nn.relu"]


def given_windows(name):
    """Strides and pads of the convolutions of an ONNX model."""
    nodes = [node for node in light_model(name).graph.node if node.op_type == "Conv"]
    attributes = [{attribute.name: tuple(attribute.ints) for attribute in node.attribute} for node in nodes]
    return {(each.get("strides", (1, 1)), each.get("pads", (0, 0, 0, 0))) for each in attributes}
