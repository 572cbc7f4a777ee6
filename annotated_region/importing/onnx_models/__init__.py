"""Imports ONNX models: checks, TVM's importer, and converters for what it lacks or computes wrongly."""
