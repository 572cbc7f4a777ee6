"""infer_op_info: lowered ops are recovered, and modified functions are never mistaken for ops."""

from collections import defaultdict

import numpy as np
import pytest
import tvm
import tvm_ffi
from hypothesis import assume, given
from hypothesis import strategies as st
from kits.op_info.op_info_kit import (
    PERTURBATIONS,
    calls,
    expected_attributes,
    lowered,
    module_of,
    perturbed,
    run,
    tensor,
)
from kits.op_info.symbolic_kit import extent_at
from tvm import relax

import annotated_region as ar
from annotated_region.op_info import Number, Parameter
from annotated_region.op_info.attributes import attributes_of
from annotated_region.op_info.calls import make_call


def claimed_func(info, func):
    """The code of the op that `info` names, lowered by TVM with parameters of the types of `func`."""
    params = {
        index: relax.Var("p", relax.TensorType(param.shape, str(param.dtype)))
        for index, param in enumerate(func.params)
    }
    return lowered(module_of(make_call(info, params, {})))


def has_number_on_the_left(call):
    """Sums and products may come back with their operands in the other order."""
    return call.op.name in ("relax.add", "relax.multiply") and isinstance(call.args[0], tvm.ir.GenericConst)


@pytest.mark.campaign
@given(calls)
def test_what_was_lowered_is_inferred(tally, call):
    func = lowered(module_of(call))
    info = ar.infer_op_info(func)
    assert info is not None
    expected = expected_attributes(call)
    if info.name == call.op.name and expected is not None:
        assert dict(info.attrs) == expected
    # Compared by TVM. Some ops lower to the same code: a leaky relu of slope 1 is a copy.
    indices = [role.source.index for role in info.arg_roles if isinstance(role.source, Parameter)]
    if indices == sorted(indices) and not has_number_on_the_left(call):
        assert tvm_ffi.structural_equal(claimed_func(info, func), func)
    tally["calls lowered and inferred"] += 1


@pytest.mark.campaign
@given(calls, st.integers(0, len(PERTURBATIONS) - 1), st.integers(0, 1000), st.integers(0, 2**32 - 1))
def test_a_change_is_never_taken_for_an_op_that_computes_something_else(tally, call, kind, place, seed):
    func = perturbed(lowered(module_of(call)), kind, place)
    assume(func is not None)
    info = ar.infer_op_info(func)
    tally["changed PrimFuncs"] += 1
    if info is None:
        return
    tally["of these, claimed as an op and run against it"] += 1
    claimed = claimed_func(info, func)
    generator = np.random.default_rng(seed)
    *_, out = func.params
    arguments = [random_array(generator, param) for param in func.params[:-1]]
    outputs = [(some_shape(out), str(out.dtype))]
    np.testing.assert_array_equal(run(func, arguments, outputs)[0], run(claimed, arguments, outputs)[0])


def some_shape(param):
    """The shape of a parameter where each size that is not known is 3."""
    return tuple(extent_at(extent, defaultdict(lambda: 3)) for extent in param.shape)


def random_array(generator, param):
    shape, dtype = some_shape(param), str(param.dtype)
    if dtype == "int64":
        return generator.integers(0, 2, shape)
    return generator.uniform(0.5, 2, shape).astype(dtype)


x = tensor(1, 6, 8, 8)
v = [tensor(6) for _ in range(4)]
NORMS = [
    relax.op.nn.batch_norm(x, *v, 1, 1e-3, training=False),
    relax.op.nn.layer_norm(tensor(2, 6), v[0], v[1], [1], 1e-3),
    relax.op.nn.rms_norm(tensor(2, 6), v[0], [1], 1e-3),
    relax.op.nn.instance_norm(x, v[0], v[1], 1, [2, 3], 1e-3),
    relax.op.nn.group_norm(x, v[0], v[1], 3, 1, [2, 3], 1e-3),
]


@pytest.mark.parametrize("call", NORMS, ids=lambda call: call.op.name)
def test_norms_are_inferred_with_epsilon(call):
    info = ar.infer_op_info(lowered(module_of(call)))
    assert info is not None
    assert info.name == call.op.name
    assert dict(info.attrs) == attributes_of(call.attrs)
    assert [role.source for role in info.arg_roles] == [Parameter(i) for i in range(len(call.args))]


def test_a_number_that_was_compiled_in_is_an_argument():
    info = ar.infer_op_info(lowered(module_of(relax.op.subtract(relax.const(2.0, "float32"), x))))
    assert info is not None
    assert info.name == "relax.subtract"
    assert [role.source for role in info.arg_roles] == [Number(2.0, "float32"), Parameter(0)]


def test_a_window_that_leaves_its_tensor_is_no_convolution():
    func = lowered(module_of(relax.op.nn.conv1d(tensor(1, 1, 5), tensor(1, 1, 2))))
    (text,) = (line for line in func.script().splitlines() if "= conv1d_ncw" in line)
    code = func.script(show_meta=True).replace(text, text.replace("v_yy + v_ry", "v_yy - v_ry"))
    changed = tvm.script.from_source(code)
    assert not tvm_ffi.structural_equal(changed, func)
    assert ar.infer_op_info(func) is not None
    assert ar.infer_op_info(changed) is None


def test_scheduled_code_is_not_understood():
    func = lowered(module_of(relax.op.nn.relu(x)))
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": func}))
    (block,) = schedule.get_child_blocks(schedule.get_sblock("root"))
    schedule.split(schedule.get_loops(block)[1], [2, None])
    assert ar.infer_op_info(schedule.mod["main"]) is None


def test_the_order_of_spatial_loops_does_not_matter():
    func = lowered(module_of(relax.op.nn.max_pool2d(x, (3, 3), (2, 2), (1, 0, 1, 0))))
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": func}))
    block = schedule.get_child_blocks(schedule.get_sblock("root"))[-1]
    loops = schedule.get_loops(block)
    schedule.reorder(loops[3], loops[1])
    assert not tvm_ffi.structural_equal(schedule.mod["main"], func)
    assert ar.infer_op_info(schedule.mod["main"]) == ar.infer_op_info(func)
