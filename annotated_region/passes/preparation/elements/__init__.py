"""Integer and boolean tensors as functions of their indices: positions, masks, buckets of symbolic length."""
