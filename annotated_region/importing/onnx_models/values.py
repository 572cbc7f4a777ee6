"""Values that the user gives to inputs, which become constants, such as a flag that chooses a branch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from annotated_region.arguments import brief_repr
from annotated_region.errors import UsageError
from annotated_region.importing.onnx_models.functions import OnnxGraph

if TYPE_CHECKING:
    pass

__all__ = ["fitting", "with_given_values"]


def with_given_values(graph: OnnxGraph, values: Mapping[str, object], model: str) -> OnnxGraph:
    """The graph with constants in place of inputs.

    Parameters
    ----------
    graph
        The graph.
    values
        The values by the names of inputs: arrays, nested lists, or a number for all elements of an input
        whose shape is known.
    model
        The name of the model in messages.

    Raises
    ------
    UsageError
        A value has another shape than the input, or elements that its type does not hold.
    """
    from onnx import helper, numpy_helper  # noqa: PLC0415 - an extra

    constants = []
    for each in graph.input:
        if each.name in values:
            tensor = each.type.tensor_type
            dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
            extents = [
                extent.dim_value if extent.HasField("dim_value") else None for extent in tensor.shape.dim
            ]
            array = fitting(values[each.name], dtype, extents, f"the input {each.name!r} of {model}")
            constant = numpy_helper.from_array(array, each.name)
            constants.append(helper.make_node("Constant", [], [each.name], value=constant))
    return replace(
        graph,
        node=[*constants, *graph.node],
        input=[each for each in graph.input if each.name not in values],
        initializer=[each for each in graph.initializer if each.name not in values],
    )


def fitting(
    value: object, dtype: np.dtype[np.generic], extents: Sequence[int | None], name: str
) -> np.ndarray:
    """A value in the type and shape of an input.

    Parameters
    ----------
    value
        An array, nested lists, or a number for all elements.
    dtype, extents
        Those of the input; an extent may be unknown.
    name
        The name of the input in messages.

    Raises
    ------
    UsageError
        The value has another shape, or elements that the type does not hold.
    """
    what = f"value_dict gives {name} {brief_repr(value)}"
    try:
        given = np.asarray(value)
    except ValueError as error:
        raise UsageError(f"{what}, which is no array") from error
    if given.dtype.kind not in "biuf":
        raise UsageError(f"{what}, which is no array of numbers")
    with np.errstate(all="ignore"):
        array = given.astype(dtype)
    if not _holds(array, given):
        raise UsageError(f"{what}, which {dtype} does not hold")
    if array.ndim == 0 and None not in extents:
        return np.full([each or 0 for each in extents], array, dtype)
    if len(extents) != array.ndim or any(
        each not in (None, extent) for each, extent in zip(extents, array.shape, strict=True)
    ):
        shape = ", ".join("?" if each is None else str(each) for each in extents)
        raise UsageError(f"{what}, of shape {list(array.shape)}; its shape is [{shape}]")
    return array


def _holds(array: np.ndarray, given: np.ndarray) -> bool:
    """Whether elements are what they were: integers and truth values exactly, floats rounded."""
    if array.dtype.kind in "biu":
        return bool(np.all(array == given))
    return bool(np.all(np.isfinite(array.astype("float64")) | ~np.isfinite(given.astype("float64"))))
