"""Quantization of float functions to int8: choice of values and ranges, and measurement of the error.

``histogram`` and ``ranges`` process observed values, ``steps`` derives scales and zero points from ranges.
``roles`` and ``plan`` decide which ops of a function read int8; ``taps`` makes a function that returns
intermediate values, ``local_errors`` one that computes every product both ways, ``writing`` the quantized
function. `annotated_region.passes.Quantize` is the driver.
"""
