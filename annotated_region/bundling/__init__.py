"""A built model as a folder that runs on another machine: its library, and all that this one needs."""

from annotated_region.bundling.bundle import export

__all__ = ["export"]
