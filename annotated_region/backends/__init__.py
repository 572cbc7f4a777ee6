"""The targets that come with the package, one folder each."""

from annotated_region.backends import dnnl, onnxruntime, tensorrt

__all__ = ["dnnl", "onnxruntime", "tensorrt"]
