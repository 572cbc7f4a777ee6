"""Text in messages: untrusted text, escaped for terminals and shortened; counts of things."""

from __future__ import annotations

__all__ = ["counted", "elided", "first_line", "printable"]

_LONGEST = 4000


def printable(text: str) -> str:
    r"""The text with non-printing characters escaped, such as ``\x1b``; ``\n`` is kept."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character == "\n" else ascii(character)[1:-1]
        for character in text
    )


def counted(count: int, noun: str) -> str:
    """A number of things, such as ``"1 op"`` or ``"2 ops"``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def elided(text: str) -> str:
    """The text with its middle cut out if it is longer than 4 000 characters; a name can have megabytes."""
    left_out = len(text) - _LONGEST
    if left_out <= 0:
        return text
    half = _LONGEST // 2
    return f"{text[:half]}[... {left_out} characters ...]{text[-half:]}"


def first_line(error: BaseException) -> str:
    """The first line of an error message, or the class of the error if the message is empty."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
