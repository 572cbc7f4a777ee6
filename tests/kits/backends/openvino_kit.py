"""What the tests of regions on OpenVINO share."""

from __future__ import annotations

import pytest

from annotated_region.backends.openvino import installation

__all__ = ["needs_openvino"]

needs_openvino = pytest.mark.skipif(
    installation.unavailable() is not None, reason=str(installation.unavailable())
)
