"""PlanLayout: the same answers, demands met, no transpose too many, and every op sound in a chain."""

import os
import subprocess
import sys

import numpy as np
import pytest
import tvm
from kits.host_machines import host_machine
from kits.passes.layout_chains import UNRULED, chains, run
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

import annotated_region as ar
from annotated_region.layout_plan import transposes_of
from annotated_region.layouts import layout_rule_of
from annotated_region.op_info import op_infos
from annotated_region.testing.light_models import light_module
from annotated_region.testing.registry import temporary_registrations

op = relax.op

NOT_IN_CHAINS = {
    "no tensor of data goes in": (
        "arange eye full ones zeros hamming_window null_value tensor_to_shape shape_of shape_to_tensor "
        "nonzero unique call_tir call_tir_with_grad call_dps_packed call_pure_packed call_py_func "
        "call_builtin_with_ctx invoke_closure invoke_pure_closure make_closure assert_op print wrap_param "
        "inspect.tensor_byte_offset inspect.tensor_dtype_bits inspect.tensor_dtype_code "
        "inspect.tensor_dtype_lanes inspect.tensor_elem_offset inspect.tensor_ndim inspect.tensor_shape_i "
        "inspect.tensor_stride_i vision.all_class_non_max_suppression vision.get_valid_counts "
        "vision.multibox_transform_loc vision.non_max_suppression multinomial_from_uniform "
        "nn.attention_var_len"
    ),
    "blocks with it are left alone": "call_tir_inplace call_inplace_packed",
    "it belongs to later or other stages": (
        "builtin.alloc_tensor builtin.stop_lift_params memory.alloc_storage memory.alloc_tensor memory.view "
        "memory.ensure_zero_offset memory.kill_storage memory.kill_tensor vm.alloc_storage vm.alloc_tensor "
        "vm.call_tir_dyn vm.kill_object to_vdevice hint_on_device annotation.compiler_begin "
        "annotation.compiler_end dist.annotate_sharding dist.call_tir_local_view dist.redistribute "
        "dist.redistribute_replica_to_shard ccl.allgather ccl.allreduce ccl.broadcast_from_worker0 "
        "ccl.scatter_from_worker0 grad.avg_pool2d_backward grad.max_pool2d_backward grad.nll_loss_backward "
        "grad.take_backward grad.no_grad grad.start_checkpoint grad.end_checkpoint"
    ),
    "its data has three axes, none of them of channels": "recurrent.loop",
    "TVM cannot lower it": "nn.pixel_shuffle ewise_fma",
}


@pytest.fixture(autouse=True)
def _targets():
    with temporary_registrations():
        ar.register_backend("open")
        ar.register_backend("last", layouts={"relax.nn.conv2d": ("NHWC/OHWI",)})
        ar.register_backend("either", layouts={"relax.nn.conv2d": ("NCHW", "NHWC")})
        ar.register_backend("first", layouts={"relax.nn.conv2d": ("NCHW",)})
        ar.register_backend("blocked", layouts={"relax.nn.conv2d": ("NCHW4c",)})
        yield


def planned(mod, *targets):
    changed = ar.passes.PlanLayout(targets)(mod)
    relax.analysis.well_formed(changed)
    return changed


def attributes(mod, name, key):
    """The values of an attribute in the calls of an op in ``main``, lowered or not."""
    found = []
    for block in mod["main"].body.blocks:
        for binding in block.bindings:
            call = binding.value
            if not isinstance(call, relax.Call) or not isinstance(call.op, tvm.ir.Op):
                continue
            if call.op.name == name:
                found.append(getattr(call.attrs, key))
            elif call.op.name == "relax.call_tir":
                (info,) = op_infos(mod[call.args[0]])
                found += [info.attrs[key]] if info.name == name else []
    return found


def strip(first, last, channels=8):
    """first -> conv, bias, relu, pool, twice -> last, each of the two a function of a value."""
    x = relax.Var("x", relax.TensorType((1, channels, 12, 10), "float32"))
    weight = relax.const(np.random.default_rng(1).standard_normal((8, 8, 3, 3), dtype="float32") / 8)
    bias = relax.const(np.linspace(-1, 1, 8, dtype="float32").reshape(8, 1, 1))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(first(x))
            for _ in range(2):
                y = builder.emit(op.nn.relu(op.add(op.nn.conv2d(y, weight, padding=1), bias)))
                y = builder.emit(op.nn.max_pool2d(y, (2, 2), (2, 2)))
            out = builder.emit_output(last(y))
        builder.emit_func_output(out)
    return builder.get()


PLAIN = strip(op.nn.relu, op.nn.relu)
X_BYTES, Y_BYTES = 8 * 12 * 10 * 4, 8 * 3 * 2 * 4


def same_answers(one, other):
    for ours, theirs in zip(run(one), run(other), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_a_target_that_takes_any_layout_changes_nothing():
    assert planned(PLAIN, "open").same_as(PLAIN)
    assert planned(PLAIN, "dnnl").same_as(PLAIN)


@pytest.mark.parametrize("lower", [False, True])
def test_a_strict_target_gets_its_layout_for_two_transposes(lower):
    mod = ar.passes.LegalizeWithOpInfo()(PLAIN) if lower else PLAIN
    changed = planned(mod, "open", "last")
    assert attributes(changed, "relax.nn.conv2d", "data_layout") == ["NHWC"] * 2
    assert attributes(changed, "relax.nn.conv2d", "kernel_layout") == ["OHWI"] * 2
    assert attributes(changed, "relax.nn.max_pool2d", "layout") == ["NHWC"] * 2
    cost = transposes_of(changed)
    assert (cost.bytes, cost.transposes) == (X_BYTES + Y_BYTES, 2)
    same_answers(changed, PLAIN)


def test_transposes_that_were_there_go_where_they_are_not_needed():
    mod = planned(PLAIN, "last")
    back = planned(mod, "dnnl")
    assert transposes_of(back).transposes == 0
    assert attributes(back, "relax.nn.conv2d", "data_layout") == ["NCHW"] * 2
    same_answers(back, PLAIN)


def test_an_nhwc_interface_with_an_nchw_core_loses_its_transposes():
    mod = strip(
        lambda x: op.permute_dims(op.reshape(x, (1, 10, 12, 8)), [0, 3, 1, 2]),
        lambda y: op.permute_dims(y, [0, 2, 3, 1]),
    )
    assert transposes_of(mod).transposes == 2
    changed = planned(mod, "open")
    assert transposes_of(changed).transposes == 0
    assert attributes(changed, "relax.nn.conv2d", "data_layout") == ["NHWC"] * 2
    same_answers(changed, mod)


@pytest.mark.parametrize("shape", [(48, 5), (1, 48, 5)])
def test_rows_of_a_weight_are_put_in_order_where_the_data_was_flattened(shape):
    weight = relax.const(np.random.default_rng(2).standard_normal(shape, dtype="float32"))
    mod = strip(op.nn.relu, lambda y: op.matmul(op.nn.relu(op.flatten(y)), weight))
    changed = planned(mod, "last")
    assert attributes(changed, "relax.nn.conv2d", "data_layout") == ["NHWC"] * 2
    assert transposes_of(changed).transposes == len(shape) - 1  # a weight with a batch has no rule
    same_answers(changed, mod)


def test_a_weight_that_is_no_constant_is_only_moved_where_that_is_less():
    x, weight = (relax.Var("x", relax.TensorType(shape, "float32")) for shape in ((2, 3, 4), (12, 50)))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, weight]):
        with builder.dataflow():
            y = builder.emit(op.permute_dims(x, [0, 2, 1]))
            out = builder.emit_output(op.matmul(op.reshape(y, (2, 12)), weight))
        builder.emit_func_output(out)
    assert transposes_of(planned(builder.get(), "open")).bytes == 2 * 12 * 4


def test_what_is_transposed_twice_alike_is_transposed_once():
    x = relax.Var("x", relax.TensorType((2, 3, 4), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            twins = [builder.emit(op.permute_dims(x, [0, 2, 1])) for _ in range(2)]
            out = builder.emit_output(relax.Tuple([builder.emit(op.tril(twin)) for twin in twins]))
        builder.emit_func_output(out)
    mod = builder.get()
    assert transposes_of(mod).transposes == 2
    changed = planned(mod, "open")
    assert transposes_of(changed).transposes == 1
    same_answers(changed, mod)


def test_blocks_are_demanded_and_lowered():
    changed = planned(PLAIN, "blocked")
    assert attributes(changed, "relax.nn.conv2d", "data_layout") == ["NCHW4c"] * 2
    assert attributes(changed, "relax.nn.conv2d", "kernel_layout") == ["OIHW4i4o"] * 2
    assert attributes(changed, "relax.nn.max_pool2d", "layout") == ["NCHW4c"] * 2
    assert transposes_of(changed).transposes == 2
    same_answers(changed, PLAIN)


def test_a_demand_that_cannot_be_met_is_passed_over():
    mod = strip(lambda x: op.concat([x, x, x, x], 1), op.nn.relu, channels=2)
    (two, *_) = mod["main"].params
    assert int(two.ty.shape[1]) % 4
    three = strip(lambda x: op.nn.conv2d(x, relax.const(np.ones((8, 3, 1, 1), "float32"))), op.nn.relu, 3)
    changed = planned(three, "blocked")
    assert attributes(changed, "relax.nn.conv2d", "data_layout") == ["NCHW", "NCHW4c", "NCHW4c"]
    same_answers(changed, three)


@pytest.mark.parametrize(
    ("targets", "layout"),
    [
        (["first", "last"], "NCHW"),
        (["last", "first"], "NHWC"),
        (["either", "last"], "NHWC"),
        (["either"], "NCHW"),
        (["open", "first", "blocked"], "NCHW"),
    ],
)
def test_what_suits_most_targets_and_else_the_first(targets, layout):
    assert attributes(planned(PLAIN, *targets), "relax.nn.conv2d", "data_layout") == [layout] * 2


def test_unknown_targets_are_named():
    with pytest.raises(ar.UnknownTargetError, match="nobody"):
        ar.passes.PlanLayout(["nobody"])(PLAIN)


def test_annotation_finds_the_ops_with_their_new_attributes():
    ar.register_rule("last", "relax.nn.conv2d")(lambda view: view.attrs["data_layout"] == "NHWC")
    assert not ar.explain(PLAIN, ["last"]).functions[0].regions
    report = ar.explain(planned(PLAIN, "last"), ["last"])
    assert sum(len(region.ops) for region in report.functions[0].regions) == 2
    lowered = planned(ar.passes.LegalizeWithOpInfo()(PLAIN), "last")
    report = ar.explain(ar.passes.RaiseToOps()(lowered), ["last"])
    assert sum(len(region.ops) for region in report.functions[0].regions) == 2


def test_a_planned_module_runs_on_onednn():
    changed = planned(PLAIN, "last")
    machine = relax.VirtualMachine(ar.build(ar.partition(changed, ["dnnl"])), tvm.cpu())
    image = np.random.default_rng(0).standard_normal((1, 8, 12, 10), dtype=np.float32)
    (expected,) = run(PLAIN)
    np.testing.assert_allclose(
        machine["main"](tvm.runtime.tensor(image)).numpy(), expected, rtol=1e-4, atol=1e-4
    )


@I.ir_module
class Branches:
    @R.function
    def main(
        x: R.Tensor((1, 4, 6, 6), "float32"), w: R.Tensor((4, 4, 3, 3), "float32"), c: R.Tensor((), "bool")
    ) -> R.Tensor((1, 4, 4, 4), "float32"):
        with R.dataflow():
            a = R.nn.conv2d(x, w)
            b = R.nn.relu(a)
            R.output(a, b)
        if c:
            d = R.nn.conv2d(x, w)
            e = R.add(d, b)
            r = R.nn.relu(e)
        else:
            r = R.add(a, b)
        return r


def test_values_keep_their_layout_between_blocks_and_branches():
    changed = planned(Branches, "last")
    assert changed.script().count('data_layout="NHWC"') == 2
    for flag in (True, False):
        generator = np.random.default_rng(0)
        arguments = [generator.standard_normal(s, dtype=np.float32) for s in ((1, 4, 6, 6), (4, 4, 3, 3))]
        arguments = [tvm.runtime.tensor(each) for each in (*arguments, np.asarray(flag))]
        ours, theirs = (host_machine(mod)["main"](*arguments).numpy() for mod in (changed, Branches))
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


@I.ir_module
class Tuples:
    @R.function
    def main(
        x: R.Tensor((2, 4, 8, 8), "float32"),
        w: R.Tensor((4, 4, 3, 3), "float32"),
        g: R.Tensor((4,), "float32"),
    ):
        with R.dataflow():
            a = R.nn.conv2d(x, w)
            pair = (a, a)
            joined = R.concat(pair, axis=1)
            parts = R.split(joined, 2, axis=1)
            one = parts[0]
            other = parts[1]
            n = R.nn.batch_norm(R.nn.conv2d(one, w), g, g, g, R.exp(g), 1, training=False)
            halves = (R.nn.conv2d(n[0], w), other)
            R.output(n, halves)
        return (n, halves)


def test_tuples_are_looked_through_and_made_again():
    changed = planned(Tuples, "last")
    assert attributes(changed, "relax.concat", "axis") == [3]
    assert attributes(changed, "relax.split", "axis") == [3]
    assert attributes(changed, "relax.nn.batch_norm", "axis") == [3]
    generator = np.random.default_rng(0)
    shapes = ((2, 4, 8, 8), (4, 4, 3, 3), (4,))
    arguments = [tvm.runtime.tensor(generator.standard_normal(shape, dtype=np.float32)) for shape in shapes]
    ours, theirs = (leaves(host_machine(mod)["main"](*arguments)) for mod in (changed, Tuples))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def leaves(value):
    return [value.numpy()] if hasattr(value, "numpy") else [leaf for part in value for leaf in leaves(part)]


def test_a_symbolic_batch_is_planned_as_well():
    n = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n, 4, 6, 6), "float32"))
    weight = relax.const(np.ones((4, 4, 3, 3), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(op.nn.relu(op.nn.conv2d(x, weight)))
            out = builder.emit_output(op.mean(y, [2, 3], True))
        builder.emit_func_output(out)
    mod = builder.get()
    changed = planned(mod, "last")
    assert transposes_of(changed).transposes == 1  # the mean has one element for each channel
    image = tvm.runtime.tensor(np.random.default_rng(0).standard_normal((3, 4, 6, 6), dtype=np.float32))
    ours, theirs = (host_machine(each)["main"](image).numpy() for each in (changed, mod))
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_blocks_with_calls_in_place_are_left_alone():
    x, w = (relax.Var("x", relax.TensorType(shape, "float32")) for shape in ((2, 4, 6, 6), (4, 4, 3, 3)))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w], pure=False):
        y = builder.emit(op.nn.conv2d(x, w))
        z = builder.emit(op.call_inplace_packed("f", y, inplace_indices=0, ty_args=y.ty))
        builder.emit_func_output(builder.emit(op.nn.conv2d(z, w)))
    mod = builder.get()
    assert planned(mod, "last").same_as(mod)


@pytest.fixture(scope="module")
def unruled_answers():
    """For each op without a rule, what its chain gives in the new layouts and as it was."""
    mod = chains(list(UNRULED.values()))
    with temporary_registrations():
        ar.register_backend("last", layouts={"relax.nn.conv2d": ("NHWC/OHWI",)})
        changed = planned(mod, "last")
    assert set(attributes(changed, "relax.nn.conv2d", "data_layout")) == {"NHWC"}
    return dict(zip(UNRULED, zip(run(changed), run(mod), strict=True), strict=True))


@pytest.mark.parametrize("name", UNRULED)
def test_an_op_without_a_rule_in_the_middle_of_a_chain_gives_the_right_answer(name, unruled_answers):
    ours, theirs = unruled_answers[name]
    assert theirs.size
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_every_op_without_a_rule_is_in_a_chain_or_has_a_reason():
    names = [str(name) for name in tvm.ir.Op.list_op_names() if name.startswith("relax.")]
    without = {name for name in names if layout_rule_of(name) is None}
    excused = {f"relax.{name}" for names in NOT_IN_CHAINS.values() for name in names.split()}
    assert without == excused | set(UNRULED)


def cut(name, count):
    """The first bindings of a light model, prepared for inference."""
    main = ar.passes.PrepareForInference()(light_module(name))["main"]
    (block,) = main.body.blocks
    bindings = block.bindings[:count]
    out = relax.Var("out", bindings[-1].var.ty)
    block = relax.DataflowBlock([*bindings, relax.VarBinding(out, bindings[-1].var)])
    body = relax.SeqExpr([block], out)
    relax.expr._update_type(body, out.ty)
    attrs = tvm.ir.make_node("ir.DictAttrs", global_symbol="main")
    return tvm.IRModule({"main": relax.Function(main.params, body, out.ty, attrs=attrs)})


CUTS = {"shufflenet": 24}
"""Models, and how many bindings there are up to the first channel shuffle."""


@pytest.mark.parametrize("name", CUTS)
def test_the_beginning_of_a_model_needs_no_more_than_tvms_conversion(name):
    mod = cut(name, CUTS[name])
    theirs = relax.transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(mod)
    ours = planned(mod, "last")
    assert set(attributes(ours, "relax.nn.conv2d", "data_layout")) == {"NHWC"}
    assert transposes_of(ours) <= transposes_of(theirs)
    assert transposes_of(planned(theirs, "first")) <= transposes_of(mod)
    same_answers(ours, mod)


TEXT = """
import annotated_region as ar
from annotated_region.testing.light_models import light_module
ar.register_backend("last", layouts={"relax.nn.conv2d": ("NHWC/OHWI",)})
print(ar.passes.PlanLayout(["last"])(light_module("shufflenet")).script())
"""


def test_the_plan_is_the_same_text_in_another_process():
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}
    command = [sys.executable, "-c", TEXT]
    theirs = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert 'data_layout="NHWC"' in theirs
    assert planned(light_module("shufflenet"), "last").script() + "\n" == theirs
