"""What TVM does for processors."""

from . import pipeline as pipeline
