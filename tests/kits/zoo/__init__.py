"""Small networks that differ in kind, from ONNX and from PyTorch, of fixed and of symbolic extents.

`registry` lists them all; `onnx_families` and `torch_families` hold one family a file. Each is narrow enough
to be partitioned, built and run within about a second, and its weights keep what it computes of order one.
"""
