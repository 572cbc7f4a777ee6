"""Imports models from ONNX, PyTorch and TVMScript, untrusted files included."""
