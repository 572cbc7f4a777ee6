"""Operators that add up along axes: reductions, norms, products."""

from __future__ import annotations

import numpy as np

from kits.importing.drawn_nodes.draw import FLOATS, NodeDraw, by_name

__all__ = ["FAMILIES"]

REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")
EQUATIONS = (
    "ij,jk->ik",
    "bij,bjk->bik",
    "ij->ji",
    "ij->",
    "ij->j",
    "ii->i",
    "bhid,bhjd->bhij",
    "bhij,bhjd->bihd",
    "ij,ij->i",
    "i,j->ij",
    "...ij,...jk->...ik",
    "...i->...",
    "ij,kj->ki",
    "bij,jk",
    "ij,jk,kl->il",
    "ab,cd->acbd",
)


def reduction(draw: NodeDraw) -> None:
    kind = draw.one(REDUCTIONS)
    shape = draw.shape(1, 4)
    dtype = draw.one(("float32", "float32", "float64", "int32", "int64"))
    if kind in ("L2", "LogSum", "LogSumExp", "Mean"):
        dtype = draw.one(FLOATS)
    if kind in ("Max", "Min"):
        dtype = draw.one(
            (*FLOATS, "int64", "int32", "int8", "uint8", *(["bool"] if draw.opset >= 20 else []))
        )
    numbers = draw.array(shape, dtype)
    data = draw.input(np.abs(numbers) if kind == "LogSum" else numbers)
    axes = draw.axes(len(shape)) if draw.maybe(0.8) else None
    attributes = draw.some(keepdims=[0, 1])
    if draw.opset >= (13 if kind == "Sum" else 18):
        attributes |= draw.some(noop_with_empty_axes=[0, 1])
        operands = [draw.longs(axes)] if axes is not None else [draw.longs([])] if draw.maybe(0.3) else []
        draw.node(f"Reduce{kind}", data, *operands, **attributes)
    else:
        draw.node(f"Reduce{kind}", data, axes=axes, **attributes)


def softmax(draw: NodeDraw) -> None:
    shape = draw.shape(1, 4)
    axis = draw.axis_of(draw.rng.randrange(len(shape)), len(shape))
    kind = draw.one(["Softmax", "Softmax", "LogSoftmax", "Hardmax"])
    draw.node(kind, draw.tensor(shape, draw.one(FLOATS)), **draw.some(axis=[axis]))


def norm(draw: NodeDraw) -> None:
    """Layer norms over the last axes, with or without a bias."""
    shape = draw.shape(1, 4, 5)
    axis = draw.rng.randrange(len(shape))
    operands = [draw.tensor(shape), draw.given(draw.array(shape[axis:]))]
    attributes = {"axis": draw.axis_of(axis, len(shape)), **draw.some(epsilon=[1e-5, 0.1])}
    if draw.opset >= 23 and draw.maybe(0.4):
        draw.node("RMSNormalization", *operands, **attributes)
        return
    if draw.maybe(0.7):
        operands.append(draw.given(draw.array(shape[axis:])))
    draw.node("LayerNormalization", *operands, **attributes)


def image_norm(draw: NodeDraw) -> None:
    """Of each channel, of groups, or with given moments."""
    groups, batch = draw.rng.randint(1, 3), draw.rng.randint(1, 2)
    shape = (batch, groups * draw.rng.randint(1, 2), *(draw.rng.randint(2, 5) for _ in draw.shape(1, 3)))
    data = draw.tensor(shape)
    scale, bias = (draw.given(draw.array((shape[1],))) for _ in range(2))
    epsilon = draw.some(epsilon=[1e-5, 0.1])
    match draw.rng.randrange(4):
        case 0:
            draw.node("InstanceNormalization", data, scale, bias, **epsilon)
        case 1 if draw.opset >= 21:
            draw.node("GroupNormalization", data, scale, bias, num_groups=groups, **epsilon)
        case 2:
            draw.node("MeanVarianceNormalization", data, **draw.some(axes=[draw.axes(len(shape)), [0, 2]]))
        case _:
            mean, variance = draw.array((shape[1],)), np.abs(draw.array((shape[1],)))
            draw.node(
                "BatchNormalization", data, scale, bias, draw.given(mean), draw.given(variance), **epsilon
            )


def vector_norm(draw: NodeDraw) -> None:
    shape = draw.shape(1, 4)
    axis = draw.axis_of(draw.rng.randrange(len(shape)), len(shape))
    draw.node("LpNormalization", draw.tensor(shape), **draw.some(axis=[axis], p=[1, 2]))


def product(draw: NodeDraw) -> None:
    """Of vectors, matrices and stacks of them that broadcast."""
    rows, depth, columns = draw.shape(3, 3, 5)
    whole = draw.shape(0, 2, 3)
    dtype = draw.one(("float32", "float32", "float32", "float64", "int32", "int64", "float16"))
    left = (*(draw.one([1, each]) for each in whole), rows, depth)[draw.rng.randint(0, len(whole)) :]
    right = (*(draw.one([1, each]) for each in whole), depth, columns)[draw.rng.randint(0, len(whole)) :]
    if draw.maybe(0.15):
        left = (depth,)
    if draw.maybe(0.15):
        right = (depth,)
    draw.node("MatMul", draw.tensor(left, dtype), draw.given(draw.array(right, dtype), 0.5))


def affine_product(draw: NodeDraw) -> None:
    rows, depth, columns = draw.shape(3, 3, 5)
    flags = draw.some(transA=[0, 1], transB=[0, 1])
    left = (depth, rows) if flags.get("transA") else (rows, depth)
    right = (columns, depth) if flags.get("transB") else (depth, columns)
    dtype = draw.one(("float32", "float32", "float32", "float64"))
    operands = [draw.tensor(left, dtype), draw.given(draw.array(right, dtype), 0.5)]
    if draw.opset < 11 or draw.maybe(0.8):
        shape = draw.one([(rows, columns), (1, columns), (rows, 1), (columns,), (1,), ()])
        operands.append(draw.given(draw.array(shape, dtype), 0.5))
    draw.node("Gemm", *operands, **flags, **draw.some(alpha=[0.5, 2.0, 0.0], beta=[0.5, 2.0, 0.0]))


def equation(draw: NodeDraw) -> None:
    text = draw.one(EQUATIONS)
    extents = {letter: draw.rng.randint(1, 4) for letter in "abcdhijkl"}
    around = draw.shape(0, 2, 3)
    operands = []
    for term in text.split("->")[0].split(","):
        letters = term.replace("...", "")
        lead = tuple(draw.one([1, each]) for each in around) if "..." in term else ()
        operands.append(draw.tensor((*lead, *(extents[letter] for letter in letters))))
    draw.node("Einsum", *operands, equation=draw.one([text, text.replace(",", " , ").replace("->", " -> ")]))


def losses(draw: NodeDraw) -> None:
    """Of classes, with weights and classes that are left out."""
    batch, classes, rest = draw.rng.randint(1, 3), draw.rng.randint(2, 4), draw.shape(0, 2, 3)
    labels = draw.numbers.integers(0, classes, (batch, *rest)).astype("int64")
    operands = [draw.input(draw.array((batch, classes, *rest))), draw.input(labels)]
    if draw.maybe():
        operands.append(draw.given(np.abs(draw.array((classes,))) + np.float32(0.1)))
    kind = draw.one(["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"])
    draw.node(kind, *operands, **draw.some(reduction=["none", "mean", "sum"], ignore_index=[0, 1]))


FAMILIES = by_name(
    reduction,
    softmax,
    norm,
    image_norm,
    vector_norm,
    product,
    affine_product,
    equation,
    losses,
)
