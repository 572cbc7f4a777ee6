"""The rewrites that `PrepareForInference` is made of, one a file, and the editor that applies them."""
