"""The zoo's networks as PyTorch modules: one family a file. Needs the extra ``torch``."""
