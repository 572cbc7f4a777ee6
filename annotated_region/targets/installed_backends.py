"""Backends of installed packages: found by entry point, imported when their target is queried.

An entry point is named for its target, so no code of a package runs for another target: a broken or slow
package affects only its own users, and their error or warning names it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from annotated_region.errors import SlowBackendWarning

__all__ = ["ENTRY_POINT_GROUP", "failure_of", "installed_targets", "load_installed"]

ENTRY_POINT_GROUP = "annotated_region.backends"
_PATIENCE = 10.0  # seconds that a package may take before a warning names it

# By target, the error that stopped the loading of its entry points, or None.
_LOADED: dict[str, BaseException | None] = {}


def installed_targets() -> tuple[str, ...]:
    """The targets of installed packages in alphabetical order, loaded or not."""
    return tuple(sorted(_entry_points()))


def load_installed(target: str) -> None:
    """Import the package that provides `target`, once; an error is recorded for `failure_of`."""
    if target in _LOADED or target not in _entry_points():
        return
    _LOADED[target] = None  # first, because registration may query the target again
    start = time.monotonic()
    try:
        for entry in _entry_points()[target]:
            loaded = entry.load()
            if callable(loaded):
                loaded()
    except (Exception, SystemExit) as error:  # a third party's package may fail in any way
        _LOADED[target] = error
    seconds = time.monotonic() - start
    if seconds > _PATIENCE:
        warnings.warn(
            f"loading {_named(target)} took {seconds:.0f} s; its author should import heavy libraries later",
            SlowBackendWarning,
            stacklevel=2,
        )


def failure_of(target: str) -> tuple[str, BaseException] | None:
    """The name of the package that provides `target`, and why it could not be loaded; None if it could."""
    error = _LOADED.get(target)
    return None if error is None else (_named(target), error)


@cache
def _entry_points() -> Mapping[str, tuple[EntryPoint, ...]]:
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        found[entry.name] = (*found.get(entry.name, ()), entry)
    return found


def _named(target: str) -> str:
    """The packages that provide a target, for messages."""
    packages = dict.fromkeys(entry.dist.name for entry in _entry_points()[target] if entry.dist is not None)
    return f"the package {', '.join(map(repr, packages)) or 'without a name'} that provides target {target!r}"
