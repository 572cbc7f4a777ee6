"""Keys of what is cached: digests of everything that it depends on."""

from __future__ import annotations

import hashlib

__all__ = ["KEY_DIGITS", "key_of"]

KEY_DIGITS = 32
"""Hexadecimal digits of a key."""


def key_of(*parts: str) -> str:
    """A digest of texts, which tells where one ends and the next begins."""
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode(errors="surrogateescape")
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()[:KEY_DIGITS]
