"""What TVM cannot compile, or computes wrongly, on the host, written so that it can: one file a repair."""
