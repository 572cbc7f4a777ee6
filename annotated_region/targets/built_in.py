"""Loads the targets that ship with the package, each when it is first queried.

They are on a higher floor than this room, and are found by name, like the targets of installed packages.
"""

from __future__ import annotations

__all__ = ["BUILT_IN", "load_all_built_in", "load_built_in"]

BUILT_IN = ("dnnl", "onnxruntime", "openvino", "tensorrt")
"""Their names."""


def load_built_in(target: str) -> None:
    """Register a target if it is built in, once; registrations by the user come later, and win."""
    # Loading it registers it, which calls this function again; Python then returns the partially loaded
    # module.
    if target in BUILT_IN:
        # Called for each op, so by the function of the statement, which returns at once if it is loaded.
        __import__(f"annotated_region.backends.{target}")


def load_all_built_in() -> None:
    """Register all of them."""
    for target in BUILT_IN:
        load_built_in(target)
