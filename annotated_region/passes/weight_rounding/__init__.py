"""Float weights of products as packed integers: the rounding, and the ops that reconstruct the floats."""
