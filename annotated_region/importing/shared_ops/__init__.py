"""Ops that exporters of ONNX and of PyTorch both write, in ops of Relax."""
