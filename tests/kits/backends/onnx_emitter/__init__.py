"""What the tests of `backends/onnx_emitter` share."""
