"""KeyValueCache: memory of fixed capacity for the keys and values of the tokens that a model has read.

A step of a language model takes the keys and values of earlier tokens, and returns those of the new ones::

    step(tokens [s], mask [s, n + s], past_0 [n, heads, part], past_1 ...)
        -> (logits, new_0 [s, heads, part], new_1 ...)

The cache holds the rows of each past side by side in memory that never moves::

    rows    0 ... length - 1        length ... capacity - 1
            filled                  room

A step takes the rows in one of two ways. `past` are views of the filled rows, and `append` copies the rows
that the step returns behind them. After `passes.AppendInPlace` the step takes the whole `memory` and the
number of `filled` rows, and writes the new ones where they belong; `advance` counts them. No earlier row is
copied.
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
"""Added to a score, it leaves a weight of zero."""


@checked_class
class KeyValueCache:
    """Keys and values of one text, or of several of the same length.

    Parameters
    ----------
    rows
        For each past of the step, in its order: the shape of the row of one token, such as ``(heads, part)``.
    capacity
        The number of tokens that there is memory for.

    Attributes
    ----------
    capacity
        The number of tokens that there is memory for.
    length
        The number of tokens whose rows are filled.
    memory
        For each past, the rows of all tokens, filled or not.

    Raises
    ------
    InputError
        The capacity is no positive number, or there is no row.

    Examples
    --------
    >>> cache = KeyValueCache([(2, 4)], capacity=8)
    >>> cache.append([np.ones((3, 2, 4), "float32")])
    >>> cache.length, [tuple(past.shape) for past in cache.past()], cache.mask(2).shape
    (3, [(3, 2, 4)], (2, 5))
    """

    def __init__(self, rows: Sequence[Sequence[int]], capacity: int) -> None:
        if capacity < 1 or not rows:
            raise InputError(
                f"a cache for {capacity} tokens with {len(rows)} kinds of rows holds nothing; pass a "
                "positive number and the rows of the step"
            )
        self.capacity = capacity
        self.length = 0
        self.memory = [tvm.runtime.empty((capacity, *row), "float32") for row in rows]
        self._arrays = [np.from_dlpack(each) for each in self.memory]

    @property
    def filled(self) -> tvm_ffi.Shape:
        """The number of filled rows, as a function that appends in place takes it."""
        return tvm_ffi.Shape((self.length,))

    def past(self) -> list[tvm_ffi.Tensor]:
        """The filled rows of each past; they share the memory of the cache."""
        return [tvm_ffi.from_dlpack(memory[: self.length]) for memory in self._arrays]

    @checked
    def mask(self, new: int) -> np.ndarray:
        """What to add to the scores of new tokens, [new, length + new]: 0, or -1e30 to hide a row.

        A token sees the filled rows, the new tokens before it, and itself.

        Raises
        ------
        InputError
            There is no memory for so many tokens, or none are asked for.
        """
        self._require_room(new)
        mask = np.zeros((new, self.length + new), "float32")
        if new > 1:
            mask[:, self.length :] = np.triu(np.full((new, new), HIDDEN), 1)
        return mask

    @checked
    def require_room(self, new: int) -> None:
        """Raise `InputError` unless there is at least one new token, and memory for all."""
        self._require_room(new)

    def _require_room(self, new: int) -> None:
        # Without a check of types, which every step of a model would pay for twice.
        if new < 1 or self.length + new > self.capacity:
            raise InputError(
                f"{self.length} tokens and {new} more do not fit into a cache for {self.capacity}; "
                "make a larger one, or clear it"
            )

    @checked
    def advance(self, new: int) -> None:
        """Count the rows that a step has written behind the filled ones.

        Raises
        ------
        InputError
            There is no memory for so many tokens, or there are none.
        """
        self._require_room(new)
        self.length += new

    @checked
    def append(self, new: Sequence[np.ndarray | tvm_ffi.Tensor]) -> None:
        """Copy the rows of new tokens behind the filled ones.

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
        if len(arrays) != len(self._arrays):
            raise InputError(
                f"a step returned {len(arrays)} kinds of rows; the cache has {len(self._arrays)}"
            )
        count = len(arrays[0])
        self._require_room(count)
        for number, (rows, memory) in enumerate(zip(arrays, self._arrays, strict=True)):
            expected = (count, *memory.shape[1:])
            if rows.shape != expected or rows.dtype != memory.dtype:
                raise InputError(
                    f"the new rows of past {number} are {rows.dtype} {rows.shape}; the cache takes "
                    f"{memory.dtype} {expected}: is this the cache of another model?"
                )
        for rows, memory in zip(arrays, self._arrays, strict=True):
            memory[self.length : self.length + count] = rows
        self.length += count

    def clear(self) -> None:
        """Forget all tokens; the memory is kept."""
        self.length = 0
