"""The description of a target besides its rules: where it runs and what its code generator accepts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from numbers import Real
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import tvm

from annotated_region.checked import checked_class, require_fields
from annotated_region.errors import (
    BackendUnavailableError,
    InvalidBackendError,
    UnknownTargetError,
    UsageError,
)
from annotated_region.targets.built_in import BUILT_IN, load_built_in
from annotated_region.targets.installed_backends import failure_of, installed_targets, load_installed
from annotated_region.targets.op_view import OpView

__all__ = [
    "Backend",
    "BuildOptions",
    "EngineLog",
    "LinkedSource",
    "NeededLibrary",
    "RegionForm",
    "StepTime",
    "backend_of",
    "known_targets",
    "register_backend",
]

RegionForm: TypeAlias = Literal["any", "connected", "one composite"]
"""The sets of nodes that a target accepts as one region."""


@dataclass(frozen=True, slots=True)
class LinkedSource:
    """C++ source shared by all modules of a target: compiled once, cached, and linked into each of them.

    Attributes
    ----------
    text
        The source.
    options
        Options for the compiler, one word each.
    versions
        Inputs of the object besides the text, the options and the compiler, such as header versions.
    macro
        Defined when the library's other units are compiled, if the object is linked. If it is not, because it
        cannot be compiled or cached, or the user links otherwise, those units must include the text
        themselves.
    others
        Further units of the same source, which are compiled in parallel with `text` and linked with it.
    """

    text: str
    options: tuple[str, ...]
    versions: tuple[str, ...]
    macro: str
    others: tuple[str, ...] = ()

    @property
    def units(self) -> tuple[str, ...]:
        """The texts of all units."""
        return (self.text, *self.others)


@dataclass(frozen=True, slots=True)
class NeededLibrary:
    """A shared library that the code of a backend needs at run time.

    Attributes
    ----------
    name
        The name that the linked code requests, such as ``"libdnnl.so.3"``.
    file
        Its path on this machine; libraries built here search that folder for it.
    package
        The distribution on PyPI that installs it.
    instructions
        The processor features that it requires, for people: ``"SSE4.1 on x86-64"``.
    """

    name: str
    file: Path
    package: str
    instructions: str = "those that every processor of the machine has"


@checked_class
@dataclass(frozen=True, slots=True)
class BuildOptions:
    """Compiler and linker options for the code that a backend emits.

    Attributes
    ----------
    compile_options
        Options for the compiler, one word each, such as ``-I/usr/include``; passed without a shell.
    link_options
        Options for the linker, one word each.
    sources
        Sources that are compiled once for all modules.
    libraries
        Libraries needed at run time; `annotated_region.export` copies them.
    """

    compile_options: tuple[str, ...] = ()
    link_options: tuple[str, ...] = ()
    sources: tuple[LinkedSource, ...] = ()
    libraries: tuple[NeededLibrary, ...] = ()


def _runs_anywhere() -> str | None:
    return None


def _runs_without_python(_options: Mapping[str, object]) -> str | None:
    return None


def _no_remarks(_options: Mapping[str, object]) -> Sequence[str]:
    return ()


def _no_build_options() -> BuildOptions:
    return BuildOptions()


@dataclass(frozen=True, slots=True)
class StepTime:
    """A step inside a region, and its time in seconds."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class EngineLog:
    """How to make an engine log the kernels that it runs.

    Attributes
    ----------
    environment
        The environment variables that enable the log, such as ``ONEDNN_VERBOSE``.
    prefix
        The prefix of its lines on standard output.
    """

    environment: Mapping[str, str]
    prefix: str


@dataclass(frozen=True, slots=True)
class Backend:
    """The description of a target: availability, region forms, limits, build options, profiling.

    Attributes
    ----------
    name
        The target name, as in ``compiler_begin(x, compiler=name)``.
    unavailable
        Called without arguments; returns None if the target can run on this machine, else the reason and the
        remedy in one sentence.
    build_options
        Called without arguments when a module with regions of this target is built; may raise
        `BackendUnavailableError`.
    bind_constants
        Whether constants stay inside the external functions (True) or become parameters (False).
    regions
        The form of its regions: ``"any"`` set of ops; ``"connected"`` sets only; ``"one composite"``, or one
        op that is claimed alone, as the runtimes of TVM's cuBLAS, cuDNN and hipBLAS generators need, which
        write the result of every kernel to the first output.
    share_equal_regions
        Whether structurally equal regions may become one external function.
    accepts_region
        A predicate on an `AnnotatedRegion` and its composites: returns True, or the reason why the code
        generator cannot compile it. It is called for every region that a policy places; a rejected region is
        cut into the largest accepted parts.
    max_ops
        The most ops in one region; None means unlimited, here and for the other limits. All policies respect
        them.
    max_regions
        The most regions of the target in a function.
    max_constant_bytes
        The most bytes of constants in one region; each constant counts once.
    max_workspace_bytes
        The most bytes of intermediate tensors in one region: tensors produced in it and not read outside,
        except those inside composites. No memory is assumed to be shared; an extent known only at run time
        counts as 16.
    min_work
        The least work of a region; see `ResolveConflicts`.
    work
        The work of an op, in the unit of `min_work`; by default 1, and 10 for convolutions and products.
    builds_anywhere
        Whether its code generator works where the target is not available, so that modules can be built there
        to run elsewhere.
    needs_python
        Called with the options of its code generator: returns why regions built with them run only in Python
        processes that import this package; None if they run elsewhere, too.
    remarks
        Called with the options of its code generator: returns which of them do not take effect on this
        machine, a clause each, such as a precision that the processor does not support. `explain` shows them.
        Raises `CodegenError` if an option or its value is unknown.
    package
        The distribution on PyPI with its library; measured times are keyed by its version.
    codegen_options
        Options for the code generator, passed to ``relax.ext.<name>``.
    layouts
        The accepted layouts by op name, for ops that do not accept every layout: of the data, such as
        ``"NHWC"``, or of data and kernel, ``"NHWC/OHWI"``. See `PlanLayout`.
    step_times
        Returns, for a library and the symbol of a region in it, the time of each step (primitive, kernel) in
        the region's last run. See `annotated_region.profile`.
    recorded_steps
        For targets that report step times only for recorded runs: a context manager that records the runs
        inside its block; the function that it yields is then called as `step_times` is.
    engine_log
        How to make the engine log the kernels that it runs, for reproducers. See `annotated_region.check`.
    """

    name: str
    unavailable: Callable[[], str | None] = _runs_anywhere
    build_options: Callable[[], BuildOptions] = _no_build_options
    bind_constants: bool = True
    regions: RegionForm = "any"
    share_equal_regions: bool = True
    accepts_region: Callable[[Any], bool | str] | None = None
    max_ops: int | None = None
    max_regions: int | None = None
    max_constant_bytes: int | None = None
    max_workspace_bytes: int | None = None
    min_work: float = 0.0
    work: Callable[[OpView], float] | None = None
    builds_anywhere: bool = False
    needs_python: Callable[[Mapping[str, object]], str | None] = _runs_without_python
    remarks: Callable[[Mapping[str, object]], Sequence[str]] = _no_remarks
    package: str | None = None
    codegen_options: Mapping[str, object] = field(default_factory=dict)
    layouts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    step_times: Callable[[tvm.runtime.Module, str], Sequence[StepTime]] | None = None
    recorded_steps: Callable[[], AbstractContextManager[Callable[[str], Sequence[StepTime]]]] | None = None
    engine_log: EngineLog | None = None

    def __post_init__(self) -> None:
        """Validate the fields.

        Raises
        ------
        InvalidBackendError
            The name is not a non-empty string, or one that users could not write, `regions` is none of the
            three forms, a limit is negative, or another field has the wrong type.
        """
        if not isinstance(self.name, str) or not self.name:
            raise InvalidBackendError(
                f"the name of a backend must be a non-empty string, not {self.name!r}; pass a name"
            )
        if self.name == "host" or re.search(r"[\s,=]", self.name):
            raise InvalidBackendError(
                f"{self.name!r} cannot be the name of a backend: 'host' is TVM itself, and lists of names "
                "separate them by commas; pass another name, without spaces, commas and equals signs"
            )
        if self.regions not in get_args(RegionForm):
            known = ", ".join(repr(form) for form in get_args(RegionForm))
            raise InvalidBackendError(
                f"backend {self.name!r}: regions={self.regions!r} is unknown; choose one of {known}"
            )
        for limit in ("max_ops", "max_regions", "max_constant_bytes", "max_workspace_bytes"):
            given = getattr(self, limit)
            if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < 0):
                raise InvalidBackendError(
                    f"backend {self.name!r}: {limit}={given!r} is not a limit; give an integer of 0 "
                    "or more, or None for no limit"
                )
        if isinstance(self.min_work, Real) and not self.min_work >= 0:
            raise InvalidBackendError(
                f"backend {self.name!r}: min_work={self.min_work!r} is not a limit; give a number of 0 "
                "or more"
            )
        try:
            require_fields(self)
        except UsageError as error:
            raise InvalidBackendError(f"backend {self.name!r}: {error}") from error


_BACKENDS: dict[str, Backend] = {}


def register_backend(backend: Backend | str, /, **options: Any) -> Backend:
    """Register or replace the description of a target; the last registration wins.

    Parameters
    ----------
    backend
        A `Backend`, or the name of the target.
    **options
        The other attributes of `Backend`, by name.

    Raises
    ------
    InvalidBackendError
        An option is unknown, or its value is invalid.
    """
    unknown = [name for name in options if name not in Backend.__dataclass_fields__]
    if unknown:
        known = ", ".join(Backend.__dataclass_fields__)
        raise InvalidBackendError(f"a backend has no option {unknown[0]!r}; its options are {known}")
    if not isinstance(backend, Backend | str):
        raise InvalidBackendError(
            f"{backend!r} is neither a Backend nor the name of a target; pass one as backend"
        )
    described = Backend(backend, **options) if isinstance(backend, str) else replace(backend, **options)
    load_built_in(described.name)
    _BACKENDS[described.name] = described
    return described


@lru_cache
def _undescribed(target: str) -> Backend:
    """The description of a target of which only rules are registered. Validating one takes a millisecond."""
    return Backend(target)


def backend_of(target: str) -> Backend:
    """The backend registered for `target`.

    Raises
    ------
    UnknownTargetError
        No target is registered under that name.
    BackendUnavailableError
        The package that provides the target could not be imported.
    """
    load_built_in(target)
    # A rule alone registers a target with the default description; its package may still have to be loaded.
    described = _BACKENDS.get(target)
    if described is None or described == _undescribed(target):
        load_installed(target)
    failure = failure_of(target)
    if failure is not None:
        package, error = failure
        raise BackendUnavailableError(
            f"{package} could not be loaded: {type(error).__name__}: {error}; repair or remove it"
        ) from error
    if target in _BACKENDS:
        return _BACKENDS[target]
    known = ", ".join(repr(name) for name in known_targets()) or "none"
    raise UnknownTargetError(
        f"unknown target {target!r}; known targets: {known}. Register a rule for it with "
        "annotated_region.register_rule, or install the package that provides it"
    )


def known_targets() -> tuple[str, ...]:
    """The names of the built-in targets, of others in order of registration, and of installed packages."""
    return tuple(dict.fromkeys((*BUILT_IN, *_BACKENDS, *installed_targets())))


def unavailability(backend: Backend) -> str | None:
    """Why a target cannot run on this machine; None if it can. A failing availability check is a reason."""
    try:
        return backend.unavailable()
    except Exception as error:  # third-party code; its failure must not affect other targets
        return f"its availability check failed: {type(error).__name__}: {error}"


def describe(backend: Backend) -> None:
    """Register `backend` unless its target already has a description; a rule alone does not give it one."""
    load_built_in(backend.name)
    if _BACKENDS.get(backend.name, Backend(backend.name)) == Backend(backend.name):
        _BACKENDS[backend.name] = backend


def ensure_known(target: str) -> None:
    """Register `target` with the default description unless it is known already."""
    load_built_in(target)
    if target not in _BACKENDS:
        register_backend(target)
