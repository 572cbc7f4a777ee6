"""How large the models of each family are: ``base`` as the family is known, ``small`` for tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from annotated_region.errors import ModelError

__all__ = ["FAMILIES", "IMAGES", "MOBILE_STAGES", "TRANSFORMERS", "Images", "Transformer", "require_known"]


@dataclass(frozen=True, slots=True)
class Transformer:
    """The size of a transformer; `length` counts tokens, `pairs` heads of keys and values."""

    layers: int
    width: int
    heads: int
    hidden: int
    length: int
    vocabulary: int = 1000
    pairs: int = 0

    @property
    def part(self) -> int:
        """The width of a head."""
        return self.width // self.heads


@dataclass(frozen=True, slots=True)
class Images:
    """The size of a convolutional network: blocks and channels of each stage, pixels of an image's side."""

    blocks: tuple[int, ...]
    channels: tuple[int, ...]
    side: int
    classes: int = 1000


MOBILE_STAGES = ((1, 1), (6, 2), (6, 2), (6, 2), (6, 1), (6, 2), (6, 1))
"""Expansion and stride of each stage of MobileNetV2."""

TRANSFORMERS: Mapping[str, Mapping[str, Transformer]] = {
    "bert": {
        "base": Transformer(12, 768, 12, 3072, 128, 30522), "small": Transformer(2, 64, 4, 256, 24),
    },
    "vit": {"base": Transformer(12, 768, 12, 3072, 197), "small": Transformer(2, 64, 4, 256, 17)},
    "gpt2": {
        "base": Transformer(12, 768, 12, 3072, 128, 50257), "small": Transformer(2, 64, 4, 256, 24),
    },
    "llama": {
        "base": Transformer(2, 2048, 32, 5632, 128, 32000, 4),
        "small": Transformer(2, 64, 4, 176, 24, pairs=2),
    },
}  # fmt: skip

IMAGES: Mapping[str, Mapping[str, Images]] = {
    "convnext": {
        "base": Images((3, 3, 9, 3), (96, 192, 384, 768), 224),
        "small": Images((1, 1, 2, 1), (16, 32, 64, 128), 64),
    },
    "mobilenet_v2": {
        "base": Images((1, 2, 3, 4, 3, 3, 1), (32, 16, 24, 32, 64, 96, 160, 320, 1280), 224),
        "small": Images((1, 2, 1, 2, 1, 1, 1), (8, 8, 16, 16, 24, 24, 32, 48, 64), 64),
    },
}

FAMILIES: tuple[str, ...] = (*TRANSFORMERS, *IMAGES)


def require_known(name: str, size: str) -> None:
    """Raise `ModelError` unless there is a family `name` and a size `size` of it."""
    if name not in FAMILIES or size not in ("base", "small"):
        known = ", ".join(FAMILIES)
        raise ModelError(f"there is no model {name!r} of size {size!r}; choose one of {known}, base or small")
