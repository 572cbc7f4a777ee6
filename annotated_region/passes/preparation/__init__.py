"""The rewrites of `PrepareForInference`, one per file, and the editor that applies them."""
