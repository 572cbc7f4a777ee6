"""The zoo's networks as ONNX graphs, in the idioms of exporters: one family a file."""
