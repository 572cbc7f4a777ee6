"""Pictures of reports: the quotient graph with bytes on its edges as SVG, and a page of all ops and reasons.

``quotient`` folds ops into boxes, ``layout`` places the boxes, ``svg`` and ``page`` write the files.
"""

from annotated_region.drawing.draw import draw

__all__ = ["draw"]
