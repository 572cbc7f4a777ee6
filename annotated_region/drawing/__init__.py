"""Pictures of reports: the quotient graph with bytes on its edges as SVG, and a page with every op and why.

``quotient`` folds the ops into boxes, ``layout`` places them, ``svg`` and ``page`` write the files.
"""

from annotated_region.drawing.draw import draw

__all__ = ["draw"]
