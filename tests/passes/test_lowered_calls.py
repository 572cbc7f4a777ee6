"""Lowered calls are claimed as the ops that they are, and raised where somebody claims them."""

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from kits.host_machines import host_machine
from kits.op_info.op_info_kit import tensor
from onnx import TensorProto, helper, numpy_helper
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

import annotated_region as ar
from annotated_region.op_info.raising import LoweredCalls
from annotated_region.testing.registry import claim_ops, temporary_registrations

FUSED = [
    relax.transform.AnnotateTIROpPattern(),
    relax.transform.FuseOps(),
    relax.transform.FuseTIR(),
]


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        yield


def chain():
    """conv2d, add, relu, then a softmax."""
    x, w, b = tensor(1, 4, 8, 8), tensor(4, 4, 3, 3), tensor(4, 1, 1)
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w, b]):
        with builder.dataflow():
            conv = builder.emit(relax.op.nn.conv2d(x, w, padding=1))
            total = builder.emit(relax.op.add(conv, b))
            active = builder.emit(relax.op.nn.relu(total))
            out = builder.emit_output(relax.op.nn.softmax(active, 1))
        builder.emit_func_output(out)
    return builder.get()


def lowered(*passes):
    return tvm.transform.Sequential([relax.transform.LegalizeOps(), *passes])(chain())


def op_names(func):
    names = []

    def visit(expr):
        if isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.Op):
            names.append(str(expr.op.name).removeprefix("relax."))

    relax.analysis.post_order_visit(func, visit)
    return [name for name in names if not name.startswith("annotation")]


def externals(mod):
    return [func for func in mod.functions.values() if func.attrs and "Codegen" in func.attrs]


def prim_funcs(mod):
    return [func for func in mod.functions.values() if isinstance(func, tvm.tirx.PrimFunc)]


def test_what_is_claimed_is_raised_and_the_rest_stays_lowered():
    claim_ops("toy", "relax.nn.conv2d", "relax.nn.relu")
    mod = lowered()
    annotated = ar.passes.AnnotateTarget(["toy"])(mod)
    relax.analysis.well_formed(annotated)
    assert op_names(annotated["main"]) == ["nn.conv2d", "call_tir", "nn.relu", "call_tir"]
    assert len(prim_funcs(annotated)) == 2
    regions = ar.AnnotatedRegionSet(annotated["main"])
    assert [[var.name for var in region.nodes] for region in regions] == [["lv"], ["lv2"]]


def test_nothing_is_touched_where_nobody_claims_anything():
    claim_ops("toy", "relax.nn.max_pool2d")
    mod = lowered()
    assert ar.passes.AnnotateTarget(["toy"])(mod)["main"].same_as(mod["main"])


def test_partitioning_gives_the_regions_that_it_gives_before_lowering():
    claim_ops("toy", "relax.nn.conv2d", "relax.add", "relax.nn.relu")
    (before,) = externals(ar.partition(chain(), ["toy"], prepare=False))
    for passes in ([], FUSED):
        mod = ar.partition(lowered(*passes), ["toy"], prepare=False)
        relax.analysis.well_formed(mod)
        (after,) = externals(mod)
        assert op_names(after) == op_names(before) == ["nn.conv2d", "add", "nn.relu"]


def test_patterns_match_across_lowered_calls_and_inside_fused_ones():
    for passes in ([], FUSED):
        (region,) = externals(ar.partition(lowered(*passes), ["dnnl"], prepare=False))
        names = [str(f.attrs["Composite"]) for f in local_functions(region)]
        assert names == ["dnnl.conv2d_bias_relu"]


def local_functions(func):
    found = []

    def visit(expr):
        if isinstance(expr, relax.Function) and "Composite" in (expr.attrs or {}):
            found.append(expr)

    relax.analysis.post_order_visit(func, visit)
    return found


def test_a_fused_call_of_which_one_op_is_claimed_is_raised_as_a_whole():
    claim_ops("toy", "relax.nn.relu")
    annotated = ar.passes.AnnotateTarget(["toy"])(lowered(*FUSED))
    assert op_names(annotated["main"]) == ["nn.conv2d", "add", "nn.relu", "call_tir"]
    (region,) = ar.AnnotatedRegionSet(annotated["main"])
    assert [var.name for var in region.nodes] == ["lv"]


def test_annotating_twice_changes_nothing():
    claim_ops("toy", "relax.nn.conv2d", "relax.nn.softmax")
    once = ar.passes.AnnotateTarget(["toy"])(lowered())
    tvm.ir.assert_structural_equal(ar.passes.AnnotateTarget(["toy"])(once), once)


@pytest.mark.parametrize("passes", [[], FUSED], ids=["one by one", "fused"])
def test_a_lowered_call_inside_of_a_region_drawn_by_hand_is_raised(passes):
    claim_ops("toy", "relax.nn.max_pool2d")
    mod = lowered(*passes)
    first = mod["main"].body.blocks[0].bindings[0].var
    by_hand = ar.AnnotatedRegionSet.from_claims(mod["main"], {"toy": [first]}).annotate()
    mod.update_func(mod.get_global_var("main"), by_hand)
    annotated = ar.passes.AnnotateTarget(["toy"])(mod)
    (region,) = ar.AnnotatedRegionSet(annotated["main"])
    assert region.nodes[-1].name == first.name
    raised = ["nn.conv2d", "add", "nn.relu"] if passes else ["nn.conv2d"]
    assert len(region.nodes) == len(raised)
    assert op_names(annotated["main"])[: len(raised)] == raised


def test_preparation_raises_inside_of_regions_drawn_by_hand():
    mod = lowered(*FUSED)
    first = mod["main"].body.blocks[0].bindings[0].var
    by_hand = ar.AnnotatedRegionSet.from_claims(mod["main"], {"toy": [first]}).annotate()
    mod.update_func(mod.get_global_var("main"), by_hand)
    prepared = ar.passes.PrepareForInference()(mod)
    assert op_names(prepared["main"]) == ["nn.conv2d", "add", "nn.relu", "nn.softmax"]
    (region,) = ar.AnnotatedRegionSet(prepared["main"])
    assert [var.name for var in region.nodes] == ["lv_conv2d", "lv_add", "lv"]


def test_preparation_keeps_what_was_scheduled_by_hand():
    mod = ar.passes.LegalizeWithOpInfo()(chain())
    (name,) = (name for name in mod.get_global_vars() if name.name_hint == "relu")
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": mod[name]}))
    (block,) = schedule.get_child_blocks(schedule.get_sblock("root"))
    schedule.split(schedule.get_loops(block)[1], [2, None])
    mod.update_func(name, schedule.mod["main"])
    prepared = ar.passes.PrepareForInference()(mod)
    assert op_names(prepared["main"]) == ["nn.conv2d", "add", "call_tir", "nn.softmax"]
    assert op_names(ar.passes.RaiseToOps()(mod)["main"])[2] == "nn.relu"


def test_what_is_only_attached_is_believed():
    def halve(builder, call):
        return builder.call_te(lambda x: tvm.te.compute(x.shape, lambda *i: x(*i) * 0.25), call.args[0])

    claim_ops("toy", "relax.nn.relu")
    mod = ar.passes.LegalizeWithOpInfo({"relax.nn.relu": halve})(chain())
    (region,) = externals(ar.partition(mod, ["toy"], prepare=False))
    assert op_names(region) == ["nn.relu"]


def test_the_report_names_the_lowered_call_and_the_reason():
    claim_ops("toy", "relax.nn.conv2d", "relax.add", "relax.nn.relu")
    claim_ops("toy", "relax.nn.softmax", answer="axis 1 of 4")
    report = ar.explain(lowered(), ["toy"], prepare=False)
    assert "toy: 3 of 4 ops" in str(report)
    assert "call_tir(softmax) (declined by toy: axis 1 of 4)" in str(report)


def test_rules_see_a_lowered_call_as_they_see_the_op():
    (op,) = [b.value for b in chain()["main"].body.blocks[0].bindings][:1]
    mod = lowered()
    call = mod["main"].body.blocks[0].bindings[0].value
    expected, view = ar.OpView.of(op), ar.OpView.of(call, mod)
    assert expected is not None
    assert view is not None
    assert (view.name, view.attrs) == (expected.name, expected.attrs)
    assert [arg.name for arg in view.args] == [param.name for param in mod["main"].params[:2]]
    tvm.ir.assert_structural_equal(view.out_type, expected.out_type)
    unresolved = ar.OpView.of(call)
    assert unresolved is not None
    assert unresolved.name == "relax.call_tir"


def test_a_fused_call_is_no_single_op():
    mod = lowered(*FUSED)
    view = ar.OpView.of(mod["main"].body.blocks[0].bindings[0].value, mod)
    assert view is not None
    assert view.name == "relax.call_tir"


def test_raising_keeps_the_variables_of_the_calls():
    mod = lowered(*FUSED)
    calls = LoweredCalls.of(mod["main"], mod)
    raised = calls.raised()
    assert [binding.var.name for binding in raised.body.blocks[0].bindings] == [
        "lv_conv2d",
        "lv_add",
        "lv",
        "gv",
    ]
    assert raised.body.body.same_as(mod["main"].body.body)


# The first case from users: ONNX Clip, which TVM's importer lowers by itself


def inverted_residual(low, high, opset):
    """The block of MobileNetV2: two convolutions with a Clip each, one without, and a shortcut."""
    rng = np.random.default_rng(0)
    constants, nodes = [], []

    def constant(name, value):
        constants.append(numpy_helper.from_array(np.asarray(value, "float32"), name))
        return name

    def conv(source, name, shape, group=1):
        weight = constant(f"{name}_weight", rng.normal(0, (2 / np.prod(shape[1:])) ** 0.5, shape))
        bias = constant(f"{name}_bias", rng.normal(0, 0.1, shape[0]))
        pads = [shape[-1] // 2] * 4
        nodes.append(helper.make_node("Conv", [source, weight, bias], [name], group=group, pads=pads))
        return name

    def clip(source, name):
        bounds = {"min": low, "max": high}
        if opset < 11:
            given = {key: value for key, value in bounds.items() if value is not None}
            nodes.append(helper.make_node("Clip", [source], [name], **given))
            return name
        names = [
            "" if value is None else constant(f"{name}_{key}", value * 1.0) for key, value in bounds.items()
        ]
        nodes.append(helper.make_node("Clip", [source, *names], [name]))
        return name

    wide = clip(conv("x", "expand", (24, 4, 1, 1)), "clip1")
    wide = clip(conv(wide, "depthwise", (24, 1, 3, 3), group=24), "clip2")
    nodes.append(helper.make_node("Add", [conv(wide, "project", (4, 24, 1, 1)), "x"], ["y"]))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 4, 10, 10)) for name in "xy")
    graph = helper.make_graph(nodes, "block", [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model)
    return model


CLIPS = {
    (0.0, 6.0, 13): "clip",
    (0.0, 6.0, 11): "clip",
    (0.0, 6.0, 6): "clip",
    (-0.5, 0.25, 13): "clip",
    (0.0, None, 13): "nn.relu",
    (0.0, None, 6): "nn.relu",
    (None, 0.5, 13): "minimum",
    (-0.25, None, 13): "maximum",
    (None, None, 13): None,
}


@pytest.mark.parametrize("target", ["dnnl", "onnxruntime", "tensorrt"])
@pytest.mark.parametrize("bounds", CLIPS)
def test_a_block_with_clips_is_one_region(bounds, target):
    mod = from_onnx(inverted_residual(*bounds), opset=bounds[2], keep_params_in_input=False)
    partitioned = ar.partition(mod, [target], cross_compile=True)
    (region,) = externals(partitioned)
    assert op_names(partitioned["main"]) == []
    assert prim_funcs(partitioned) == []
    others = [name for name in op_names(region) if name not in ("nn.conv2d", "add")]
    assert others == ([CLIPS[bounds]] * 2 if CLIPS[bounds] else [])


def test_a_block_with_clips_computes_what_onnx_runtime_computes():
    model = inverted_residual(-0.5, 0.25, 13)
    mod = ar.passes.PrepareForInference()(from_onnx(model, keep_params_in_input=False))
    assert "clip" in op_names(mod["main"])
    x = np.random.default_rng(1).standard_normal((1, 4, 10, 10), dtype=np.float32)
    machine = host_machine(mod)
    found = machine["main"](tvm.runtime.tensor(x)).numpy()
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(found, session.run(None, {"x": x})[0], rtol=1e-4, atol=1e-5)
