"""Exports a built model as a folder that runs on another machine: its library and all dependencies."""

from annotated_region.bundling.bundle import export

__all__ = ["export"]
