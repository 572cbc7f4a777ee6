"""The targets that come with the package: all of them are loaded when a target is first asked for.

They stand on a floor above this one, and are found by name, as the targets of installed packages are.
"""

from __future__ import annotations

from importlib import import_module

__all__ = ["load_built_in"]


def load_built_in() -> None:
    """Register what comes with the package, once; what a user registers then comes later, and wins."""
    # While they load they register, and so come here again: Python hands back the module as far as it is.
    import_module("annotated_region.backends")
