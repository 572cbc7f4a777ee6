"""Recipes of reductions, softmax and norms."""

from __future__ import annotations

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

__all__ = ["recipes"]

_REDUCTIONS = ("max", "mean", "min", "prod", "std", "sum", "variance")
_MEANS = frozenset({"relax.mean", "relax.std", "relax.variance"})


def recipes() -> dict[str, Recipe]:
    """The recipes of this room, by the name of the op."""
    reductions = {f"relax.{name}": partial(_reduction, f"relax.{name}") for name in _REDUCTIONS}
    searches = {f"relax.{name}": partial(_search, f"relax.{name}") for name in ("argmax", "argmin")}
    soft = {f"relax.nn.{name}": partial(_soft, f"relax.nn.{name}") for name in ("softmax", "log_softmax")}
    return {
        **reductions,
        **searches,
        **soft,
        "relax.cumsum": partial(_cumulated, "relax.cumsum"),
        "relax.cumprod": partial(_cumulated, "relax.cumprod"),
        "relax.nn.batch_norm": _batch_norm,
        "relax.nn.layer_norm": _layer_norm,
        "relax.nn.rms_norm": _rms_norm,
        "relax.nn.instance_norm": _instance_norm,
        "relax.nn.group_norm": _group_norm,
    }


def _soft(name: str, bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    if value is None:
        return None
    return call_of(name)(value, axis=bench.draw(st.integers(-rank_of(value), rank_of(value) - 1)))


def _reduction(name: str, bench: Workbench) -> relax.Expr | None:
    """Over some axes, in any order, or over all of them."""
    value = bench.value()
    if value is None or rank_of(value) < 2:
        return None
    if name in _MEANS and not bench.dtype.startswith("float"):
        return None  # TVM's result type differs from the declared one
    axes = bench.draw(st.lists(st.integers(0, rank_of(value) - 1), max_size=rank_of(value), unique=True))
    return call_of(name)(value, axis=sorted(axes) or None, keepdims=bench.draw(st.booleans()))


def _search(name: str, bench: Workbench) -> relax.Expr | None:
    """In a new tensor, because rounding errors of computed values could change the index."""
    shape = bench.draw(st.lists(st.sampled_from(EXTENTS), min_size=1, max_size=4))
    value = bench.tensor(shape)
    axis = bench.draw(st.integers(-1, rank_of(value) - 1))
    return call_of(name)(value, axis, keepdims=bench.draw(st.booleans()))


def _cumulated(name: str, bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    if value is None:
        return None
    return call_of(name)(value, axis=bench.draw(st.integers(0, rank_of(value) - 1)))


def _channels(bench: Workbench, value: relax.Expr, axis: int) -> tuple[relax.Expr, relax.Expr]:
    """A scale and a shift for each channel."""
    extent = extents_of(value)[axis]
    return bench.tensor([extent], positive=True, constant=True), bench.tensor([extent], constant=True)


def _batch_norm(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    if value is None or rank_of(value) < 2:
        return None
    scale, shift = _channels(bench, value, 1)
    variance, mean = _channels(bench, value, 1)
    epsilon = bench.draw(st.sampled_from((1e-5, 1e-2)))
    normed = relax.op.nn.batch_norm(
        value, scale, shift, mean, variance, axis=1, epsilon=epsilon, training=False
    )
    return relax.TupleGetItem(normed, 0)


def _layer_norm(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    if value is None or extents_of(value)[-1] == 1:  # normalizing a single number leaves only rounding errors
        return None
    return relax.op.nn.layer_norm(value, *_channels(bench, value, -1), axes=[-1], epsilon=1e-2)


def _rms_norm(bench: Workbench) -> relax.Expr | None:
    value = bench.value()
    return None if value is None else relax.op.nn.rms_norm(value, _channels(bench, value, -1)[0], axes=[-1])


def _instance_norm(bench: Workbench) -> relax.Expr | None:
    value = bench.value(4)
    if value is None:
        return None
    return relax.op.nn.instance_norm(
        value, *_channels(bench, value, 1), channel_axis=1, axes=[2, 3], epsilon=1e-2
    )


def _group_norm(bench: Workbench) -> relax.Expr | None:
    value = bench.value(4)
    if value is None:
        return None
    channels = extents_of(value)[1]
    groups = bench.draw(st.sampled_from([count for count in (1, 2, channels) if channels % count == 0]))
    return relax.op.nn.group_norm(
        value, *_channels(bench, value, 1), num_groups=groups, channel_axis=1, axes=[2, 3], epsilon=1e-2
    )
