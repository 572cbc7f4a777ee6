"""The last window of a pooling that rounds up, for images of any size.

A window that begins in the image, or in the padding before it, counts. TVM compares where the last one begins
with the extent of the axis, and leaves the comparison in the extent of the result if the axis is symbolic.
Nothing proves equalities of such extents, and builds take longer and longer with each pooling.
"""

from __future__ import annotations

__all__ = ["padding_behind"]


def padding_behind(window: int, stride: int, padding: int) -> int:
    """The padding behind an axis that gives a pooling that rounds down the windows of one that rounds up.

    With ``n`` elements and the padding before them, windows begin at most at ``n - 1``, and at most where the
    next multiple of the stride after the last whole window is::

        1 + min((n + padding - window + stride - 1) // stride, (n - 1) // stride)
        = 1 + (n + min(padding + stride - 1, window - 1) - window) // stride

    Parameters
    ----------
    window
        The extent of the window, dilated.
    stride
        The elements from window to window.
    padding
        The padding behind the axis that is rounded up.
    """
    return min(padding + stride - 1, window - 1)
