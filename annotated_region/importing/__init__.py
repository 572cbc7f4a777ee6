"""Reads models: ONNX and TVMScript files, also of strangers, also in a process of its own."""
