"""What the project knows of a target besides its rules: where it runs and what its code generator takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from annotated_region.errors import BackendUnavailableError, UnknownTargetError

__all__ = [
    "Backend",
    "BuildOptions",
    "backend_of",
    "known_targets",
    "register_backend",
]

ENTRY_POINT_GROUP = "annotated_region.backends"


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """What the system compiler and the linker need for the code that a backend emits.

    Attributes
    ----------
    compile_options
        Options for the compiler, one word each, such as ``-I/usr/include``. No shell sees them.
    link_options
        Options for the linker, one word each.
    """

    compile_options: tuple[str, ...] = ()
    link_options: tuple[str, ...] = ()


def _runs_anywhere() -> str | None:
    return None


def _no_build_options() -> BuildOptions:
    return BuildOptions()


@dataclass(frozen=True, slots=True)
class Backend:
    """How a target takes its regions.

    Attributes
    ----------
    name
        The target name, as in ``compiler_begin(x, compiler=name)``.
    unavailable
        Called without arguments; None when the target can run on this machine, else the reason and
        the remedy in one sentence.
    build_options
        Called without arguments when a module with regions of this target is built; may raise
        `BackendUnavailableError`.
    bind_constants
        Whether constants stay inside the external functions (True) or become parameters (False).
    connected_regions
        Whether a region must hang together; otherwise unconnected nodes may share a region.
    share_equal_regions
        Whether structurally equal regions may become one external function.
    accepts_region
        A predicate on an `AnnotatedRegion`: True, or the reason why the code generator cannot take
        it (an operand or size limit).
    min_work
        The least work that is worth a region; see `ResolveConflicts`.
    package
        The distribution on PyPI that holds its library, whose version tells measured times apart.
    codegen_options
        Options for the code generator, handed to ``relax.ext.<name>``.
    """

    name: str
    unavailable: Callable[[], str | None] = _runs_anywhere
    build_options: Callable[[], BuildOptions] = _no_build_options
    bind_constants: bool = True
    connected_regions: bool = False
    share_equal_regions: bool = True
    accepts_region: Callable[[Any], bool | str] | None = None
    min_work: float = 0.0
    package: str | None = None
    codegen_options: Mapping[str, Any] = field(default_factory=dict)


_BACKENDS: dict[str, Backend] = {}
_ENTRY_POINT_ERRORS: dict[str, Exception] = {}


def register_backend(backend: Backend | str, /, **options: Any) -> Backend:
    """Make a target known, or change what is known of it; the last registration wins.

    Parameters
    ----------
    backend
        A `Backend`, or the name of the target.
    **options
        The other attributes of `Backend`, by name.
    """
    described = Backend(backend, **options) if isinstance(backend, str) else replace(backend, **options)
    _BACKENDS[described.name] = described
    return described


def backend_of(target: str) -> Backend:
    """The backend registered for `target`.

    Raises
    ------
    UnknownTargetError
        Nothing is registered under that name.
    BackendUnavailableError
        The package that provides the target could not be imported.
    """
    if target not in _BACKENDS:
        load_entry_points()
    if target in _BACKENDS:
        return _BACKENDS[target]
    if target in _ENTRY_POINT_ERRORS:
        error = _ENTRY_POINT_ERRORS[target]
        raise BackendUnavailableError(
            f"the package that provides target {target!r} could not be loaded: {error}; repair or remove it"
        ) from error
    known = ", ".join(repr(name) for name in known_targets()) or "none"
    raise UnknownTargetError(
        f"unknown target {target!r}; known targets: {known}. Register a rule for it with "
        "annotated_region.register_rule, or install the package that provides it"
    )


def known_targets() -> tuple[str, ...]:
    """The names of all registered targets, in order of registration."""
    load_entry_points()
    return tuple(_BACKENDS)


def ensure_known(target: str) -> None:
    """Register `target` with the default description unless it is known already."""
    if target not in _BACKENDS:
        register_backend(target)


@cache
def load_entry_points() -> None:
    """Import the backends of installed packages, once; what fails is kept for `backend_of` to report."""
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name):
        try:
            loaded = entry.load()
            if callable(loaded):
                loaded()
        except Exception as error:  # a third party's package may fail in any way; its error is kept, not lost
            _ENTRY_POINT_ERRORS[entry.name] = error
