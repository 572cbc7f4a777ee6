"""`NonMaxSuppression` as loops: what it selects, then the rows of its result.

TVM 0.27.0's op reserves the largest number of boxes for each class, so that a symbolic number of boxes needs
a limit, which torchvision's detectors do not have; it replaces limits and thresholds that are data by 0 and
0.5; it finds nothing for an overlap of 0, drops and confuses negative scores, and drops a box whose overlap
is the threshold, which ONNX keeps.

Scores are sorted first. For each image and class::

    for box in falling order of scores, if its score is above the threshold, and the limit above the number:
        if no box that is chosen overlaps it by more than the threshold:
            chosen[number] = box, number += 1
"""

from __future__ import annotations

from functools import partial, reduce

import numpy as np
from tvm import relax, tirx

from annotated_region.importing.onnx_models.converters.expand import computed_extents
from annotated_region.importing.onnx_models.converters.node import OnnxNode, rank_of
from annotated_region.importing.onnx_models.converters.registry import converts
from annotated_region.recurrent_loops.statements import (
    INDEX,
    element,
    loop_of,
    number_of,
    store,
    together,
    whole_function,
)
from annotated_region.tvm_adapter.nodes import PrimExpr

__all__: list[str] = []


@converts("", "NonMaxSuppression", (2, 5), "center_point_box")
def _suppression(node: OnnxNode) -> relax.Expr:
    """Rows of an image, a class and a box, by falling score; of equal scores the first box first."""
    boxes, scores = node.tensor(0, ("float32",), (3,)), node.tensor(1, ("float32",), (3,))
    (batch, count, _), (_, classes, _) = node.shape(boxes), node.shape(scores)
    for position, expr, shape in ((0, boxes, (batch, count, 4)), (1, scores, (batch, classes, count))):
        node.require(
            node.may_have_extents(expr, shape), f"has an input {position} of another shape than {shape}"
        )
    boxes = node.with_extents(boxes, (batch, count, 4))
    scores = node.with_extents(scores, (batch, classes, count))
    most, overlap = _number(node, 2, "int64"), _number(node, 3, "float32")
    order = node.emit(relax.op.argsort(scores, -1, descending=True, dtype="int64"))
    threshold = [_number(node, 4, "float32")] if node.has(4) else []
    function = node.builder.add_func(_choosing(is_bounded=bool(threshold)), "suppression")
    of_each = relax.TensorType((batch, classes), INDEX)
    types = [relax.TensorType((batch, classes, count), INDEX), of_each]
    given = [_corners(node, boxes), scores, order, most, overlap, *threshold]
    made = node.emit(relax.call_tir(function, given, types))
    chosen, numbers = (node.emit(relax.TupleGetItem(made, place)) for place in (0, 1))
    adding = node.builder.add_func(_adding(), "number_of_boxes")
    total = relax.call_tir(adding, [numbers], relax.TensorType((1,), INDEX))
    (rows,) = computed_extents(node, node.emit(total), 1)
    listing = node.builder.add_func(_listing(), "selected_boxes")
    return relax.call_tir(listing, [chosen, numbers], relax.TensorType((rows, 3), INDEX))


def _number(node: OnnxNode, position: int, dtype: str) -> relax.Expr:
    """An input of one number as a vector, 0 if it is left out."""
    if not node.has(position):
        return relax.const(np.zeros(1), dtype)
    number = node.tensor(position, (dtype,), (0, 1))
    return (
        node.vector(position, (dtype,), 1) if rank_of(number) else node.emit(relax.op.reshape(number, (1,)))
    )


def _corners(node: OnnxNode, boxes: relax.Expr) -> relax.Expr:
    """The least and largest coordinates of boxes: of opposite corners, or of a center and a size."""
    first, second = (
        node.emit(relax.op.strided_slice(boxes, [2], [begin], [begin + 2], assume_inbound=True))
        for begin in (0, 2)
    )
    if node.integer("center_point_box", 0, 0, 1):
        half = node.emit(relax.op.multiply(second, relax.const(0.5, "float32")))
        ends = [relax.op.subtract(first, half), relax.op.add(first, half)]
    else:
        ends = [relax.op.minimum(first, second), relax.op.maximum(first, second)]
    return node.emit(relax.op.concat([node.emit(each) for each in ends], 2))


def _choosing(*, is_bounded: bool) -> tirx.PrimFunc:
    """The function that lists the boxes of each class; `is_bounded` if scores have a threshold."""
    batch, classes, count = (tirx.Var(name, INDEX) for name in ("batch", "classes", "count"))
    corners = tirx.decl_buffer((batch, count, 4), "float32", "corners")
    scores = tirx.decl_buffer((batch, classes, count), "float32", "scores")
    order = tirx.decl_buffer((batch, classes, count), INDEX, "order")
    most = tirx.decl_buffer((1,), INDEX, "most")
    overlap, threshold = (tirx.decl_buffer((1,), "float32", name) for name in ("overlap", "threshold"))
    chosen = tirx.decl_buffer((batch, classes, count), INDEX, "chosen")
    numbers = tirx.decl_buffer((batch, classes), INDEX, "numbers")
    is_free = tirx.decl_buffer((1,), "int32", "is_free")

    def of_class(task: PrimExpr) -> tirx.Stmt:
        image, kind = tirx.floordiv(task, classes), tirx.floormod(task, classes)
        number = element(numbers, image, kind)

        def of_rank(rank: PrimExpr) -> tirx.Stmt:
            box = element(order, image, kind, rank)

            def against(other: PrimExpr) -> tirx.Stmt:
                known = element(chosen, image, kind, other)
                ratio = _overlaps(corners, image, box, known, element(overlap, 0))
                return tirx.IfThenElse(tirx.And(element(is_free, 0) > 0, ratio), _flag(is_free, 0), None)

            take = together(
                [store(chosen, box, image, kind, number), store(numbers, number + 1, image, kind)]
            )
            tried = [
                _flag(is_free, 1),
                loop_of("other", number, against),
                tirx.IfThenElse(element(is_free, 0) > 0, take, None),
            ]
            is_asked = number < element(most, 0)
            if is_bounded:
                is_asked = tirx.And(is_asked, element(scores, image, kind, box) > element(threshold, 0))
            return tirx.IfThenElse(is_asked, together(tried), None)

        return together(
            [
                tirx.AllocBuffer(is_free),
                store(numbers, number_of(0), image, kind),
                loop_of("place", count, lambda place: store(chosen, number_of(0), image, kind, place)),
                loop_of("rank", count, of_rank),
            ]
        )

    body = loop_of("task", batch * classes, of_class, tirx.ForKind.PARALLEL)
    given = [corners, scores, order, most, overlap, *([threshold] if is_bounded else [])]
    return whole_function([*given, chosen, numbers], body)


def _flag(buffer: tirx.Buffer, value: int) -> tirx.Stmt:
    return store(buffer, tirx.IntImm("int32", value), 0)


def _overlaps(
    corners: tirx.Buffer, image: PrimExpr, box: PrimExpr, other: PrimExpr, least: PrimExpr
) -> PrimExpr:
    """Whether the shared area of two boxes is more than this part of their union; of empty ones it is not."""

    def side(place: PrimExpr, axis: int) -> PrimExpr:
        return element(corners, image, place, axis + 2) - element(corners, image, place, axis)

    def shared(axis: int) -> PrimExpr:
        least, most = (
            [element(corners, image, place, axis + offset) for place in (box, other)] for offset in (0, 2)
        )
        return tirx.Min(most[0], most[1]) - tirx.Max(least[0], least[1])

    sides = [shared(axis) for axis in (0, 1)]
    common = sides[0] * sides[1]
    first, second = (side(place, 0) * side(place, 1) for place in (box, other))
    union = first + second - common
    zero = tirx.FloatImm("float32", 0.0)
    positive = [each > zero for each in (*sides, common, first, second, union)]
    return reduce(tirx.And, [*positive, common / union > least])


def _adding() -> tirx.PrimFunc:
    """The function that adds the numbers of all classes up."""
    batch, classes = (tirx.Var(name, INDEX) for name in ("batch", "classes"))
    numbers = tirx.decl_buffer((batch, classes), INDEX, "numbers")
    total = tirx.decl_buffer((1,), INDEX, "total")

    def of_class(image: PrimExpr, kind: PrimExpr) -> tirx.Stmt:
        return store(total, element(total, 0) + element(numbers, image, kind), 0)

    body = loop_of("image", batch, lambda image: loop_of("kind", classes, partial(of_class, image)))
    return whole_function([numbers, total], together([store(total, number_of(0), 0), body]))


def _listing() -> tirx.PrimFunc:
    """The function that writes a row for each box that is chosen."""
    batch, classes, count, total = (tirx.Var(name, INDEX) for name in ("batch", "classes", "count", "total"))
    chosen = tirx.decl_buffer((batch, classes, count), INDEX, "chosen")
    numbers = tirx.decl_buffer((batch, classes), INDEX, "numbers")
    rows = tirx.decl_buffer((total, 3), INDEX, "rows")
    place = tirx.decl_buffer((1,), INDEX, "place")

    def of_class(image: PrimExpr, kind: PrimExpr) -> tirx.Stmt:
        def of_number(number: PrimExpr) -> tirx.Stmt:
            row = element(place, 0)
            entries = (image, kind, element(chosen, image, kind, number))
            written = [store(rows, entry, row, column) for column, entry in enumerate(entries)]
            return together([*written, store(place, row + 1, 0)])

        return loop_of("number", element(numbers, image, kind), of_number)

    body = loop_of("image", batch, lambda image: loop_of("kind", classes, partial(of_class, image)))
    begin = [tirx.AllocBuffer(place), store(place, number_of(0), 0)]
    return whole_function([chosen, numbers, rows], together([*begin, body]))
