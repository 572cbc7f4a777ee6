"""Loads the names of a package when they are first used.

Importing any module of a package runs its ``__init__``; if that imported all names, a process that needs one
module would load them all.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping

__all__ = ["loading_on_first_use"]


def loading_on_first_use(package: str, module_of: Mapping[str, str]) -> Callable[[str], object]:
    """The ``__getattr__`` of a package.

    Parameters
    ----------
    package
        Its name.
    module_of
        The module of each public name. A name that is its own module stands for the module.
    """

    def load(name: str) -> object:
        """Load a public name; called once for each.

        Raises
        ------
        AttributeError
            The package has no such name.
        """
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f"{package}.{module_of[name]}")
        found = module if name == module_of[name] else getattr(module, name)
        setattr(sys.modules[package], name, found)
        return found

    return load
