"""Surgery on Relax functions and modules: external functions out of regions, and back."""
