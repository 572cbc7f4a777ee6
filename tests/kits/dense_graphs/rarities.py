"""Idioms of ops that few models have: inverse functions, shifts, windows, grids, sequences, medians."""

from __future__ import annotations

from kits.dense_graphs.bench import LARGEST, Bench, times, volume
from kits.dense_graphs.idioms import Idiom, other_operand
from kits.dense_graphs.recipe import Dim
from kits.dense_graphs.views import viewed
from kits.dense_graphs.windows import known

__all__ = ["RARITIES", "inverse_function", "middle", "pooled", "reversed_parts", "sampled"]

SUMS = (
    "ij,jk->ik",
    "bij,bjk->bik",
    "bij,bkj->bik",
    "ij,ij->i",
    "i,j->ij",
    "ij->ji",
    "bhid,bhjd->bhij",
    "ijk->ik",
)


def inverse_function(bench: Bench) -> int:
    """A function that is defined for some numbers only, of such numbers."""
    value = viewed(bench, bench.value())
    name = bench.one_of(("acos", "asin", "atanh", "tan", "acosh"))
    bounded = bench.binary("multiply", bench.unary("tanh", value), bench.scalar(0.9))
    if name == "acosh":
        bounded = bench.binary("add", bench.unary("square", bounded), bench.scalar(1.25))
    return bench.unary(name, bounded)


def shifted(bench: Bench) -> int:
    """Bits moved to the left or to the right, by one number or by one for each column."""
    dtype = bench.one_of(("int64", "int32", "uint8"))
    value = viewed(bench, bench.source(bench.shape(bench.number(1, 4)), "bits", dtype, constant=0.1), 0.3)
    shape = bench.shape_of(value)
    columns = shape[-1:] if isinstance(shape[-1], int) and bench.chance(0.5) else ()
    bits = bench.add("constant", (), {"kind": "few", "key": len(bench.nodes)}, columns, dtype)
    return bench.binary(bench.one_of(("left_shift", "right_shift")), value, bits, dtype)


def log_of_sum(bench: Bench) -> int:
    """The logarithm of the sum of two exponentials."""
    value = viewed(bench, bench.value())
    return bench.binary("log_add_exp", value, other_operand(bench, value))


def outer(bench: Bench) -> int:
    """All products of the elements of two vectors."""
    left = viewed(bench, bench.value(1), 0.0)
    right = bench.source((bench.extent(),))
    return bench.add("outer", (left, right), {}, (*bench.shape_of(left), *bench.shape_of(right)))


def contracted(bench: Bench) -> int | None:
    """A sum of products along axes with names."""
    subscripts = bench.one_of(SUMS)
    given, kept = subscripts.split("->")
    first, *others = given.split(",")
    value = viewed(bench, bench.value(len(first)), 0.0)
    extents: dict[str, Dim] = dict(zip(first, bench.shape_of(value), strict=True))
    for letter in "".join(others):
        extents.setdefault(letter, bench.extent())
    result = [extents[letter] for letter in kept]
    if volume(result) > LARGEST or len(extents) != len(set(given) - {","}):
        return None
    rest = [bench.source([extents[letter] for letter in other]) for other in others]
    return bench.add("einsum", (value, *rest), {"subscripts": subscripts}, result)


def spread(bench: Bench) -> int:
    """The standard deviation along an axis."""
    value = viewed(bench, bench.value())
    shape = bench.shape_of(value)
    axis = bench.number(0, len(shape) - 1)
    kept = [1 if index == axis else extent for index, extent in enumerate(shape)]
    return bench.add("std", (value,), {"axis": [axis], "keepdims": True}, kept)


def middle(bench: Bench) -> int | None:
    """The median of all elements, or along an axis, whose place may be what is read."""
    value = viewed(bench, bench.source(bench.shape(bench.number(1, 3)), constant=0.1))
    shape = bench.shape_of(value)
    if bench.chance(0.3):
        is_known = all(isinstance(extent, int) for extent in shape)
        return bench.add("median", (value,), {"axis": None, "keepdims": False}, ()) if is_known else None
    axis, keepdims = bench.number(0, len(shape) - 1), bench.chance(0.5)
    if not isinstance(shape[axis], int):
        return None
    kept = [1 if each == axis else extent for each, extent in enumerate(shape) if keepdims or each != axis]
    pair = bench.add("median_along", (value,), {"axis": [axis], "keepdims": keepdims}, kept)
    index = bench.number(0, 1)
    return bench.add("field", (pair,), {"index": index}, kept, ("float32", "int64")[index])


def sorted_into(bench: Bench) -> int:
    """Between which boundaries numbers lie."""
    value = viewed(bench, bench.source(bench.shape(bench.number(1, 4)), "tenths", constant=0.1))
    bounds = bench.source((bench.number(1, 5),), "rising", constant=0.5)
    is_short = bench.chance(0.5)
    attrs = {"out_int32": is_short, "right": bench.chance(0.5)}
    dtype = "int32" if is_short else "int64"
    return bench.add("bucketize", (value, bounds), attrs, bench.shape_of(value), dtype)


def crossed(bench: Bench) -> int:
    """Two vectors along the rows and the columns of a matrix."""
    lines = [bench.source((bench.extent(),), constant=0.2), bench.value(1)]
    shape = [bench.shape_of(line)[0] for line in lines]
    grids = bench.add("meshgrid", lines, {"indexing": "ij"}, shape)
    down, right = (bench.add("field", (grids,), {"index": index}, shape) for index in range(2))
    return bench.binary(bench.one_of(("add", "multiply", "maximum")), down, right)


def on_diagonals(bench: Bench) -> int | None:
    """The elements of one diagonal of a matrix."""
    value = viewed(bench, bench.value(bench.one_of((2, 2, 3, 4))))
    shape = bench.shape_of(value)
    if len(shape) < 2 or any(isinstance(extent, str) for extent in shape[-2:]):
        return None
    shift = bench.number(-1, 1)
    if len(shape) == 2 and bench.chance(0.7):
        return bench.binary("multiply", value, bench.unary("eye_like", value, k=shift))
    rows, columns = shape[-2:]
    ones = bench.add("eye", (), {"n": rows, "m": columns, "k": shift, "dtype": "float32"}, shape[-2:])
    return bench.binary("multiply", value, ones)


def hammed(bench: Bench) -> int:
    """A value under a window of Hamming."""
    value = bench.source((*bench.shape(1), bench.number(3, 8)), constant=0.1)
    extent = bench.shape_of(value)[-1:]
    attrs = {"window_size": extent[0], "periodic": bench.chance(0.5), "alpha": 0.54, "beta": 0.46}
    window = bench.add("hamming_window", (), {**attrs, "dtype": "float32"}, extent)
    return bench.binary("multiply", value, window)


def shuffled(bench: Bench) -> int:
    """Channels as squares of pixels."""
    (batch,) = bench.shape(1)
    channels, height, width, factor = (bench.number(1, 3) for _ in range(4))
    value = bench.source((batch, channels * factor**2, height, width), constant=0.0)
    result = (batch, channels, height * factor, width * factor)
    return bench.add("nn.pixel_shuffle", (value,), {"upscale_factor": factor}, result)


def flattened(bench: Bench) -> int:
    """All axes but the first as one, and what a dropout does when a model is used: nothing."""
    value = viewed(bench, bench.value())
    first, *others = bench.shape_of(value) or (1,)
    if not others or bench.chance(0.4):
        whole = bench.add("nn.dropout", (value,), {"rate": 0.5}, bench.shape_of(value))
        return bench.add("field", (whole,), {"index": 0}, bench.shape_of(value))
    inner: Dim = 1
    for extent in others:
        inner = times(inner, extent)
    return bench.add("nn.batch_flatten", (value,), {}, (first, inner))


def reversed_parts(bench: Bench) -> int | None:
    """The beginning of each row, or of each column, backwards."""
    value = viewed(bench, bench.value())
    shape = bench.shape_of(value)
    if len(shape) < 2:
        return None
    batch = bench.number(0, 1)
    extent = shape[1 - batch]
    given = bench.source((shape[batch],), "whole", "int64", constant=0.2)
    limit, one = (
        bench.add("constant", (), {"value": number, "key": len(bench.nodes)}, (), "int64")
        for number in (extent if isinstance(extent, int) else 3, 1)
    )
    lengths = bench.binary("add", bench.binary("floor_mod", given, limit, "int64"), one, "int64")
    if not isinstance(extent, int):
        extents = bench.add("shape_to_tensor", (), {"shape": [extent]}, (1,), "int64")
        lengths = bench.binary("minimum", lengths, extents, "int64")
    return bench.unary_with("reverse_sequence", value, [lengths], seq_axis=1 - batch, batch_axis=batch)


def slice_replaced(bench: Bench) -> int | None:
    """A value with a slice of another one."""
    value = viewed(bench, bench.value())
    shape = bench.shape_of(value)
    axis = bench.number(0, len(shape) - 1) if shape else 0
    if not shape or not isinstance(shape[axis], int):
        return None
    (extent,) = known([shape[axis]])
    begin = bench.number(0, extent - 1)
    end = bench.number(begin + 1, extent)
    part = bench.source((*shape[:axis], end - begin, *shape[axis + 1 :]))
    return bench.unary_with("slice_scatter", value, [part], start=begin, end=end, step=1, axis=axis)


def times_its_size(bench: Bench) -> int:
    """A value over the number of its elements."""
    value = viewed(bench, bench.value())
    count = bench.add("size", (value,), {}, (), "int64")
    number = bench.add("astype", (count,), {"dtype": "float32"}, ())
    return bench.binary("multiply", value, number)


def stretched(bench: Bench) -> int:
    """A volume with other extents, or an image sampled at computed places."""
    batch, channels = bench.one_of((1, 2)), bench.number(1, 3)
    if bench.chance(0.5):
        return _sampled(bench, batch, channels, 1, ("zeros", "border"))
    before = [bench.number(1, 3) for _ in range(3)]
    after = [extent * bench.one_of((2, 3)) for extent in before]  # TVM aligns no corners of one pixel
    attrs = {"size": after, "layout": "NCDHW", "method": bench.one_of(("nearest_neighbor", "linear"))}
    attrs["coordinate_transformation_mode"] = bench.one_of(("half_pixel", "align_corners"))
    if attrs["method"] == "nearest_neighbor":
        attrs |= {"coordinate_transformation_mode": "asymmetric", "rounding_method": "floor"}
    value = bench.source((batch, channels, *before), constant=0.0)
    return bench.add("image.resize3d", (value,), attrs, (batch, channels, *after))


def sampled(bench: Bench) -> int:
    """An image at places inside and outside; TVM mirrors no image of one pixel."""
    return _sampled(bench, bench.one_of((1, 2)), bench.number(1, 3), 2, ("zeros", "border", "reflection"))


def _sampled(bench: Bench, batch: int, channels: int, least: int, outsides: tuple[str, ...]) -> int:
    size = [bench.number(2, 4) for _ in range(2)]
    is_aligned = bench.chance(0.5)
    if bench.chance(0.5):
        theta = bench.source((batch, 2, 3), "unit", constant=0.2)
        attrs = {"size": size, "align_corners": is_aligned}
        grid = bench.add("image.affine_grid", (theta,), attrs, (batch, 2, *size))
    else:
        grid = bench.source((batch, 2, *size), constant=0.1)
    image = bench.source((batch, channels, bench.number(least, 4), bench.number(least, 4)), constant=0.0)
    attrs = {"method": "bilinear", "padding_mode": bench.one_of(outsides)}
    attrs["align_corners"] = is_aligned
    return bench.add("image.grid_sample", (image, grid), attrs, (batch, channels, *size))


def pooled(bench: Bench) -> int:
    """Means of boxes with corners around the first pixel: no sample is at the edge of what counts."""
    channels, count, size = bench.number(1, 3), bench.number(1, 4), [bench.number(1, 3) for _ in range(2)]
    image = bench.source((3, channels, bench.number(2, 5), bench.number(2, 5)), constant=0.0)
    corners = bench.unary("tanh", bench.source((count, 4), constant=0.3))
    near = bench.binary("multiply", corners, bench.scalar(0.9))
    numbers = bench.add("constant", (), {"kind": "few", "key": len(bench.nodes)}, (count, 1), "float32")
    rows = bench.add("concat", (numbers, near), {"axis": 1}, (count, 5))
    attrs = {"pooled_size": size, "spatial_scale": bench.one_of((1.0, 0.5))}
    attrs |= {"sample_ratio": bench.number(1, 3), "aligned": bench.chance(0.5)}
    return bench.add("vision.roi_align", (image, rows), attrs, (count, channels, *size))


RARITIES: tuple[tuple[float, Idiom], ...] = (
    (1.2, inverse_function),
    (0.4, shifted),
    (0.3, log_of_sum),
    (0.2, outer),
    (0.4, contracted),
    (0.2, spread),
    (0.2, middle),
    (0.2, sorted_into),
    (0.2, crossed),
    (0.5, on_diagonals),
    (0.2, hammed),
    (0.2, shuffled),
    (0.5, flattened),
    (0.3, reversed_parts),
    (0.2, slice_replaced),
    (0.2, times_its_size),
    (0.8, stretched),
)
"""Weights and idioms."""
