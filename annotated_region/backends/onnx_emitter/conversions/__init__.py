"""The converters, one room a family of ops; importing them registers them."""

from annotated_region.backends.onnx_emitter.conversions import (
    activation,
    arithmetic,
    attention,
    convolution,
    creation,
    image,
    indexing,
    normalization,
    pooling,
    product,
    reduction,
    shape,
)

__all__ = [
    "activation",
    "arithmetic",
    "attention",
    "convolution",
    "creation",
    "image",
    "indexing",
    "normalization",
    "pooling",
    "product",
    "reduction",
    "shape",
]
