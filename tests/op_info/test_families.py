"""Single ops of the families that need a reader of their own: attributes, unknown sizes, what is not read."""

import numpy as np
import pytest
import tvm
import tvm_ffi
from kits.host_machines import host_machine
from kits.op_info.op_info_kit import lowered, module_of, tensor
from tvm import relax

import annotated_region as ar
from annotated_region.op_info import Parameter
from annotated_region.op_info.attributes import attributes_of
from annotated_region.op_info.infer import compose, elementwise
from annotated_region.op_info.loops import NotNormalError, read_program

nn, image = relax.op.nn, relax.op.image
N = tvm.tirx.Var("n", "int64")

EXACTLY = {
    "conv1d_transpose": nn.conv1d_transpose(tensor(1, 2, 5), tensor(2, 3, 3), strides=2, output_padding=1),
    "conv2d_transpose": nn.conv2d_transpose(
        tensor(1, 4, 5, 6),
        tensor(4, 3, 3, 2),
        strides=(2, 3),
        padding=(1, 0, 0, 1),
        dilation=(1, 2),
        groups=2,
    ),
    "conv3d_transpose": nn.conv3d_transpose(tensor(1, 2, 3, 4, 5), tensor(2, 1, 2, 2, 2), padding=1),
    "linear": image.resize2d(tensor(1, 2, 4, 6), (8, 9)),
    "linear, aligned": image.resize2d(
        tensor(1, 4, 6, 2), (8, 9), layout="NHWC", coordinate_transformation_mode="align_corners"
    ),
    "nearest": image.resize2d(
        tensor(1, 2, 4, 6),
        (8, 12),
        method="nearest_neighbor",
        coordinate_transformation_mode="asymmetric",
        rounding_method="floor",
    ),
    "cubic": image.resize2d(tensor(1, 1, 4, 6), (8, 9), method="cubic", cubic_alpha=-0.5),
    "reflect": nn.pad(tensor(3, 4), (0, 1, 2, 1), pad_mode="reflect"),
    "replicate": nn.pad(tensor(3, 4), (0, 1, 2, 1), pad_mode="replicate"),
    "circular": nn.pad(tensor(3, 4), (0, 1, 2, 1), pad_mode="circular"),
    "take or NaN": relax.op.take(tensor(5, 3), tensor(2, 2, dtype="int64"), 1, mode="nan"),
    "prelu": nn.prelu(tensor(2, 3, 4), tensor(3), 1),
    "quantize": relax.op.quantize(
        tensor(2, 3), relax.const(0.5, "float32"), relax.const(3, "uint8"), out_dtype="uint8"
    ),
    "quantize an axis": relax.op.quantize(tensor(3, 2), tensor(3), tensor(3, dtype="int8"), axis=0),
    "dequantize": relax.op.dequantize(
        tensor(2, 3, dtype="int8"), relax.const(0.25, "float32"), relax.const(-7, "int8")
    ),
    "dequantize an axis": relax.op.dequantize(
        tensor(2, 3, dtype="int8"), tensor(3), tensor(3, dtype="int8"), axis=1
    ),
    "elements": relax.op.gather_elements(tensor(2, 5, 3), tensor(2, 4, 3, dtype="int64"), 1),
    "shape": relax.op.shape_to_tensor(relax.ShapeExpr((3, 5))),
    "of any batch": nn.conv2d_transpose(tensor(N, 2, 5, 6), tensor(2, 3, 3, 3), strides=2, padding=1),
}


@pytest.mark.parametrize("name", EXACTLY)
def test_all_attributes_are_inferred(name):
    call = EXACTLY[name]
    info = ar.infer_op_info(lowered(module_of(call)))
    assert info is not None
    assert info.name == call.op.name
    assert dict(info.attrs) == attributes_of(call.attrs)


@pytest.mark.parametrize(("scale", "center"), [(False, True), (True, False), (False, False)])
def test_an_argument_that_is_not_read_is_the_parameter_that_is_not_read(scale, center):
    vectors = [tensor(3) for _ in range(4)]
    call = nn.batch_norm(tensor(2, 3, 4), *vectors, 1, scale=scale, center=center, training=False)
    info = ar.infer_op_info(lowered(module_of(call)))
    assert info is not None
    assert (info.attrs["scale"], info.attrs["center"]) == (scale, center)
    assert [role.source for role in info.arg_roles] == [Parameter(i) for i in range(5)]


def classifier():
    """A perceptron of any batch."""
    x, w, b = tensor(N, 6), tensor(6, 4), tensor(4)
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w, b]):
        with builder.dataflow():
            product = builder.emit(relax.op.matmul(x, w))
            active = builder.emit(nn.relu(relax.op.add(product, b)))
            out = builder.emit_output(nn.softmax(active))
        builder.emit_func_output(out)
    return builder.get()


def run(mod, *arguments):
    machine = host_machine(mod)
    return machine["main"](*map(tvm.runtime.tensor, arguments)).numpy()


def test_a_lowered_model_of_any_batch_is_raised_and_runs():
    fuse = [relax.transform.AnnotateTIROpPattern(), relax.transform.FuseOps(), relax.transform.FuseTIR()]
    mod = tvm.transform.Sequential([relax.transform.LegalizeOps(), *fuse])(classifier())
    raised = ar.passes.RaiseToOps()(mod)
    assert "call_tir" not in raised.script()
    generator = np.random.default_rng(0)
    for batch in (1, 3):
        arguments = [generator.standard_normal(shape, np.float32) for shape in ((batch, 6), (6, 4), (4,))]
        np.testing.assert_allclose(
            run(raised, *arguments), run(classifier(), *arguments), rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("index", ["v_i0 + T.int64(1)", "n - v_i0", "v_i0 - T.int64(1)"])
def test_what_leaves_a_tensor_of_unknown_size_is_no_op(index):
    func = lowered(module_of(nn.relu(tensor(N, 4))))
    code = func.script(show_meta=True)
    changed = tvm.script.from_source(code.replace("T.max(x[v_i0, v_i1]", f"T.max(x[{index}, v_i1]"))
    assert not tvm_ffi.structural_equal(changed, func)
    assert ar.infer_op_info(func) is not None
    assert ar.infer_op_info(changed) is None
    with pytest.raises(NotNormalError, match="reads out of bounds"):
        read_program(changed)


def test_two_sizes_are_not_taken_for_one():
    func = lowered(module_of(relax.op.add(tensor(N, 4), tensor(N, 4))))
    code = func.script(show_meta=True)
    assert ar.infer_op_info(func) is not None
    other = code.replace('n = TypeVar("n")', 'n = TypeVar("n")\nm = TypeVar("m")')
    other = other.replace("x_1: T.Buffer((n,", "x_1: T.Buffer((m,")
    assert "Buffer((m," in other
    assert ar.infer_op_info(tvm.script.from_source(other)) is None


INTEGERS = [tensor(2, 3, dtype="int32") for _ in range(2)]
TRUTHS = [tensor(2, 3, dtype="bool") for _ in range(2)]


@pytest.mark.parametrize(
    "call",
    [
        relax.op.bitwise_and(*INTEGERS),
        relax.op.bitwise_not(INTEGERS[0]),
        relax.op.left_shift(*INTEGERS),
        relax.op.right_shift(*INTEGERS),
        relax.op.bitwise_or(*TRUTHS),
        relax.op.logical_xor(*TRUTHS),
        relax.op.argmax(tensor(2, 3), 1, True),
        nn.softplus(tensor(2, 3)),
    ],
    ids=lambda call: call.op.name,
)
def test_what_tvm_lowers_to_operators_and_pairs_is_inferred(call):
    info = ar.infer_op_info(lowered(module_of(call)))
    assert info is not None
    assert info.name == call.op.name
    assert dict(info.attrs) == attributes_of(call.attrs)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_nothing_is_printed_while_ops_are_learned(dtype, capfd):
    func = lowered(module_of(relax.op.not_equal(tensor(2, 3, dtype=dtype), tensor(2, 3, dtype=dtype))))
    elementwise._table.cache_clear()
    compose._KNOWN.clear()
    info = ar.infer_op_info(func)
    assert info is not None
    assert info.name == "relax.not_equal"
    assert capfd.readouterr() == ("", "")
