"""The targets that come with the package, one folder each."""

from annotated_region.backends import dnnl, onnxruntime, openvino, tensorrt

__all__ = ["dnnl", "onnxruntime", "openvino", "tensorrt"]
