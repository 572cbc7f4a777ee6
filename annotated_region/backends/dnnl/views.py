"""Changes of view that the converters share: reshapes, permutations, alignment of ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from annotated_region.backends.dnnl.graph import DataType, Dim, Kind, TensorId, same_shape
from annotated_region.backends.dnnl.parameters import NO_PARAMETERS, Parameters, Permutation

__all__ = ["Builder", "align_rank", "along_axis", "axes_between", "permute", "permuted_shape", "reshape"]


class Builder(Protocol):
    """What nodes are added to: a graph that grows at its end, or one that is being rewritten."""

    def shape(self, tensor: TensorId) -> tuple[Dim, ...]:
        """The extents of a tensor."""

    def add(
        self,
        kind: Kind,
        inputs: Sequence[TensorId],
        shape: Iterable[Dim],
        parameters: Parameters = NO_PARAMETERS,
        *,
        dtype: DataType | None = None,
    ) -> TensorId:
        """A new node; returns its result."""


def reshape(graph: Builder, tensor: TensorId, shape: Sequence[Dim]) -> TensorId:
    """The tensor with other extents; itself if nothing changes."""
    if same_shape(graph.shape(tensor), shape):
        return tensor
    return graph.add(Kind.RESHAPE, (tensor,), shape)


def permute(graph: Builder, tensor: TensorId, axes: Sequence[int]) -> TensorId:
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


def align_rank(graph: Builder, tensor: TensorId, rank: int) -> TensorId:
    """The tensor with leading extents of one, so that it has `rank` axes."""
    shape = graph.shape(tensor)
    return reshape(graph, tensor, (1,) * (rank - len(shape)) + shape)


def along_axis(graph: Builder, vector: TensorId, axis: int, rank: int) -> TensorId:
    """A vector as a tensor of `rank` axes that extends along one."""
    extents: list[Dim] = [1] * rank
    extents[axis] = graph.shape(vector)[0]
    return reshape(graph, vector, extents)
