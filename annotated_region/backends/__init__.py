"""The targets that come with the package, one folder each, loaded when their target is queried."""

from typing import TYPE_CHECKING

from annotated_region.first_use import loading_on_first_use

if TYPE_CHECKING:
    from annotated_region.backends import dnnl, onnxruntime, openvino, tensorrt

__all__ = ["dnnl", "onnxruntime", "openvino", "tensorrt"]

__getattr__ = loading_on_first_use(__name__, {name: name for name in __all__})
