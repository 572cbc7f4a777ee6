"""Validates the options that users pass to code generators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from annotated_region.errors import CodegenError

__all__ = ["known_options"]


def known_options(target: str, options: Mapping[str, object], known: Sequence[str]) -> dict[str, Any]:
    """The options as a dictionary.

    Raises
    ------
    CodegenError
        An option is not among the `known` ones of the target.
    """
    given = {str(name): value for name, value in options.items()}
    unknown = [name for name in given if name not in known]
    if unknown:
        raise CodegenError(
            f"target {target!r} does not know the option {unknown[0]!r}; known: {', '.join(known)}"
        )
    return given
