"""Text that may be shown anywhere: names come from files, and terminals obey some characters."""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str) -> str:
    r"""The text with escapes, such as ``\x1b``, for characters that do not print; ``\n`` stays."""
    return "".join(
        character if character.isprintable() or character == "\n" else ascii(character)[1:-1]
        for character in text
    )
