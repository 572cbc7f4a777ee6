"""Imports the scripts in `examples/`, which are files outside any package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

__all__ = ["EXAMPLES", "example_module"]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example_module(path: str) -> ModuleType:
    """The module of a script, by its path in `examples/`; a new one at each call."""
    file = EXAMPLES / path
    spec = importlib.util.spec_from_file_location(f"example_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up the types of their fields here
    spec.loader.exec_module(module)
    return module
