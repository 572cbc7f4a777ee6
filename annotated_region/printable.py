"""Text that may be shown anywhere: names come from files, and terminals obey some characters."""

from __future__ import annotations

__all__ = ["elided", "printable"]

_LONGEST = 4000


def printable(text: str) -> str:
    r"""The text with escapes, such as ``\x1b``, for characters that do not print; ``\n`` stays."""
    return "".join(
        character if character.isprintable() or character == "\n" else ascii(character)[1:-1]
        for character in text
    )


def elided(text: str) -> str:
    """The text without its middle where it has more than 4 000 characters; a name alone may be megabytes."""
    left_out = len(text) - _LONGEST
    if left_out <= 0:
        return text
    half = _LONGEST // 2
    return f"{text[:half]}[... {left_out} characters ...]{text[-half:]}"
