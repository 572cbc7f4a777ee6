"""Recipes of sliding windows: convolutions and pools of one to three axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from hypothesis import strategies as st
from tvm import relax

from annotated_region.testing.recipes.workbench import Recipe, Workbench, call_of, extents_of

__all__ = ["recipes"]


def recipes() -> dict[str, Recipe]:
    """The recipes of this room, by the name of the op."""
    families: dict[str, Callable[[str, int, Workbench], relax.Expr | None]] = {
        "conv{}d": _conv,
        "conv{}d_transpose": _transposed,
        "max_pool{}d": _pool,
        "avg_pool{}d": _pool,
        "adaptive_avg_pool{}d": _adaptive,
    }
    made: dict[str, Recipe] = {}
    for form, recipe in families.items():
        for axes in (1, 2, 3):
            name = f"relax.nn.{form.format(axes)}"
            made[name] = partial(recipe, name, axes)
    return made


def _conv(name: str, axes: int, bench: Workbench) -> relax.Expr | None:
    value = bench.value(axes + 2)
    if value is None:
        return None
    _batch, channels, *extents = extents_of(value)
    groups = bench.draw(st.sampled_from([1, *(count for count in (1, 2, channels) if channels % count == 0)]))
    kernel = [bench.draw(st.integers(1, min(3, extent))) for extent in extents]
    dilation = [_dilation(bench, *sizes) for sizes in zip(kernel, extents, strict=True)]
    filters = groups * bench.draw(st.sampled_from((1, 2, 3)))
    weight = bench.tensor([filters, channels // groups, *kernel], constant=bench.draw(st.integers(0, 3)) < 3)
    options = {"strides": _each(bench, axes, 1, 3), "padding": _padding(bench, kernel), "groups": groups}
    return call_of(name)(value, weight, dilation=dilation, **options)


def _dilation(bench: Workbench, kernel: int, extent: int) -> int:
    fits = 2 * (kernel - 1) < extent
    return 2 if fits and bench.draw(st.integers(0, 3)) == 3 else 1


def _transposed(name: str, axes: int, bench: Workbench) -> relax.Expr | None:
    value = bench.value(axes + 2)
    if value is None:
        return None
    _batch, channels, *extents = extents_of(value)
    kernel = [bench.draw(st.integers(1, 3)) for _extent in extents]
    strides = _each(bench, axes, 1, 2)
    padding = _padding(bench, kernel) if min(extents) > 2 else [0] * (2 * axes)  # else no result
    extra = [bench.draw(st.integers(0, stride - 1)) for stride in strides]
    weight = bench.tensor([channels, bench.draw(st.sampled_from((1, 2, 3))), *kernel], constant=True)
    return call_of(name)(value, weight, strides=strides, padding=padding, output_padding=extra)


def _each(bench: Workbench, axes: int, low: int, high: int) -> list[int]:
    return [bench.draw(st.integers(low, high)) for _axis in range(axes)]


def _padding(bench: Workbench, kernel: Sequence[int]) -> list[int]:
    """The padding before each axis, then after each; smaller than the window, as libraries require."""
    return [bench.draw(st.integers(0, size - 1)) for size in (*kernel, *kernel)]


def _pool(name: str, axes: int, bench: Workbench) -> relax.Expr | None:
    value = bench.value(axes + 2)
    if value is None:
        return None
    kernel = [bench.draw(st.integers(1, min(3, extent))) for extent in extents_of(value)[2:]]
    options: dict[str, Any] = {"count_include_pad": bench.draw(st.booleans())} if "avg" in name else {}
    return call_of(name)(
        value,
        pool_size=kernel,
        strides=_each(bench, axes, 1, 3),
        padding=_padding(bench, kernel),
        ceil_mode=bench.draw(st.booleans()),
        **options,
    )


def _adaptive(name: str, axes: int, bench: Workbench) -> relax.Expr | None:
    value = bench.value(axes + 2)
    size = bench.draw(st.sampled_from((1, 1, 2)))
    return None if value is None else call_of(name)(value, [size, *([1] * (axes - 1))])
