"""TensorRT: what it claims. Its code generator is not here yet, so its regions cannot be built."""

from annotated_region.backends.tensorrt import rules

__all__ = ["rules"]
