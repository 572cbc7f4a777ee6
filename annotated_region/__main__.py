"""The program ``annotated-region``, also ``python -m annotated_region``."""

from __future__ import annotations

import sys

from annotated_region.command_line.run import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
