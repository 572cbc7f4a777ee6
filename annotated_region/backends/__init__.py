"""The targets that come with the package, one folder each."""

from annotated_region.backends import dnnl, tensorrt

__all__ = ["dnnl", "tensorrt"]
