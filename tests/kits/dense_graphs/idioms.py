"""What graphs are made of: functions, arithmetic with broadcasts, choices, reductions, joins."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kits.dense_graphs.bench import HIGHEST_RANK, LARGEST, Bench, added, volume
from kits.dense_graphs.recipe import Dim
from kits.dense_graphs.views import fitting, permuted, viewed

__all__ = ["IDIOMS", "Idiom", "other_operand", "positive"]

Idiom = Callable[[Bench], "int | None"]

FUNCTIONS = (
    "nn.relu",
    "sigmoid",
    "tanh",
    "nn.gelu",
    "nn.gelu_tanh",
    "nn.silu",
    "abs",
    "negative",
    "square",
    "erf",
    "sin",
    "cos",
    "exp",
)
OF_POSITIVE = ("log", "sqrt", "rsqrt")
ARITHMETIC = ("add", "add", "add", "multiply", "multiply", "subtract", "divide", "maximum", "minimum")
COMPARISONS = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")
LOGIC = ("logical_and", "logical_or", "logical_xor")
REDUCTIONS = ("mean", "mean", "sum", "max", "min", "variance", "prod")


def function(bench: Bench) -> int:
    """An elementwise function of a value."""
    value = viewed(bench, bench.value())
    if bench.chance(0.25):
        return bench.unary(bench.one_of(OF_POSITIVE), positive(bench, value))
    if bench.chance(0.15):
        return bench.add("clip", (value,), _bounds(bench), bench.shape_of(value))
    if bench.chance(0.08):
        return bench.unary("nn.leakyrelu", value, alpha=bench.one_of((0.1, 0.5, 2.0)))
    name = "nn.relu" if bench.chance(0.25) else bench.one_of(FUNCTIONS)
    result = bench.unary(name, value)
    if name in ("exp", "sigmoid"):
        bench.positive.add(result)
    return result


def _bounds(bench: Bench) -> dict[str, float]:
    return bench.one_of(({"min": 0.0, "max": 6.0}, {"min": -0.5, "max": 0.5}, {"min": 0.0, "max": 1.0}))


def positive(bench: Bench, value: int) -> int:
    """The value, if it is above zero, or a value made from it that is."""
    if value in bench.positive:
        return value
    size = bench.unary(bench.one_of(("abs", "square")), value)
    result = bench.binary("add", size, bench.scalar(bench.one_of((0.5, 1.0))))
    bench.positive.add(result)
    return result


def arithmetic(bench: Bench) -> int:
    """Two values, one of which may be broadcast, a constant, or the other one."""
    left = viewed(bench, bench.value())
    name = bench.one_of(ARITHMETIC)
    right = other_operand(bench, left, "positive" if name == "divide" else "normal")
    if name == "divide":
        right = positive(bench, right)
    elif bench.chance(0.4):
        left, right = right, left
    result = bench.binary(name, left, right)
    if {left, right} <= bench.positive and name in ("add", "multiply", "maximum", "minimum"):
        bench.positive.add(result)
    return result


def other_operand(bench: Bench, value: int, kind: str = "normal") -> int:
    """Something that is broadcast against a value, or that it is broadcast against."""
    shape = bench.shape_of(value)
    way = bench.rng.random()
    if way < 0.1:
        return value
    if way < 0.22:
        return bench.scalar(
            bench.one_of(
                (0.5, 2.0, 1.0, 3.0, 0.1, 41.0) if kind == "positive" else (0.5, 2.0, -1.0, 0.1, 1.0)
            ),
            bench.one_of((0, 0, 1)),
        )
    if way < 0.6:
        found = _known_operand(bench, shape)
        if found is not None:
            return found
    narrow = bench.source(narrowed(bench, shape), kind)
    return viewed_alike(bench, narrow) if bench.chance(0.35) else narrow


def viewed_alike(bench: Bench, value: int) -> int:
    """A source behind a function, so that views of it are no views of an input."""
    return bench.unary("nn.relu", value) if value not in bench.positive else value


def _known_operand(bench: Bench, shape: Sequence[Dim]) -> int | None:
    """A value of the graph that has the shape, maybe seen otherwise, or that can be broadcast."""
    tries = [bench.pick(lambda node: len(node.shape) > 0) for _ in range(3)]
    for other in (each for each in tries if each is not None):
        fits = Bench.broadcast(bench.shape_of(other), shape)
        if fits is not None and volume(fits) <= LARGEST:
            return other
        found = fitting(bench, other, shape)
        if found is not None:
            return found
    return None


def narrowed(bench: Bench, shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """A shape that broadcasts with the given one: fewer axes, extents of one, or larger ones for these."""
    part = bench.one_of((0.0, 0.3, 0.6, 0.9))
    extents = [1 if bench.chance(part) else extent for extent in shape]
    if bench.chance(0.15):
        pairs = zip(shape, extents, strict=True)
        wide = [bench.extent() if whole == 1 and bench.chance(0.5) else extent for whole, extent in pairs]
        if volume(Bench.broadcast(wide, shape) or shape) <= LARGEST:
            extents = wide
    drop = 0
    while drop < len(extents) - 1 and bench.chance(0.25):
        drop += 1
    extents = extents[drop:]
    if len(extents) < HIGHEST_RANK and bench.chance(0.07):
        extents = [1, *(extents if len(extents) >= len(shape) else shape)]
    return tuple(extents)


def square_of_itself(bench: Bench) -> int:
    """A value times a number to a power."""
    value = viewed(bench, bench.value())
    if bench.chance(0.6):
        return bench.binary("power", value, bench.scalar(bench.one_of((2.0, 3.0))))
    return bench.binary("power", positive(bench, value), bench.scalar(bench.one_of((0.5, -0.5, -1.0, 1.5))))


def choice(bench: Bench) -> int:
    """A comparison, maybe logic, and a choice by it or its numbers."""
    value = viewed(bench, bench.value())
    truth = condition(bench, value)
    if bench.chance(0.25):
        wide = bench.source(narrowed(bench, bench.shape_of(truth)), "truth")
        truth = bench.binary(bench.one_of(LOGIC), truth, wide, "bool")
    if bench.chance(0.15):
        truth = bench.unary("logical_not", truth)
    truth = viewed(bench, truth, 0.2)
    if bench.chance(0.3):
        return bench.add("astype", (truth,), {"dtype": "float32"}, bench.shape_of(truth))
    return chosen(bench, truth)


def condition(bench: Bench, value: int) -> int:
    """Truth values: of a comparison, or an input."""
    if bench.chance(0.3):
        return bench.source(narrowed(bench, bench.shape_of(value)), "truth", constant=0.3)
    return bench.binary(bench.one_of(COMPARISONS), value, other_operand(bench, value), "bool")


def chosen(bench: Bench, truth: int) -> int:
    """One of two values by a truth value, each of which may be broadcast."""
    shape = bench.shape_of(truth)
    pair = []
    for _ in range(2):
        found = _known_operand(bench, shape) if bench.chance(0.4) else None
        if found is None:
            is_number = bench.chance(0.3)
            found = bench.scalar(0.0) if is_number else bench.source(narrowed(bench, shape))
        pair.append(found)
    first = Bench.broadcast(shape, bench.shape_of(pair[0]))
    second = first and Bench.broadcast(first, bench.shape_of(pair[1]))
    if second is None or volume(second) > LARGEST:
        pair = [bench.scalar(1.0), bench.source(shape)]
        second = tuple(shape)
    return bench.add("where", (truth, *pair), {}, second)


def prelu(bench: Bench) -> int | None:
    """Slopes along the channels."""
    value = viewed(bench, bench.value())
    shape = bench.shape_of(value)
    if len(shape) < 2 or not isinstance(shape[1], int):
        return None
    return bench.add("nn.prelu", (value, bench.source((shape[1],))), {"axis": 1}, shape)


def reduction(bench: Bench) -> int | None:
    """Over some axes."""
    value = viewed(bench, bench.value())
    shape = bench.shape_of(value)
    if len(shape) < 2:
        return None
    count = bench.number(1, len(shape) - (0 if bench.chance(0.2) else 1))
    axes = sorted(int(axis) for axis in bench.rng.permutation(len(shape))[:count])
    if bench.chance(0.5):
        axes = list(range(len(shape) - count, len(shape)))
    keep = count == len(shape) or bench.chance(0.6)
    rest = [1 if axis in axes else extent for axis, extent in enumerate(shape) if keep or axis not in axes]
    return bench.add(bench.one_of(REDUCTIONS), (value,), {"axis": axes, "keepdims": keep}, rest)


def softmax(bench: Bench) -> int:
    """Over any axis, mostly the last."""
    value = viewed(bench, bench.value())
    rank = len(bench.shape_of(value))
    axis = -1 if bench.chance(0.6) else bench.number(0, rank - 1)
    return bench.unary(bench.one_of(("nn.softmax", "nn.softmax", "nn.log_softmax")), value, axis=axis)


def concat(bench: Bench) -> int:
    """A value with others of its kind along one axis; with itself, even."""
    value = viewed(bench, bench.value())
    shape = bench.shape_of(value)
    axis = bench.number(0, len(shape) - 1)
    parts = [value]
    for _ in range(bench.number(1, 2)):
        parts.append(_part(bench, shape, axis) if bench.chance(0.75) else value)
    if bench.chance(0.3):
        parts.reverse()
    if bench.chance(0.15) and len(shape) < HIGHEST_RANK and all(bench.shape_of(p) == shape for p in parts):
        return bench.add("stack", parts, {"axis": axis}, (*shape[:axis], len(parts), *shape[axis:]))
    total: Dim = 0
    for part in parts:
        total = added(total, bench.shape_of(part)[axis])
    return bench.add("concat", parts, {"axis": axis}, (*shape[:axis], total, *shape[axis + 1 :]))


def _part(bench: Bench, shape: Sequence[Dim], axis: int) -> int:
    if bench.chance(0.5):
        found = _same_but(bench, shape, axis)
        if found is not None:
            return found
    extents = list(shape)
    extents[axis] = bench.one_of((1, 2, shape[axis]))
    return bench.source(extents, constant=0.2)


def _same_but(bench: Bench, shape: Sequence[Dim], axis: int) -> int | None:
    rest = (*shape[:axis], *shape[axis + 1 :])
    return bench.pick(
        lambda node: len(node.shape) == len(shape) and (*node.shape[:axis], *node.shape[axis + 1 :]) == rest
    )


def padding(bench: Bench) -> int:
    """With a constant, at some borders."""
    value = viewed(bench, bench.value())
    shape = bench.shape_of(value)
    widths = [bench.one_of((0, 0, 1, 2)) for _ in range(2 * len(shape))]
    extents = [
        added(added(extent, low), high)
        for extent, low, high in zip(shape, widths[::2], widths[1::2], strict=True)
    ]
    if volume(extents) > 2 * LARGEST:
        return value
    attrs = {"pad_width": widths, "pad_mode": "constant", "pad_value": bench.one_of((0.0, 0.0, 1.5))}
    return bench.add("nn.pad", (value,), attrs, extents)


def another_view(bench: Bench) -> int:
    """A view, maybe of a value that has been seen the same way before."""
    value = bench.value()
    first = viewed(bench, value, 0.9)
    if bench.chance(0.25) and first != value and bench.nodes[first].op == "permute_dims":
        node = bench.nodes[first]
        again = bench.add(node.op, node.operands, dict(node.attrs), node.shape, node.dtype)
        return bench.binary("add", first, bench.unary("nn.relu", again))
    return first


def with_part_of_itself(bench: Bench) -> int | None:
    """A computed value and a slice, a reduction or a transposition of it: both read the same memory."""
    value = bench.unary(bench.one_of(("nn.relu", "tanh", "abs", "exp")), viewed(bench, bench.value(), 0.2))
    shape = bench.shape_of(value)
    known = [axis for axis, extent in enumerate(shape) if isinstance(extent, int)]
    way = bench.rng.random()
    if way < 0.5 and known:
        axis = known[0] if bench.chance(0.6) else bench.one_of(known)
        extent = shape[axis]
        assert isinstance(extent, int)
        begin = bench.number(0, extent - 1)
        attrs = {"axes": [axis], "begin": [begin], "end": [begin + 1], "strides": [1]}
        narrow = [1 if index == axis else each for index, each in enumerate(shape)]
        part: int | None = bench.add("strided_slice", (value,), attrs, narrow)
    elif way < 0.7:
        axis = bench.number(0, len(shape) - 1)
        narrow = [1 if index == axis else each for index, each in enumerate(shape)]
        part = bench.add(bench.one_of(("max", "mean")), (value,), {"axis": [axis], "keepdims": True}, narrow)
    else:
        part = fitting(bench, reversed_axes(bench, value), shape)
    if part is None:
        return None
    pair = (value, part) if bench.chance(0.7) else (part, value)
    return bench.binary(bench.one_of(("add", "subtract", "multiply", "maximum")), pair[0], pair[1])


def reversed_axes(bench: Bench, value: int) -> int:
    """The value with its axes the other way round."""
    rank = len(bench.shape_of(value))
    return permuted(bench, value, range(rank)[::-1]) if rank > 1 else value


IDIOMS: tuple[tuple[float, Idiom], ...] = (
    (6, function),
    (10, arithmetic),
    (0.8, square_of_itself),
    (2.5, choice),
    (0.5, prelu),
    (3, reduction),
    (2, softmax),
    (2.5, concat),
    (0.7, padding),
    (3, another_view),
    (1.2, with_part_of_itself),
)
"""Weights and idioms."""
