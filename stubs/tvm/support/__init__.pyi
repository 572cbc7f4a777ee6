"""The system's compilers."""

from . import cc as cc
