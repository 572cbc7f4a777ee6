"""Converters of ONNX nodes that TVM's importer lacks or converts wrongly, one family per file."""
