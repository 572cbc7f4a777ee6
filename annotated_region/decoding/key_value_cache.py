"""KeyValueCache: memory of fixed capacity for the keys and values of the tokens that a model has read.

A step of a language model takes the keys and values of earlier tokens, and returns those of the new ones::

    step(tokens [s], mask [s, n + s], past_0 [n, heads, part], past_1 ...)
        -> (logits, new_0 [s, heads, part], new_1 ...)

The cache holds the rows of each past side by side in memory that never moves. A step sees the first rows of
it, in whole pieces, and a mask that hides those that are not filled::

    rows    0 ... length - 1        length ... shown - 1        shown ... capacity - 1
            filled                  hidden by the mask          not seen by the step

So no earlier row is copied, and the steps within a piece have the same shapes, for which a region has one
plan.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tvm
import tvm_ffi

from annotated_region.checked import checked, checked_class
from annotated_region.errors import InputError

__all__ = ["KeyValueCache"]

HIDDEN = np.float32(-1e30)
"""Added to a score, it leaves a weight of zero, and no NaN where a whole piece is hidden."""


@checked_class
class KeyValueCache:
    """Keys and values of one text, or of several of the same length.

    Parameters
    ----------
    rows
        For each past of the step, in its order: the shape of the row of one token, such as ``(heads, part)``.
    capacity
        The number of tokens that there is memory for; rounded up to whole pieces.
    piece
        The rows that a step sees are a multiple of this.

    Attributes
    ----------
    capacity
        The number of tokens that there is memory for.
    length
        The number of tokens whose rows are filled.

    Raises
    ------
    InputError
        The capacity or the piece is no positive number, or there is no row.

    Examples
    --------
    >>> cache = KeyValueCache([(2, 4)], capacity=6, piece=4)
    >>> cache.capacity, cache.length, [tuple(past.shape) for past in cache.shown()]
    (8, 0, [(4, 2, 4)])
    >>> cache.append([np.ones((3, 2, 4), "float32")])
    >>> cache.length
    3
    """

    def __init__(self, rows: Sequence[Sequence[int]], capacity: int, piece: int = 256) -> None:
        if capacity < 1 or piece < 1 or not rows:
            raise InputError(
                f"a cache for {capacity} tokens in pieces of {piece}, with {len(rows)} kinds of rows, holds "
                "nothing; pass positive numbers and the rows of the step"
            )
        self.capacity = -(-capacity // piece) * piece
        self.length = 0
        self._piece = piece
        shapes = [(self.capacity, *row) for row in rows]
        self._memory = [np.from_dlpack(tvm.runtime.empty(shape, "float32")) for shape in shapes]
        for memory in self._memory:
            memory[...] = 0  # hidden rows are multiplied by zero, so they have to be finite
        self._shown: list[tvm_ffi.Tensor] = []

    @property
    def shown_rows(self) -> int:
        """The number of rows that the next step sees: whole pieces, at least one."""
        return max(1, -(-self.length // self._piece)) * self._piece

    def shown(self) -> list[tvm_ffi.Tensor]:
        """The rows that the next step sees, for each past; they share the memory of the cache."""
        if not self._shown or self._shown[0].shape[0] != self.shown_rows:
            self._shown = [tvm_ffi.from_dlpack(memory[: self.shown_rows]) for memory in self._memory]
        return self._shown

    @checked
    def mask(self, new: int) -> np.ndarray:
        """What to add to the scores of new tokens, [new, shown_rows + new]: 0, or -1e30 to hide a row.

        A token sees the filled rows, the new tokens before it, and itself.

        Raises
        ------
        InputError
            There is no memory for so many tokens, or none are asked for.
        """
        self.require_room(new)
        mask = np.zeros((new, self.shown_rows + new), "float32")
        mask[:, self.length : self.shown_rows] = HIDDEN
        mask[:, self.shown_rows :] = np.triu(np.full((new, new), HIDDEN), 1)
        return mask

    @checked
    def require_room(self, new: int) -> None:
        """Raise `InputError` unless there is at least one new token, and memory for all."""
        if new < 1 or self.length + new > self.capacity:
            raise InputError(
                f"{self.length} tokens and {new} more do not fit into a cache for {self.capacity}; "
                "make a larger one, or clear it"
            )

    @checked
    def append(self, new: Sequence[np.ndarray | tvm_ffi.Tensor]) -> None:
        """Put the rows of new tokens behind the filled ones.

        Parameters
        ----------
        new
            For each past, the rows that the step has returned, in the same order.

        Raises
        ------
        InputError
            The rows do not fit, or are those of another model. The cache is unchanged then.
        """
        arrays = [each if isinstance(each, np.ndarray) else np.from_dlpack(each) for each in new]
        if len(arrays) != len(self._memory):
            raise InputError(
                f"a step returned {len(arrays)} kinds of rows; the cache has {len(self._memory)}"
            )
        count = len(arrays[0])
        self.require_room(count)
        for number, (rows, memory) in enumerate(zip(arrays, self._memory, strict=True)):
            expected = (count, *memory.shape[1:])
            if rows.shape != expected or rows.dtype != memory.dtype:
                raise InputError(
                    f"the new rows of past {number} are {rows.dtype} {rows.shape}; the cache takes "
                    f"{memory.dtype} {expected}: is this the cache of another model?"
                )
        for rows, memory in zip(arrays, self._memory, strict=True):
            memory[self.length : self.length + count] = rows
        self.length += count

    def clear(self) -> None:
        """Forget all tokens; the memory is kept."""
        self.length = 0
