"""Converters of ONNX nodes that TVM's importer lacks or gets wrong, one family a file."""
