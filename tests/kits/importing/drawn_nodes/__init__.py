"""ONNX operators with attributes, shapes and operands by lot."""
