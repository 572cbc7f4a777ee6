"""View operations shared by the converters: reshapes, permutations, alignment of ranks."""

from __future__ import annotations

from collections.abc import Sequence

from annotated_region.backends.dnnl.graph import Dim, Graph, Kind, TensorId, same_shape
from annotated_region.backends.dnnl.parameters import Permutation

__all__ = [
    "NEW_AXIS",
    "align_rank",
    "along_axis",
    "axes_between",
    "axes_kept",
    "broadcast_to",
    "permute",
    "permuted_shape",
    "reshape",
]

NEW_AXIS = -1
"""Stands for no axis, where a reshape has added one of extent one."""


def reshape(graph: Graph, tensor: TensorId, shape: Sequence[Dim]) -> TensorId:
    """The tensor with other extents; itself if nothing changes."""
    if same_shape(graph.shape(tensor), shape):
        return tensor
    return graph.add(Kind.RESHAPE, (tensor,), shape)


def permute(graph: Graph, tensor: TensorId, axes: Sequence[int]) -> TensorId:
    """The tensor whose axis i is axis ``axes[i]`` of the given one; itself if nothing changes."""
    if list(axes) == sorted(axes):
        return tensor
    return graph.add(
        Kind.PERMUTE, (tensor,), permuted_shape(graph.shape(tensor), axes), Permutation(tuple(axes))
    )


def permuted_shape(shape: Sequence[Dim], axes: Sequence[int]) -> tuple[Dim, ...]:
    """The extents of a permuted tensor."""
    return tuple(shape[axis] for axis in axes)


def axes_between(source: str, target: str) -> tuple[int, ...]:
    """The permutation from one named layout to another.

    >>> axes_between("NHWC", "NCHW")
    (0, 3, 1, 2)
    """
    return tuple(source.index(letter) for letter in target)


def axes_kept(before: Sequence[Dim], after: Sequence[Dim]) -> tuple[int, ...] | None:
    """For each axis after a reshape the one before, or `NEW_AXIS`; None if other extents differ.

    >>> axes_kept((7, 1, 4), (1, 7, 4))
    (-1, 0, 2)
    """
    kept, wide = ([axis for axis, extent in enumerate(shape) if extent != 1] for shape in (before, after))
    if not same_shape([before[axis] for axis in kept], [after[axis] for axis in wide]):
        return None
    names = dict(zip(wide, kept, strict=True))
    return tuple(names.get(axis, NEW_AXIS) for axis in range(len(after)))


def broadcast_to(graph: Graph, tensor: TensorId, shape: tuple[Dim, ...]) -> TensorId:
    """The tensor broadcast along its axes of extent one."""
    aligned = align_rank(graph, tensor, len(shape))
    if same_shape(graph.shape(aligned), shape):
        return aligned
    return graph.add(Kind.EXPAND, (aligned,), shape)


def align_rank(graph: Graph, tensor: TensorId, rank: int) -> TensorId:
    """The tensor with leading extents of one, so that it has `rank` axes."""
    shape = graph.shape(tensor)
    return reshape(graph, tensor, (1,) * (rank - len(shape)) + shape)


def along_axis(graph: Graph, vector: TensorId, axis: int, rank: int) -> TensorId:
    """A vector reshaped to `rank` axes, with its elements along `axis`."""
    extents: list[Dim] = [1] * rank
    extents[axis] = graph.shape(vector)[0]
    return reshape(graph, vector, extents)
