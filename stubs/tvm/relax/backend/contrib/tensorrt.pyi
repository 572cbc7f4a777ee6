"""TVM's patterns for TensorRT, registered when this is imported."""
