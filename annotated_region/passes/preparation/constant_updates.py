"""Evaluators of scattered writes, such as positions that PyTorch assigns in place (`positions[..., 0] = x`).

Declined are indices that are negative or out of bounds, and places that are written twice, because compiled
code chooses the order of the writes.
"""

from __future__ import annotations

import numpy as np

from annotated_region.passes.preparation.constant_call import ConstantCall, Evaluator, are_in

__all__ = ["UPDATES"]


def _scatter_nd(call: ConstantCall) -> np.ndarray | None:
    data, indices, updates = call.args
    return _written(call, data, tuple(np.moveaxis(indices, -1, 0)), updates)


def _scatter_elements(call: ConstantCall) -> np.ndarray | None:
    """The indices may cover a part of the other axes, and the updates are as many."""
    data, indices, updates = call.args
    places = list(np.indices(indices.shape))
    places[call.attrs["axis"]] = indices
    return _written(call, data, tuple(places), updates)


def _written(
    call: ConstantCall, data: np.ndarray, places: tuple[np.ndarray, ...], updates: np.ndarray
) -> np.ndarray | None:
    if call.attrs["reduction"] != "update" or not all(map(are_in, places, data.shape)):
        return None
    numbers = np.ravel_multi_index(places, data.shape[: len(places)])
    if np.unique(numbers).size != numbers.size:
        return None
    result = data.copy()
    result[places] = updates
    return result


UPDATES: dict[str, Evaluator] = {
    "relax.scatter_nd": _scatter_nd,
    "relax.scatter_elements": _scatter_elements,
}
