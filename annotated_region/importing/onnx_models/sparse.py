"""Sparse constants of an ONNX model as dense ones; TVM's importer has none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from annotated_region.errors import ModelError
from annotated_region.importing.onnx_models.functions import OnnxGraph

if TYPE_CHECKING:
    import onnx

__all__ = ["with_dense_constants"]

_LARGEST = 2**28
"""The maximum number of elements; a few bytes of a file can ask for any number."""


def with_dense_constants(graph: OnnxGraph, name: str) -> OnnxGraph:
    """The graph with the sparse initializers, and the sparse values of its `Constant` nodes, as tensors.

    Raises
    ------
    ModelError
        The model of that name has a sparse tensor that is malformed, or too large.
    """
    if not graph.sparse_initializer and not any(map(_is_sparse, graph.node)):
        return graph
    dense = [_dense(each, each.values.name, name) for each in graph.sparse_initializer]
    nodes = [_with_dense_value(node, name) if _is_sparse(node) else node for node in graph.node]
    return replace(graph, node=nodes, initializer=[*graph.initializer, *dense], sparse_initializer=())


def _is_sparse(node: onnx.NodeProto) -> bool:
    return node.op_type == "Constant" and any(each.name == "sparse_value" for each in node.attribute)


def _with_dense_value(node: onnx.NodeProto, name: str) -> onnx.NodeProto:
    from onnx import helper  # noqa: PLC0415 - an extra

    dense = _dense(node.attribute[0].sparse_tensor, node.output[0], name)
    return helper.make_node("Constant", [], node.output, node.name, value=dense)


def _dense(sparse: onnx.SparseTensorProto, called: str, name: str) -> onnx.TensorProto:
    from onnx import numpy_helper  # noqa: PLC0415

    shape, values = list(sparse.dims), numpy_helper.to_array(sparse.values)
    places = np.asarray(numpy_helper.to_array(sparse.indices), "int64")
    if places.ndim == 1:
        places = (
            np.stack(np.unravel_index(places, shape), 1)
            if _are_inside(places, [math.prod(shape)])
            else places
        )
    is_sound = min(shape, default=0) > 0 and places.shape == (len(values), len(shape)) and values.ndim == 1
    if not is_sound or math.prod(shape) > _LARGEST or not _are_inside(places, shape):
        raise ModelError(
            f"{name} cannot be imported: its sparse tensor {called!r} is malformed, or too large"
        )
    whole = np.zeros(shape, values.dtype)
    whole[tuple(places.T)] = values
    return numpy_helper.from_array(whole, called)


def _are_inside(places: np.ndarray, shape: Sequence[int]) -> bool:
    return bool(((places >= 0) & (places < np.asarray(shape))).all())
