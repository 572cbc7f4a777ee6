"""Networks that are quantized, and what their answers are compared by."""
