"""Ordered loops of sums on the host give the same bits as TVM's own order, for all kinds of sums."""

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, tirx

import annotated_region as ar
from annotated_region.compilation.host_loops import host_pipeline, with_ordered_loops
from annotated_region.errors import BuildError

LLVM = tvm.target.Target("llvm")
ROWS = tirx.Var("n", "int64")


def function_of(op, *params):
    """A module that applies an op to parameters of these shapes and types."""
    variables = [
        relax.Var(f"x{number}", relax.TensorType(shape, dtype))
        for number, (shape, dtype) in enumerate(params)
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", variables):
        with builder.dataflow():
            out = builder.emit_output(op(*variables))
        builder.emit_func_output(out)
    return builder.get()


def numbers(params, rows=5):
    random = np.random.default_rng(0)
    for shape, dtype in params:
        extents = [rows if isinstance(extent, tirx.Var) else int(extent) for extent in shape]
        low, high = (-9, 9) if "int" in dtype else (-1, 1)
        yield random.uniform(low, high, extents).astype(dtype)


def answers(mod, params, pipeline):
    machine = relax.VirtualMachine(tvm.compile(mod, LLVM, relax_pipeline=pipeline), tvm.cpu())
    return machine["main"](*[tvm.runtime.tensor(each) for each in numbers(params)]).numpy()


def is_ordered(mod):
    """Whether the loops of any function are ordered."""
    lowered = relax.get_pipeline("default")(mod)
    names = [name.name_hint for name in lowered.get_global_vars()]
    return not with_ordered_loops(lowered, names).same_as(lowered)


def conv2d(x, w, **attributes):
    return relax.op.nn.conv2d(x, w, **attributes)


F32, F16, I8, I32 = "float32", "float16", "int8", "int32"
SUMS = {
    "product": (relax.op.matmul, [((16, 20), F32), ((20, 12), F32)]),
    "rows that are no multiple of a block": (relax.op.matmul, [((7, 5), F32), ((5, 9), F32)]),
    "one row": (relax.op.matmul, [((1, 20), F32), ((20, 12), F32)]),
    "one term": (relax.op.matmul, [((24, 1), F32), ((1, 4), F32)]),
    "symbolic rows": (relax.op.matmul, [((ROWS, 5), F32), ((5, 9), F32)]),
    "symbolic columns": (relax.op.matmul, [((8, 6), F32), ((6, ROWS), F32)]),
    "symbolic sum": (relax.op.matmul, [((8, ROWS), F32), ((ROWS, 6), F32)]),
    "batches": (relax.op.matmul, [((2, 3, 8, 5), F32), ((3, 5, 8), F32)]),
    "vector and matrix": (relax.op.matmul, [((6,), F32), ((6, 9), F32)]),
    "half precision": (relax.op.matmul, [((8, 20), F16), ((20, 8), F16)]),
    "whole numbers": (lambda x, w: relax.op.matmul(x, w, "int32"), [((8, 9), I8), ((9, 8), I8)]),
    "convolution": (lambda x, w: conv2d(x, w, padding=1), [((1, 3, 8, 8), F32), ((4, 3, 3, 3), F32)]),
    "strides": (lambda x, w: conv2d(x, w, strides=2), [((2, 3, 19, 17), F32), ((4, 3, 3, 3), F32)]),
    "groups": (lambda x, w: conv2d(x, w, groups=2), [((1, 4, 9, 9), F32), ((6, 2, 3, 3), F32)]),
    "depthwise": (lambda x, w: conv2d(x, w, groups=4), [((1, 4, 9, 9), F32), ((4, 1, 3, 3), F32)]),
    "channels last": (
        lambda x, w: conv2d(x, w, data_layout="NHWC", kernel_layout="HWIO"),
        [((1, 9, 9, 3), F32), ((3, 3, 3, 8), F32)],
    ),
    "one dimension": (relax.op.nn.conv1d, [((1, 3, 16), F32), ((4, 3, 3), F32)]),
    "three dimensions": (relax.op.nn.conv3d, [((1, 2, 5, 6, 7), F32), ((3, 2, 2, 3, 3), F32)]),
    "transposed": (relax.op.nn.conv2d_transpose, [((1, 3, 6, 6), F32), ((3, 4, 3, 3), F32)]),
    "sum of rows": (lambda x: relax.op.sum(x, 0), [((9, 16), F32)]),
    "product of rows": (lambda x: relax.op.prod(x, 1), [((2, 9, 16), I32)]),
    "largest of rows": (lambda x: relax.op.max(x, 0), [((9, 16), F32)]),
    "largest of windows": (lambda x: relax.op.nn.max_pool2d(x, 3), [((1, 2, 8, 12), F32)]),
}
LEFT = {
    "few columns": (relax.op.matmul, [((16, 20), F32), ((20, 3), F32)]),
    "sum of columns": (lambda x: relax.op.sum(x, 1), [((9, 16), F32)]),
    "no sum": (relax.op.add, [((9, 16), F32), ((9, 16), F32)]),
    "channels of the kernel in front": (
        lambda x, w: conv2d(x, w, data_layout="NHWC", kernel_layout="OHWI"),
        [((1, 9, 9, 3), F32), ((8, 3, 3, 3), F32)],
    ),
}


@pytest.mark.parametrize("name", SUMS)
def test_ordered_loops_give_the_bits_of_tvms_order(name):
    op, params = SUMS[name]
    mod = function_of(op, *params)
    assert is_ordered(mod)
    np.testing.assert_array_equal(
        answers(mod, params, host_pipeline(LLVM)), answers(mod, params, "default"), strict=True
    )


@pytest.mark.parametrize("name", LEFT)
def test_loops_that_would_not_gain_are_left(name):
    op, params = LEFT[name]
    assert not is_ordered(function_of(op, *params))


def test_loops_that_a_user_wrote_stay():
    """They may be tuned."""
    mod = relax.transform.LegalizeOps()(function_of(*SUMS["product"][:1], *SUMS["product"][1]))
    pipeline, default = host_pipeline(LLVM), relax.get_pipeline("default")
    assert not isinstance(pipeline, str)
    assert tvm_ffi.structural_equal(pipeline(mod), default(mod))


def test_a_graphics_processor_keeps_tvms_pipeline():
    assert host_pipeline(tvm.target.Target("vulkan")) == "default"


@tvm.instrument.pass_instrument
class Seen:
    """The names of the passes that run."""

    def __init__(self):
        self.names = []

    def run_before_pass(self, mod, info):
        self.names.append(info.name)


def test_build_orders_the_loops():
    op, params = SUMS["product"]
    seen = Seen()
    with tvm.transform.PassContext(instruments=[seen]):
        executable = ar.build(function_of(op, *params))
    assert "annotated_region.OrderedLoops" in seen.names
    one, other = numbers(params)
    found = relax.VirtualMachine(executable, tvm.cpu())["main"](*map(tvm.runtime.tensor, (one, other)))
    np.testing.assert_allclose(found.numpy(), one.astype("float64") @ other, rtol=1e-5, atol=1e-6)


def test_keys_of_a_cache_that_are_shared_and_transposed_compile():
    """TVM asks whether a transposition of m + 4 rows is a reshape, and fails to divide by m + 4."""
    rows = tirx.Var("m", "int64")
    past, new = (
        relax.Var(name, relax.TensorType((1, 1, extent, 4), "float32"))
        for name, extent in (("past", rows), ("new", 4))
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [past, new]):
        with builder.dataflow():
            keys = builder.emit(relax.op.concat([past, new], 2))
            shared = builder.emit(relax.op.repeat(keys, 3, 1))
            turned = builder.emit(relax.op.permute_dims(shared, [0, 1, 3, 2]))
            result = builder.emit_output(relax.op.negative(turned))
        builder.emit_func_output(result)
    run = relax.VirtualMachine(ar.build(builder.get()), tvm.cpu())["main"]
    for count in (3, 1):
        earlier, latest = (
            np.random.default_rng(count).standard_normal((1, 1, extent, 4)).astype("float32")
            for extent in (count, 4)
        )
        expected = -np.repeat(np.concatenate([earlier, latest], 2), 3, 1).transpose(0, 1, 3, 2)
        np.testing.assert_array_equal(run(*map(tvm.runtime.tensor, (earlier, latest))).numpy(), expected)


def test_other_failures_of_tvms_passes_are_raised(monkeypatch):
    failing = tvm.transform.module_pass(refuse, opt_level=0, name="Refusing")
    monkeypatch.setattr(relax, "get_pipeline", lambda _name: failing)
    op, params = SUMS["product"]
    with pytest.raises(BuildError, match="refused"):
        ar.build(function_of(op, *params))


def refuse(_mod, _context):
    raise ValueError("refused")
