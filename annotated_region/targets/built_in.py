"""Loads the targets that ship with the package, when the first target is queried.

They are on a higher floor than this room, and are found by name, like the targets of installed packages.
"""

from __future__ import annotations

from importlib import import_module

__all__ = ["load_built_in"]


def load_built_in() -> None:
    """Register the built-in targets, once; registrations by the user come later, and win."""
    # Loading them registers them, which calls this function again; Python then returns the partially loaded
    # module.
    import_module("annotated_region.backends")
