"""Layout rules against the definition of layouts: the changed op on stored operands gives stored results."""

import numpy as np
import pytest
import tvm
from kits.layouts.layout_kit import ELSEWHERE, LAYOUTS, RULED, described, run, stored, tensor
from tvm import relax

from annotated_region.layouts import Layout, Piece, layout_rule_of
from annotated_region.op_info.calls import make_call

ORDERED = {"conv", "grouped conv", "resize", "layer_norm", "rms_norm"}
"""Calls that take NHWC or nothing: TVM lowers them in known layouts only, or axes would change places."""
IN_PIECES = {"bias", "where", "avg_pool", "concat", "mean", "stack", "tile", "split", "broadcast_to"}
"""Calls that are tried with pieces in an odd order too."""

CASES = {
    f"{name} in {layout}": (call, LAYOUTS[layout])
    for name, call in RULED.items()
    for layout in (
        "NHWC" if name in ORDERED else "WCNH",
        "NCHW2c",
        *["low digits first"] * (name in IN_PIECES),
    )
}
CASES |= {
    name: (call, Layout.of_order((0, *range(2, call.args[0].ty.ndim), 1))) for name, call in ELSEWHERE.items()
}
ROWS = Layout((Piece(0), Piece(1, 4, 12), Piece(1, 1, 4), Piece(1, 12)))
CASES["matmul with rows in another order"] = (relax.op.matmul(tensor(3, 24), tensor(24, 5)), ROWS)
CASES["matmul with a vector for data"] = (
    relax.op.matmul(tensor(24), tensor(24, 5)),
    ROWS.without((0,)),
)


def changed(name):
    """What the rule says, if its types fit: info, the layout of each operand and of each result."""
    call, layout = CASES[name]
    info, operands, typed = described(call)
    change = layout_rule_of(info.name)(info, layout)
    if change is None:
        return None
    shapes = [
        np.empty(0)
        if index not in change.operands
        else stored(np.zeros(shape_of(one)), change.operands[index])
        for index, one in enumerate(operands)
    ]
    new = {
        index: one
        if index not in change.operands
        else relax.Var("stored", relax.TensorType(shapes[index].shape, one.ty.dtype))
        for index, one in enumerate(operands)
    }
    try:
        relax.BlockBuilder().normalize(make_call(change.info, new, {}))
    except (tvm.error.InternalError, ValueError):
        return None
    return change, operands, new, typed


def shape_of(expr):
    return tuple(map(int, expr.ty.shape))


def values_of(operand, generator):
    if isinstance(operand, tvm.ir.GenericConst):
        return operand.value.numpy()
    dtype = str(operand.ty.dtype)
    if dtype == "float32":
        return generator.standard_normal(shape_of(operand), dtype=np.float32)
    return generator.integers(0, 2, shape_of(operand)).astype(dtype)


class Batch:
    """Many calls in one function, so that they are compiled at once."""

    def __init__(self):
        self.params, self.arguments, self.calls, self.places = [], [], [], {}
        self.generator = np.random.default_rng(0)

    def add(self, name, call, operands, values):
        """Append a call on operands of its own; constants stay."""
        fresh = {}
        for operand, value in zip(operands, values, strict=True):
            if not isinstance(operand, tvm.ir.GenericConst):
                fresh[operand] = relax.Var(f"p{len(self.params)}", operand.ty)
                self.params.append(fresh[operand])
                self.arguments.append(value)
        self.places[name] = len(self.calls)
        self.calls.append((call, fresh))

    def answers(self):
        builder = relax.BlockBuilder()
        counts = []
        with builder.function("main", self.params):
            with builder.dataflow():
                leaves = []
                for call, fresh in self.calls:
                    value = builder.emit(
                        relax.Call(call.op, [renamed(a, fresh) for a in call.args], call.attrs)
                    )
                    parts = len(value.ty.fields) if isinstance(value.ty, tvm.ir.TupleType) else None
                    fields = [value] if parts is None else [builder.emit(value[i]) for i in range(parts)]
                    counts.append(len(fields))
                    leaves += fields
                out = builder.emit_output(relax.Tuple(leaves))
            builder.emit_func_output(out)
        results = run(builder.get()["main"], self.arguments)
        ends = np.cumsum([0, *counts])
        return {name: results[ends[place] : ends[place + 1]] for name, place in self.places.items()}


def renamed(expr, fresh):
    if isinstance(expr, relax.Tuple):
        return relax.Tuple([renamed(part, fresh) for part in expr.fields])
    return fresh.get(expr, expr)


@pytest.fixture(scope="module")
def outcomes():
    """For each case that the rule answers: the change, what the changed op gave, what the old one gave."""
    before, after, changes = Batch(), Batch(), {}
    for name in CASES:
        answer = changed(name)
        if answer is None:
            continue
        change, operands, new, typed = answer
        values = [values_of(operand, before.generator) for operand in operands]
        # An operand that comes twice has one value.
        values = [values[operands.index(operand)] for operand in operands]
        moved = [
            value if index not in change.operands else stored(value, change.operands[index])
            for index, value in enumerate(values)
        ]
        before.add(name, typed, operands, values)
        constants = {
            index: relax.const(tvm.runtime.tensor(moved[index]))
            for index, operand in enumerate(operands)
            if isinstance(operand, tvm.ir.GenericConst)
        }
        exprs = {**new, **constants}
        call = relax.BlockBuilder().normalize(make_call(change.info, exprs, {}))
        after.add(name, call, list(exprs.values()), moved)
        changes[name] = change
    old, new = before.answers(), after.answers()
    return {name: (change, new[name], old[name]) for name, change in changes.items()}


@pytest.mark.parametrize("name", CASES)
def test_the_changed_op_gives_what_the_layout_stores_of_the_results(name, outcomes):
    if name not in outcomes:
        assert CASES[name][1].order is None or name == "rms_norm in NHWC"
        return
    change, ours, theirs = outcomes[name]
    for result, layout, expected in zip(ours, change.results, theirs, strict=True):
        wanted = expected if layout is None else stored(expected, layout)
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


def test_most_ops_take_blocks_too(outcomes):
    answered = {name.removesuffix(" in NCHW2c") for name in outcomes if name.endswith("NCHW2c")}
    assert {
        "relu",
        "bias",
        "conv",
        "max_pool",
        "adaptive",
        "concat",
        "mean",
        "pad",
        "tile",
        "split",
    } <= answered
    assert not {"softmax", "slice", "flip", "batch_norm", "pad channels"} & answered


@pytest.mark.parametrize("name", ["relax.nn.conv2d_transpose", "relax.reshape", "relax.einsum", "relax.topk"])
def test_ops_without_a_rule(name):
    assert layout_rule_of(name) is None


@pytest.mark.parametrize("name", sorted(ORDERED))
def test_calls_that_do_not_take_any_order(name):
    info, _, _ = described(RULED[name])
    assert layout_rule_of(info.name)(info, LAYOUTS["WCNH"]) is None


def test_a_rule_by_kind_leaves_ops_with_an_axis_alone():
    info, _, _ = described(
        relax.op.quantize(*map(relax.const, (np.ones((2, 2), "float32"), 0.5, 0)), 0, "int8")
    )
    assert layout_rule_of("relax.quantize")(info, Layout.of_order((1, 0))) is None
