"""Checks the arguments of public functions; each error says what to pass instead."""

from __future__ import annotations

from collections.abc import Iterable

from annotated_region.errors import UsageError

__all__ = [
    "require_callable",
    "require_kind",
    "require_methods",
    "brief_repr",
    "target_names",
]


def require_kind(value: object, kind: type | tuple[type, ...], what: str, instead: str) -> None:
    """Check the class of an argument.

    Parameters
    ----------
    value, kind
        The argument, and the class or classes that are accepted.
    what
        What the argument is, as the subject of a sentence.
    instead
        What to pass instead.

    Raises
    ------
    UsageError
        The argument is not an instance of any of them.
    """
    if not isinstance(value, kind):
        raise UsageError(f"{what} is {brief_repr(value)}; pass {instead}")


def require_callable(value: object, what: str, instead: str) -> None:
    """Check that an argument is callable.

    Raises
    ------
    UsageError
        It is not.
    """
    if not callable(value):
        raise UsageError(f"{what} is {brief_repr(value)}; pass {instead}")


def require_methods(value: object, methods: Iterable[str], what: str, instead: str) -> None:
    """Check that an argument is an instance, not a class, with the given methods.

    Raises
    ------
    UsageError
        It is a class, or a method is missing.
    """
    if isinstance(value, type):
        raise UsageError(f"{what} is the class {value.__name__}; pass an object of it: {value.__name__}(...)")
    missing = [name for name in methods if not callable(getattr(value, name, None))]
    if missing:
        raise UsageError(f"{what} is {brief_repr(value)}, which has no method {missing[0]!r}; pass {instead}")


def target_names(targets: object) -> list[str]:
    """The distinct target names in an argument: one string, or an iterable of strings.

    Raises
    ------
    UsageError
        A name is not a string.
    """
    instead = 'the names of targets, such as ["tensorrt", "dnnl"]'
    require_kind(targets, Iterable, "the argument targets", instead)
    assert isinstance(targets, Iterable)
    names = [targets] if isinstance(targets, str) else list(targets)
    for name in names:
        require_kind(name, str, "one of the targets", instead)
    return list(dict.fromkeys(names))


def brief_repr(value: object) -> str:
    """An argument as messages show it: its `repr` if that is short, else its class."""
    text = repr(value)
    return text if len(text) <= 60 and "\n" not in text else f"of class {type(value).__name__}"
