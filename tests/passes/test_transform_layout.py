"""TransformLayout: the same answers, transposes only where no rule carries a layout on, new attributes."""

import numpy as np
import pytest
import tvm
from kits.host_machines import host_machine
from kits.op_info.op_info_kit import infos_of, tensor
from tvm import relax

import annotated_region as ar

op = relax.op
FUSE = [relax.transform.AnnotateTIROpPattern(), relax.transform.FuseOps(), ar.passes.FuseTIRWithOpInfo()]
NHWC = {"relax.nn.conv2d": "NHWC", "relax.nn.max_pool2d": "NHWC", "relax.nn.avg_pool2d": "NHWC"}


def branches(follows):
    """A convolution; for each of `follows`, what it makes of that, and another convolution if that fits."""
    x, w, b = tensor(2, 3, 8, 10), tensor(4, 3, 3, 3), tensor(4, 1, 1)
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w, b]):
        with builder.dataflow():
            first = builder.emit(op.nn.conv2d(x, w, padding=(1, 0, 1, 2), strides=(1, 2)))
            ends = [convolved(builder, builder.emit(follow(first, b))) for follow in follows]
            out = builder.emit_output(relax.Tuple(ends))
        builder.emit_func_output(out)
    return builder.get()


def convolved(builder, value):
    if value.ty.ndim != 4:
        return value
    channels = int(value.ty.shape[1])
    weight = np.linspace(-1, 1, 5 * channels, dtype="float32").reshape(5, channels, 1, 1)
    return builder.emit(op.nn.conv2d(value, relax.const(weight)))


RULED = {
    "relu": lambda y, b: op.nn.relu(y),
    "bias": op.add,
    "bias first": lambda y, b: op.subtract(b, y),
    "number": lambda y, b: op.multiply(y, relax.const(0.5, "float32")),
    "itself": lambda y, b: op.multiply(y, y),
    "max_pool": lambda y, b: op.nn.max_pool2d(y, (3, 2), (2, 1), (1, 0, 1, 1)),
    "avg_pool": lambda y, b: op.nn.avg_pool2d(y, (2, 2), (2, 2), count_include_pad=True),
    "adaptive": lambda y, b: op.nn.adaptive_avg_pool2d(y, (1, 1)),
    "softmax": lambda y, b: op.nn.softmax(y, -3),
    "concat": lambda y, b: op.concat([y, y], 1),
    "pad": lambda y, b: op.nn.pad(y, [0, 0, 1, 2, 0, 3, 1, 0], pad_value=1.5),
    "slice": lambda y, b: op.strided_slice(y, [1, 3], [1, 0], [4, 5], [2, 1]),
    "mean": lambda y, b: op.mean(y, [2, 3], True),
    "flip": lambda y, b: op.flip(y, 1),
}
UNRULED = {
    "reshape": lambda y, b: op.reshape(y, (2, 2, 16, -1)),
    "flatten": lambda y, b: op.flatten(y),
    "matmul": lambda y, b: op.matmul(y, op.permute_dims(y, [0, 1, 3, 2])),
    "tril": lambda y, b: op.tril(y),
}


def run(mod):
    generator = np.random.default_rng(0)
    arguments = [
        generator.standard_normal(tuple(map(int, param.ty.shape)), dtype=np.float32)
        for param in mod["main"].params
    ]
    machine = host_machine(mod)
    return [out.numpy() for out in machine["main"](*map(tvm.runtime.tensor, arguments))]


def transposes(mod):
    """The calls that transpose."""
    calls = [binding.value for block in mod["main"].body.blocks for binding in block.bindings]
    lowered = [call for call in calls if isinstance(call, relax.Call) and call.op.name == "relax.call_tir"]
    return sum(infos_of(mod[call.args[0]])[0].name == "relax.permute_dims" for call in lowered)


def test_the_answers_stay_with_a_rule_and_without():
    plain = branches([*RULED.values(), *UNRULED.values()])
    mod = relax.transform.LegalizeOps()(plain)
    changed = ar.passes.TransformLayout(NHWC)(mod)
    relax.analysis.well_formed(changed)
    for name, ours, theirs in zip([*RULED, *UNRULED], run(changed), run(plain), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("name", RULED)
def test_a_rule_carries_the_layout_on(name):
    follow = RULED[name]
    changed = ar.passes.TransformLayout(NHWC)(ar.passes.LegalizeWithOpInfo()(branches([follow])))
    infos = [
        infos_of(func)[0] for _, func in changed.functions_items() if isinstance(func, tvm.tirx.PrimFunc)
    ]
    assert {info.attrs["data_layout"] for info in infos if info.name == "relax.nn.conv2d"} == {"NHWC"}
    # One in front of the first convolution, one behind the last, and the bias.
    assert transposes(changed) <= (3 if name.startswith("bias") else 2)


def test_blocks_are_carried_on_and_ops_that_are_not_lowered_stay_ops():
    follows = [RULED[name] for name in ("relu", "bias", "max_pool", "concat", "mean", "itself")]
    mod = branches(follows)
    changed = ar.passes.TransformLayout({"relax.nn.conv2d": "NCHW2c"})(mod)
    text = changed.script()
    # The first convolution has three channels, so it stays; those behind have four or eight, and give five.
    assert 'data_layout="NCHW2c"' not in text
    even = ar.passes.TransformLayout({"relax.nn.max_pool2d": "NCHW2c"})(mod)
    assert 'layout="NCHW2c"' in even.script()
    assert "call_tir" not in even.script()
    for ours, theirs in zip(run(even), run(mod), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_the_kernel_can_be_asked_for_too():
    changed = ar.passes.TransformLayout({"relax.nn.conv2d": "NHWC/HWIO"})(branches([RULED["relu"]]))
    assert changed.script().count('kernel_layout="HWIO"') == 2


def test_nothing_to_do_changes_nothing():
    lowered = ar.passes.LegalizeWithOpInfo()(branches([RULED["relu"]]))
    assert transposes(ar.passes.TransformLayout({"relax.nn.conv2d": "NCHW"})(lowered)) == 0


SYMBOLIC = {
    "relu": op.nn.relu,
    "max_pool": lambda y: op.nn.max_pool2d(y, (2, 2), (2, 2)),
    "concat": lambda y: op.concat([y, y], 1),
    "pad": lambda y: op.nn.pad(y, [0, 0, 1, 2, 0, 3, 1, 0]),
    "first rows": lambda y: op.strided_slice(y, [2], [0], [3]),
    "last rows": lambda y: op.strided_slice(y, [2, 3], [-2, 0], [2**63 - 1, 2**63 - 1], [1, 2]),
    "repeat": lambda y: op.repeat(y, 2, 2),
    "flip": lambda y: op.flip(y, 3),
    "mean": lambda y: op.mean(y, [2, 3], True),
    "spread": lambda y: op.broadcast_to(op.mean(y, [2, 3], True), y.ty.shape),
    "spread to two": lambda y: op.broadcast_to(y, relax.ShapeExpr([2, *y.ty.shape.values])),
    "flat": lambda y: op.reshape(y, (y.ty.shape[0], 4, y.ty.shape[2] * y.ty.shape[3])),
}


@pytest.mark.parametrize("legalize", [relax.transform.LegalizeOps, ar.passes.LegalizeWithOpInfo])
@pytest.mark.parametrize("fuse", [[], FUSE], ids=["one by one", "fused"])
def test_the_answers_stay_at_every_size(legalize, fuse):
    batch, rows, columns = (tvm.tirx.Var(name, "int64") for name in ("batch", "rows", "columns"))
    x, w = tensor(batch, 3, rows, columns), tensor(4, 3, 1, 1)
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w]):
        with builder.dataflow():
            first = builder.emit(op.nn.conv2d(x, w))
            out = builder.emit_output(
                relax.Tuple([builder.emit(follow(first)) for follow in SYMBOLIC.values()])
            )
        builder.emit_func_output(out)
    plain = builder.get()
    mod = tvm.transform.Sequential([legalize(), *fuse])(plain)
    changed = ar.passes.TransformLayout(NHWC)(mod)
    assert transposes(changed) > 0
    for sizes in ((2, 5, 4), (1, 2, 2)):
        generator = np.random.default_rng(0)
        shapes = ((sizes[0], 3, *sizes[1:]), (4, 3, 1, 1))
        arguments = [generator.standard_normal(shape, dtype=np.float32) for shape in shapes]
        machines = [host_machine(each) for each in (plain, changed)]
        expected, found = (
            [part.numpy() for part in machine["main"](*map(tvm.runtime.tensor, arguments))]
            for machine in machines
        )
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
