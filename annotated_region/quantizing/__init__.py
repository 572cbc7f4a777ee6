"""Float functions to int8: what is rounded, in which ranges, and what that costs in accuracy.

``histogram`` and ``ranges`` are arithmetic on values that were seen, ``steps`` makes scales and zero points
of ranges. ``roles`` and ``plan`` say which ops of a function read int8; ``taps`` makes the function that
shows the values in between, ``local_errors`` the one that computes every product both ways, ``writing`` the
quantized one. `annotated_region.passes.Quantize` runs them, and needs nothing else of this room.
"""
