"""Recipes of elementwise ops, with all kinds of broadcasts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from hypothesis import strategies as st
from tvm import relax

from annotated_region.testing.recipes.workbench import (
    EXTENTS,
    Recipe,
    Workbench,
    call_of,
    extents_of,
    rank_of,
)
from annotated_region.tvm_adapter.types import tensor_type

__all__ = ["OF_TRUTH", "recipes"]

_UNARY = (
    "abs", "asinh", "atan", "ceil", "cos", "cosh", "erf", "exp", "floor", "isfinite", "isinf", "isnan",
    "negative", "round", "sigmoid", "sign", "sin", "sinh", "square", "tanh", "trunc",
    "zeros_like", "ones_like", "nn.gelu", "nn.gelu_tanh", "nn.relu", "nn.selu", "nn.silu",
)  # fmt: skip
_OF_POSITIVE = ("acosh", "log", "rsqrt", "sqrt")
_OF_UNIT = ("acos", "asin", "atanh", "tan")  # of tan, far from its poles
_BINARY = (
    "add", "divide", "floor_divide", "floor_mod", "maximum", "minimum", "mod", "multiply", "subtract",
    "equal", "greater", "greater_equal", "less", "less_equal", "not_equal",
)  # fmt: skip
_DIVISIONS = frozenset({"divide", "floor_divide", "floor_mod", "mod"})
_LOGICAL = ("logical_and", "logical_or", "logical_xor")
OF_TRUTH = frozenset({"relax.logical_not", *(f"relax.{name}" for name in _LOGICAL)})
"""Ops that only support booleans."""
_JUMPS = frozenset({
    "ceil", "floor", "floor_divide", "floor_mod", "mod", "round", "sign", "trunc",
    "equal", "greater", "greater_equal", "less", "less_equal", "not_equal",
})  # fmt: skip


def recipes() -> dict[str, Recipe]:
    """The recipes of this room, by the name of the op."""
    families: tuple[tuple[Sequence[str], Callable[[str, Workbench], relax.Expr | None]], ...] = (
        (_UNARY, _unary),
        (("logical_not",), _unary),
        (_OF_POSITIVE, partial(_of_new, positive=True)),
        (_OF_UNIT, partial(_of_new, unit=True)),
        ((*_BINARY, *_LOGICAL), _binary),
    )
    table: dict[str, Recipe] = {
        f"relax.{name}": partial(recipe, f"relax.{name}") for names, recipe in families for name in names
    }
    return {
        **table,
        "relax.log_add_exp": _log_add_exp,
        "relax.power": _power,
        "relax.clip": _clip,
        "relax.nn.leakyrelu": _leaky,
        "relax.nn.softplus": _softplus,
        "relax.nn.prelu": _prelu,
        "relax.where": _where,
        "relax.astype": _astype,
        "relax.full_like": _full_like,
    }


def _operand(name: str, bench: Workbench) -> relax.Expr | None:
    """A value of the graph; a new input for ops that would amplify rounding errors of computed values."""
    if name.removeprefix("relax.") in _JUMPS and bench.dtype.startswith("float"):
        return bench.tensor(bench.draw(st.lists(st.sampled_from(EXTENTS), min_size=1, max_size=4)))
    return bench.value()


def _unary(name: str, bench: Workbench) -> relax.Expr | None:
    value = _operand(name, bench)
    return None if value is None else call_of(name)(value)


def _of_new(name: str, bench: Workbench, *, positive: bool = False, unit: bool = False) -> relax.Expr | None:
    shape = bench.draw(st.lists(st.sampled_from(EXTENTS), min_size=1, max_size=4))
    return call_of(name)(bench.tensor(shape, positive=positive, unit=unit))


def _binary(name: str, bench: Workbench) -> relax.Expr | None:
    left = _operand(name, bench)
    if left is None:
        return None
    # Integer division by zero kills the process.
    divides_whole = name[6:] in _DIVISIONS and not bench.dtype.startswith("float")
    other = bench.value(rank_of(left))
    is_open = name[6:] not in _JUMPS and not divides_whole
    fits = is_open and other is not None and extents_of(other) == extents_of(left)
    # Equal operands would hide swapped operands.
    if fits and bench.draw(st.integers(0, 7 if left.same_as(other) else 1)) == 0:
        return call_of(name)(left, other)
    right = bench.tensor(
        _broadcast(bench, extents_of(left)), positive=True, constant=bench.draw(st.booleans())
    )
    swapped = not divides_whole and bench.draw(st.integers(0, 3)) == 3
    return call_of(name)(right, left) if swapped else call_of(name)(left, right)


def _broadcast(bench: Workbench, shape: tuple[int, ...]) -> list[int]:
    """The shape itself, the shape with some extents of one, its trailing extents, or one value
    per channel.
    """
    kind = bench.draw(st.integers(0, 3))
    if kind == 1:
        return [bench.draw(st.sampled_from((extent, 1))) for extent in shape]
    if kind == 2:
        return list(shape[bench.draw(st.integers(0, len(shape) - 1)) :])
    if kind == 3 and len(shape) > 1:
        return [extent if axis == 1 else 1 for axis, extent in enumerate(shape)]
    return list(shape)


def _power(bench: Workbench) -> relax.Expr | None:
    """A positive base: libraries legitimately differ for negative ones."""
    shape = bench.draw(st.lists(st.sampled_from(EXTENTS), min_size=1, max_size=3))
    exponent = bench.tensor(
        _broadcast(bench, tuple(shape)), positive=True, constant=bench.draw(st.booleans())
    )
    return relax.op.power(bench.tensor(shape, positive=True), exponent)


def _log_add_exp(bench: Workbench) -> relax.Expr | None:
    value = bench.value() if bench.dtype.startswith("float") else None
    return None if value is None else relax.op.log_add_exp(value, bench.tensor(extents_of(value)))


def _clip(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    low = bench.draw(st.sampled_from((-1.0, 0.0)))
    return None if value is None else relax.op.clip(value, low, bench.draw(st.sampled_from((1.0, 6.0))))


def _leaky(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    alpha = bench.draw(st.sampled_from((0.01, 0.5, 1.0)))
    return None if value is None else relax.op.nn.leakyrelu(value, alpha)


def _softplus(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    return (
        None if value is None else relax.op.nn.softplus(value, beta=bench.draw(st.sampled_from((1.0, 2.0))))
    )


def _prelu(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    if value is None:
        return None
    axis = bench.draw(st.integers(-1, rank_of(value) - 1))
    return relax.op.nn.prelu(value, bench.tensor([extents_of(value)[axis]], constant=True), axis)


def _where(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    if value is None:
        return None
    known = bench.value(rank_of(value), "bool")
    fits = known is not None and extents_of(known) == extents_of(value)
    condition = known if fits else bench.tensor(_broadcast(bench, extents_of(value)), dtype="bool")
    other = bench.tensor(_broadcast(bench, extents_of(value)), positive=True)
    return relax.op.where(condition, *((value, other) if bench.draw(st.booleans()) else (other, value)))


def _astype(bench: Workbench) -> relax.Expr | None:
    dtype = bench.draw(st.sampled_from(("float32", "float16", "float64", "int32", "int64", "bool")))
    value = _operand("trunc" if dtype[0] in "ib" else "astype", bench)
    return None if value is None else relax.op.astype(value, dtype)


def _full_like(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    return None if value is None else relax.op.full_like(value, relax.const(1, str(tensor_type(value).dtype)))
