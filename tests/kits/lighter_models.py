"""The light models without the two whose weights take most of the time, and whose ops alexnet has, too."""

from __future__ import annotations

from annotated_region.testing.light_models import LIGHT_MODELS

__all__ = ["LIGHTER_MODELS"]

LIGHTER_MODELS = tuple(name for name in LIGHT_MODELS if name not in ("vgg19", "zfnet512"))
"""For what does not depend on sizes; all nine run on oneDNN in `test_light_models_end_to_end`."""
