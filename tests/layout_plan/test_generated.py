"""Plans for generated functions, checked with numpy: equal results, and as many transposes as planned."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import relax

from annotated_region.layout_plan import Cost, best_plan, following_plan, plan_module, transposes_of
from annotated_region.targets.op_view import OpView

op = relax.op


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def sliced(x, axes, begin, end, strides):
    index = [slice(None)] * x.ndim
    for axis, first, last, step in zip(axes, begin, end, strides, strict=True):
        index[axis] = slice(first, last, step)
    return x[tuple(index)]


MEANING: dict[str, Callable[..., Any]] = {
    "relax.nn.relu": lambda a, x: np.maximum(x, 0),
    "relax.add": lambda a, x, y: x + y,
    "relax.permute_dims": lambda a, x: x.transpose(a["axes"]),
    "relax.reshape": lambda a, x, shape: x.reshape(shape),
    "relax.expand_dims": lambda a, x: np.expand_dims(x, a["axis"]),
    "relax.squeeze": lambda a, x: np.squeeze(x, a["axis"]),
    "relax.concat": lambda a, parts: np.concatenate(parts, a["axis"]),
    "relax.stack": lambda a, parts: np.stack(parts, a["axis"]),
    "relax.split": lambda a, x: tuple(np.split(x, a["indices_or_sections"], a["axis"])),
    "relax.nn.softmax": lambda a, x: softmax(x, a["axis"]),
    "relax.sum": lambda a, x: x.sum(a["axis"], keepdims=a["keepdims"]),
    "relax.cumsum": lambda a, x: x.cumsum(a["axis"]),
    "relax.flip": lambda a, x: np.flip(x, a["axis"]),
    "relax.strided_slice": lambda a, x, *rest: sliced(x, *rest),
    "relax.tril": lambda a, x, k: np.tril(x, k),
}
"""What each op does to arrays, by its attributes."""


def evaluated(mod, arguments):
    """The results of ``main``, computed with numpy."""
    main = mod["main"]
    env = dict(zip(main.params, arguments, strict=True))

    def value(expr):
        if isinstance(expr, relax.Tuple):
            return tuple(map(value, expr.fields))
        if isinstance(expr, relax.TupleGetItem):
            return value(expr.tuple_value)[expr.index]
        if isinstance(expr, relax.ShapeExpr):
            return tuple(map(int, expr.values))
        if isinstance(expr, relax.Call):
            view = OpView.of(expr)
            assert view is not None
            return MEANING[view.name](view.attrs, *map(value, expr.args))
        if expr in env:
            return env[expr]
        return int(expr) if hasattr(expr, "value") and isinstance(expr.value, int) else expr.value.numpy()

    for block in main.body.blocks:
        for binding in block.bindings:
            env[binding.var] = value(binding.value)
            assert env[binding.var] is not None
    return value(main.body.body)


@st.composite
def functions(draw):
    """Some ops in a row, each on something that came before, with transposes strewn in."""
    builder = relax.BlockBuilder()
    params = [relax.Var(f"x{i}", relax.TensorType((2, 4, 1, 3), "float32")) for i in range(2)]
    with builder.function("main", params):
        with builder.dataflow():
            values = list(params)
            for _ in range(draw(st.integers(2, 9))):
                made = builder.emit(draw(calls(values)))
                fields = getattr(made.ty, "fields", None)
                values += [made] if fields is None else [builder.emit(made[i]) for i in range(len(fields))]
            leaving = draw(st.lists(st.sampled_from(values[2:]), min_size=1, max_size=3, unique_by=id))
            out = [builder.emit_output(value) for value in (*leaving, values[-1])]
        builder.emit_func_output(relax.Tuple(out))
    return builder.get()


@st.composite
def calls(draw, values):
    x = draw(st.sampled_from(values))
    shape = tuple(map(int, x.ty.shape))
    axis = draw(st.integers(0, len(shape) - 1))
    made = {
        "relu": lambda: op.nn.relu(x),
        "bias": lambda: op.add(x, relax.const(np.ones(shape[-1:], "float32"))),
        "own bias": lambda: op.add(x, op.sum(x, list(range(len(shape) - 1)), False)),
        "softmax": lambda: op.nn.softmax(x, axis),
        "cumsum": lambda: op.cumsum(x, axis),
        "flip": lambda: op.flip(x, axis),
        "concat": lambda: op.concat([x, x], axis),
        "slice": lambda: op.strided_slice(x, [axis], [0], [max(1, shape[axis] - 1)], [1]),
    }
    if len(shape) > 1:
        made["sum"] = lambda: op.sum(x, [axis], bool(draw(st.booleans())))
    if len(shape) > 2:
        made["tril"] = lambda: op.tril(x)
    if len(shape) < 5:
        made["expand"] = lambda: op.expand_dims(x, axis)
        made["stack"] = lambda: op.stack([x, x], axis)
    if shape[axis] % 2 == 0:
        made["split"] = lambda: op.split(x, 2, axis)
    same = [value for value in values if tuple(map(int, value.ty.shape)) == shape]
    made["add"] = lambda: op.add(x, draw(st.sampled_from(same)))
    moves = {
        "transpose": lambda: op.permute_dims(x, draw(st.permutations(range(len(shape))))),
        "joined": lambda: op.reshape(x, (shape[0], -1) if len(shape) > 1 else shape),
    }
    if shape[axis] % 2 == 0 and len(shape) < 5:
        cut = (*shape[:axis], 2, shape[axis] // 2, *shape[axis + 1 :])
        moves["cut"] = lambda: op.reshape(x, cut)
    table = draw(st.sampled_from([made, moves]))
    return table[draw(st.sampled_from(sorted(table)))]()


PLANNERS = {"best": best_plan(lambda info: ()), "following": following_plan(lambda info: ())}


@pytest.mark.campaign
@pytest.mark.parametrize("name", PLANNERS)
@given(data=st.data())
def test_a_planned_function_computes_the_same(name, data):
    mod = data.draw(functions())
    plan = plan_module(mod, PLANNERS[name])
    relax.analysis.well_formed(plan.mod)
    generator = np.random.default_rng(0)
    arguments = [generator.standard_normal((2, 4, 1, 3), dtype=np.float32) for _ in range(2)]
    for ours, theirs in zip(evaluated(plan.mod, arguments), evaluated(mod, arguments), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def moved(mod):
    """Number and bytes of the transposes in the text: those that move axes of more than one element."""
    found = Cost()
    for block in mod["main"].body.blocks:
        for binding in block.bindings:
            view = OpView.of(binding.value) if isinstance(binding.value, relax.Call) else None
            if view is not None and view.name == "relax.permute_dims":
                shape = tuple(map(int, view.args[0].ty.shape))
                order = [axis for axis in view.attrs["axes"] if shape[axis] > 1]
                found += Cost(4 * int(np.prod(shape)), 1) if order != sorted(order) else Cost()
    return found


@pytest.mark.campaign
@given(functions())
def test_the_plan_says_what_is_transposed_and_that_nothing_less_would_do(mod):
    plan = plan_module(mod, PLANNERS["best"])
    counted = transposes_of(plan.mod)
    assert counted == moved(plan.mod) == Cost(plan.cost.bytes, plan.cost.transposes)
    assert counted <= transposes_of(mod) == moved(mod)
    assert plan.lower_bound == plan.cost
    again = plan_module(plan.mod, PLANNERS["best"])
    assert (again.cost.bytes, again.cost.transposes) == (plan.cost.bytes, plan.cost.transposes)
