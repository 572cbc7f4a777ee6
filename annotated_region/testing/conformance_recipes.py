"""How graphs for the conformance kit are made of an op: its operands, shapes and attributes.

A recipe is a function of a `Workbench` that returns a call of its op, or None where no operand fits. Sizes
are small, and chosen where backends go wrong: extents of one, odd extents, broadcasts from either side,
windows that do not fit evenly, padding on one side only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

import tvm
from hypothesis import strategies as st
from tvm import relax

__all__ = ["RECIPES", "Recipe", "Workbench"]

T = TypeVar("T")
EXTENTS = (1, 2, 3, 5, 8)


class Workbench(Protocol):
    """What a recipe works with."""

    def draw(self, strategy: st.SearchStrategy[T]) -> T:
        """A choice, which Hypothesis makes, repeats and shrinks."""

    def value(self, rank: int | None = None) -> relax.Expr | None:
        """A value of the graph, mostly the newest one, of a rank if one is given; None if there is none."""

    def tensor(self, shape: Sequence[int], *, positive: bool = False, constant: bool = False) -> relax.Expr:
        """A new parameter of the graph, or a constant."""


Recipe: TypeAlias = Callable[[Workbench], relax.Expr | None]


def extents_of(value: relax.Expr) -> tuple[int, ...]:
    """The shape of a value; shapes are numbers here."""
    return tuple(int(extent) for extent in value.ty.shape)


def _op(name: str) -> Callable[..., relax.Expr]:
    """TVM's Python function for an op, such as ``relax.op.nn.relu``."""
    found: Any = relax.op
    for part in name.removeprefix("relax.").split("."):
        found = getattr(found, part)
    function: Callable[..., relax.Expr] = found
    return function


def _unary(name: str, bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    return None if value is None else _op(name)(value)


def _of_positive(name: str, bench: Workbench) -> relax.Expr | None:
    shape = bench.draw(st.lists(st.sampled_from(EXTENTS), min_size=1, max_size=4))
    return _op(name)(bench.tensor(shape, positive=True))


def _binary(name: str, bench: Workbench) -> relax.Expr | None:
    left = bench.value()
    if left is None:
        return None
    other = bench.value(len(left.ty.shape))
    if other is not None and extents_of(other) == extents_of(left) and bench.draw(st.booleans()):
        return _op(name)(left, other)
    right = bench.tensor(
        _broadcast(bench, extents_of(left)), positive=True, constant=bench.draw(st.booleans())
    )
    return _op(name)(right, left) if bench.draw(st.integers(0, 3)) == 3 else _op(name)(left, right)


def _broadcast(bench: Workbench, shape: tuple[int, ...]) -> list[int]:
    """The shape itself; one with ones in it; the last extents alone; or one value for each channel."""
    kind = bench.draw(st.integers(0, 3))
    if kind == 1:
        return [bench.draw(st.sampled_from((extent, 1))) for extent in shape]
    if kind == 2:
        return list(shape[bench.draw(st.integers(0, len(shape) - 1)) :])
    if kind == 3 and len(shape) > 1:
        return [extent if axis == 1 else 1 for axis, extent in enumerate(shape)]
    return list(shape)


def _matmul(bench: Workbench) -> relax.Expr | None:
    left = bench.value(bench.draw(st.sampled_from((2, 2, 3))))
    if left is None:
        return None
    *outer, inner = extents_of(left)
    columns = bench.draw(st.sampled_from(EXTENTS))
    batch = outer[:-1] if bench.draw(st.booleans()) else []
    right = bench.tensor([*batch, inner, columns], constant=bench.draw(st.integers(0, 3)) < 3)
    return relax.op.matmul(left, right)


def _conv2d(bench: Workbench) -> relax.Expr | None:
    value = bench.value(4)
    if value is None:
        return None
    _batch, channels, height, width = extents_of(value)
    groups = bench.draw(st.sampled_from([count for count in (1, 1, channels) if channels % count == 0]))
    kernel = [bench.draw(st.integers(1, min(3, extent))) for extent in (height, width)]
    filters = groups * bench.draw(st.sampled_from((1, 2, 3)))
    weight = bench.tensor([filters, channels // groups, *kernel], constant=bench.draw(st.integers(0, 3)) < 3)
    return relax.op.nn.conv2d(
        value, weight, strides=_window(bench, 1, 2), padding=_padding(bench, kernel), groups=groups
    )


def _window(bench: Workbench, low: int, high: int) -> tuple[int, int]:
    return bench.draw(st.integers(low, high)), bench.draw(st.integers(low, high))


def _padding(bench: Workbench, kernel: Sequence[int]) -> tuple[int, int, int, int]:
    """Top, left, bottom, right; less than the window, as every library wants it."""
    top, left, bottom, right = (bench.draw(st.integers(0, size - 1)) for size in (*kernel, *kernel))
    return top, left, bottom, right


def _pool2d(name: str, bench: Workbench) -> relax.Expr | None:
    value = bench.value(4)
    if value is None:
        return None
    kernel = [bench.draw(st.integers(1, min(3, extent))) for extent in extents_of(value)[2:]]
    options: dict[str, Any] = {"count_include_pad": bench.draw(st.booleans())} if "avg" in name else {}
    return _op(name)(
        value,
        pool_size=tuple(kernel),
        strides=_window(bench, 1, 2),
        padding=_padding(bench, kernel),
        ceil_mode=bench.draw(st.booleans()),
        **options,
    )


def _adaptive_pool(bench: Workbench) -> relax.Expr | None:
    value = bench.value(4)
    size = bench.draw(st.sampled_from(((1, 1), (2, 1))))
    return None if value is None else relax.op.nn.adaptive_avg_pool2d(value, size)


def _along_axis(name: str, bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    if value is None:
        return None
    rank = len(value.ty.shape)
    return _op(name)(value, axis=bench.draw(st.integers(-rank, rank - 1)))


def _reduction(name: str, bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    if value is None or len(value.ty.shape) < 2:
        return None
    axes = bench.draw(st.lists(st.integers(0, len(value.ty.shape) - 1), min_size=1, unique=True))
    return _op(name)(value, axis=sorted(axes), keepdims=bench.draw(st.booleans()))


def _concat(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    if value is None:
        return None
    shape = list(extents_of(value))
    axis = bench.draw(st.integers(0, len(shape) - 1))
    shape[axis] = bench.draw(st.sampled_from(EXTENTS))
    return relax.op.concat([value, bench.tensor(shape)], axis=axis)


def _reshape(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    if value is None:
        return None
    first, *rest = extents_of(value)
    flat = 1
    for extent in rest:
        flat *= extent
    return relax.op.reshape(
        value, bench.draw(st.sampled_from(((first, flat), (first * flat,), (1, first, flat))))
    )


def _permute(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    if value is None:
        return None
    return relax.op.permute_dims(value, bench.draw(st.permutations(range(len(value.ty.shape)))))


def _clip(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    low = bench.draw(st.sampled_from((-1.0, 0.0)))
    return None if value is None else relax.op.clip(value, low, bench.draw(st.sampled_from((0.5, 6.0))))


def _leaky(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    return None if value is None else relax.op.nn.leakyrelu(value, bench.draw(st.sampled_from((0.01, 0.5))))


_UNARY = (
    "abs", "ceil", "cos", "erf", "exp", "floor", "negative", "sigmoid", "sin", "square", "tanh",
    "nn.gelu", "nn.gelu_tanh", "nn.relu", "nn.relu6", "nn.silu",
)  # fmt: skip
_POSITIVE = ("log", "rsqrt", "sqrt")
_BINARY = ("add", "divide", "maximum", "minimum", "multiply", "subtract")
_REDUCTIONS = ("max", "mean", "min", "sum")


def _table() -> dict[str, Recipe]:
    families: tuple[tuple[Sequence[str], Callable[[str, Workbench], relax.Expr | None]], ...] = (
        (_UNARY, _unary),
        (_POSITIVE, _of_positive),
        (_BINARY, _binary),
        (_REDUCTIONS, _reduction),
        (("nn.max_pool2d", "nn.avg_pool2d"), _pool2d),
        (("nn.softmax", "nn.log_softmax"), _along_axis),
    )
    table = {
        f"relax.{name}": partial(recipe, f"relax.{name}") for names, recipe in families for name in names
    }
    return {
        **{name: recipe for name, recipe in table.items() if _exists(name)},
        "relax.matmul": _matmul,
        "relax.nn.conv2d": _conv2d,
        "relax.nn.adaptive_avg_pool2d": _adaptive_pool,
        "relax.concat": _concat,
        "relax.reshape": _reshape,
        "relax.permute_dims": _permute,
        "relax.clip": _clip,
        "relax.nn.leakyrelu": _leaky,
    }


def _exists(name: str) -> bool:
    return name in set(map(str, tvm.ir.Op.list_op_names()))


RECIPES: Mapping[str, Recipe] = _table()
"""The ops that the kit can try, by name."""
