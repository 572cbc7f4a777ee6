"""What the project knows of a target besides its rules: where it runs and what its code generator takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
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
from annotated_region.targets.built_in import load_built_in
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
"""What a target accepts as one region."""


@dataclass(frozen=True, slots=True)
class LinkedSource:
    """C++ that is the same for every module of a target: compiled once, kept, and linked with each of them.

    Attributes
    ----------
    text
        The source.
    options
        Options for the compiler, one word each.
    versions
        What the object depends on besides the text, the options and the compiler: the headers' versions.
    macro
        Defined for the other units of the library when the object is linked. Where it is not, because it
        cannot be compiled or kept, or the user links in another way, they have to bring the text along.
    """

    text: str
    options: tuple[str, ...]
    versions: tuple[str, ...]
    macro: str


@dataclass(frozen=True, slots=True)
class NeededLibrary:
    """A shared library that the code of a backend needs where it runs.

    Attributes
    ----------
    name
        What the linked code asks for, such as ``"libdnnl.so.3"``.
    file
        Where it is on this machine. A library that is built here looks for it in that folder.
    package
        The distribution on PyPI that installs it.
    instructions
        What of a processor it cannot do without, for people: ``"SSE4.1 on x86-64"``.
    """

    name: str
    file: Path
    package: str
    instructions: str = "those that every processor of the machine has"


@checked_class
@dataclass(frozen=True, slots=True)
class BuildOptions:
    """What the system compiler and the linker need for the code that a backend emits.

    Attributes
    ----------
    compile_options
        Options for the compiler, one word each, such as ``-I/usr/include``. No shell sees them.
    link_options
        Options for the linker, one word each.
    sources
        What is compiled once for all modules.
    libraries
        What has to be there where the module runs; `annotated_region.export` copies it.
    """

    compile_options: tuple[str, ...] = ()
    link_options: tuple[str, ...] = ()
    sources: tuple[LinkedSource, ...] = ()
    libraries: tuple[NeededLibrary, ...] = ()


def _runs_anywhere() -> str | None:
    return None


def _runs_without_python(_options: Mapping[str, object]) -> str | None:
    return None


def _no_build_options() -> BuildOptions:
    return BuildOptions()


@dataclass(frozen=True, slots=True)
class StepTime:
    """What one step inside a region is called, and the seconds that it takes."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class EngineLog:
    """How an engine is asked to say what it runs.

    Attributes
    ----------
    environment
        The variables that make it speak, such as ``ONEDNN_VERBOSE``.
    prefix
        What its lines on the standard output begin with.
    """

    environment: Mapping[str, str]
    prefix: str


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
    regions
        What its code generator accepts as one region: ``"any"`` set of ops; ``"connected"`` ones, which edges
        join; ``"one composite"``, or one op that is claimed alone, as the runtimes of TVM's cuBLAS, cuDNN and
        hipBLAS generators do, which write the result of every kernel to the first output.
    share_equal_regions
        Whether structurally equal regions may become one external function.
    accepts_region
        A predicate on an `AnnotatedRegion` and its composites: True, or the reason why the code generator
        cannot take it. It is asked about every region that a policy places; what it refuses is cut into the
        largest parts that it takes.
    max_ops
        How many ops one region may hold; None: any number, as for the other limits. Every policy keeps them.
    max_regions
        How many regions of the target a function may have.
    max_constant_bytes
        How many bytes of constants one region may hold, each constant counted once.
    max_workspace_bytes
        How many bytes of intermediate tensors one region may hold: those that ops of the region make and
        nothing outside of it reads, the insides of composites left out. Nothing shares memory; an extent that
        is known only at run time counts as 16.
    min_work
        The least work that is worth a region; see `ResolveConflicts`.
    work
        The work of an op, in the unit of `min_work`; None: 1, and 10 for convolutions and products.
    builds_anywhere
        Whether its code generator needs nothing of what running needs, so that a module is built where
        the target is not available, to run somewhere else.
    needs_python
        Called with the options of its code generator: why regions that are built with them run in Python
        processes that import this package, and nowhere else; None if they run elsewhere, too.
    package
        The distribution on PyPI that holds its library, whose version tells measured times apart.
    codegen_options
        Options for the code generator, handed to ``relax.ext.<name>``.
    layouts
        The layouts that it takes, by op name, for those ops where it does not take any: of the data, such as
        ``"NHWC"``, or of data and kernel, ``"NHWC/OHWI"``. See `PlanLayout`.
    step_times
        For a library that holds a region, and the symbol of the region: what each step of it (a primitive, a
        kernel) took in its last run. See `annotated_region.profile`.
    recorded_steps
        For targets that tell their steps only of runs that are recorded: inside the block that it opens,
        regions are run; behind it, what it gave is asked as `step_times` is.
    engine_log
        How the engine is asked to say what it runs, for reproducers. See `annotated_region.check`.
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
    package: str | None = None
    codegen_options: Mapping[str, object] = field(default_factory=dict)
    layouts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    step_times: Callable[[tvm.runtime.Module, str], Sequence[StepTime]] | None = None
    recorded_steps: Callable[[], AbstractContextManager[Callable[[str], Sequence[StepTime]]]] | None = None
    engine_log: EngineLog | None = None

    def __post_init__(self) -> None:
        """Refuse what describes no backend.

        Raises
        ------
        InvalidBackendError
            The name is no text, `regions` is none of the three, a limit is no number of 0 or more, or another
            attribute is of the wrong kind.
        """
        if not isinstance(self.name, str) or not self.name:
            raise InvalidBackendError(
                f"the name of a backend is a text that is not empty, not {self.name!r}; hand in a name"
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
                    f"backend {self.name!r}: {limit}={given!r} is no limit; give a whole number of 0 "
                    "or more, or None for no limit"
                )
        try:
            require_fields(self)
        except UsageError as error:
            raise InvalidBackendError(f"backend {self.name!r}: {error}") from error


_BACKENDS: dict[str, Backend] = {}


def register_backend(backend: Backend | str, /, **options: Any) -> Backend:
    """Make a target known, or change what is known of it; the last registration wins.

    Parameters
    ----------
    backend
        A `Backend`, or the name of the target.
    **options
        The other attributes of `Backend`, by name.

    Raises
    ------
    InvalidBackendError
        An option is unknown, or its value makes no sense.
    """
    load_built_in()
    unknown = [name for name in options if name not in Backend.__dataclass_fields__]
    if unknown:
        known = ", ".join(Backend.__dataclass_fields__)
        raise InvalidBackendError(f"a backend has no option {unknown[0]!r}; its options are {known}")
    if not isinstance(backend, Backend | str):
        raise InvalidBackendError(
            f"{backend!r} is neither a Backend nor the name of a target; hand in one as backend"
        )
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
    load_built_in()
    # A rule alone makes a target known, and does not describe it: its package may still have to be loaded.
    if _BACKENDS.get(target, Backend(target)) == Backend(target):
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
    """The names of all registered targets, in order of registration, then those of installed packages."""
    load_built_in()
    return tuple(dict.fromkeys((*_BACKENDS, *installed_targets())))


def unavailability(backend: Backend) -> str | None:
    """Why a target cannot run on this machine; None if it can. A check that fails is a reason, too."""
    try:
        return backend.unavailable()
    except Exception as error:  # it is a third party's code, and the other targets have nothing to do with it
        return f"finding out whether it can run here failed: {type(error).__name__}: {error}"


def describe(backend: Backend) -> None:
    """Register `backend` unless its target is described already, which a rule alone does not do."""
    load_built_in()
    if _BACKENDS.get(backend.name, Backend(backend.name)) == Backend(backend.name):
        _BACKENDS[backend.name] = backend


def ensure_known(target: str) -> None:
    """Register `target` with the default description unless it is known already."""
    load_built_in()
    if target not in _BACKENDS:
        register_backend(target)
