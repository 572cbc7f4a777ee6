"""Builds a partitioned module: code generation, TVM's compilation, the link with the backends' libraries."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import tvm
from tvm.relax.vm_build import VMExecutable
from tvm.support import cc

from annotated_region.backend import Backend, backend_of
from annotated_region.code_generation import external_functions, generate_code
from annotated_region.errors import (
    BackendUnavailableError,
    BuildError,
    RegionRejectedError,
    RegionRejectedWarning,
)
from annotated_region.inlining import inline_functions, is_inlinable
from annotated_region.modules import require_well_formed

__all__ = ["LinkedExecutable", "build", "targets_of"]


class LinkedExecutable(VMExecutable):  # type: ignore[misc]
    """A `VMExecutable` that knows which libraries its external functions need.

    `relax.VirtualMachine` takes it as it is; ``export_library(path)`` makes a library that TVM's
    runtime loads in any process, without this package.
    """

    def __init__(self, mod: tvm.runtime.Module, options: tuple[str, ...]) -> None:
        super().__init__(mod)
        self.options = options

    def export_library(self, file_name: str, **kwargs: Any) -> Any:
        """Compile and link everything into one shared library.

        Parameters
        ----------
        file_name
            The library to write.
        **kwargs
            As for TVM's ``Executable.export_library``; ``options`` go to the compiler after ours.

        Raises
        ------
        BackendUnavailableError
            There is no C++ compiler on this machine.
        BuildError
            The compiler or the linker refuses the code.
        """
        if not self.options:
            return super().export_library(file_name, **kwargs)
        compiler = cc.get_cc()
        if not compiler and "cc" not in kwargs:
            raise BackendUnavailableError(
                "no C++ compiler found, and the external functions are C++; install one (on Debian: apt-get "
                "install g++) or name it in the environment variable CXX"
            )
        options = [*self.options, *kwargs.pop("options", ())]
        try:
            return super().export_library(file_name, options=options, **kwargs)
        except RuntimeError as error:
            raise BuildError(
                f"{compiler or kwargs['cc']} could not build the external functions:\n{error}"
            ) from error


def build(
    mod: tvm.IRModule,
    target: str | tvm.target.Target = "llvm",
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> LinkedExecutable:
    """Build a partitioned module into an executable that runs.

    Parameters
    ----------
    mod
        A module as `partition` leaves it; one without external functions is built as well.
    target
        TVM's target for what stays on the host.
    options
        For each backend, the options of its code generator, such as ``{"dnnl": {"precision": "bf16"}}``.

    Warns
    -----
    RegionRejectedWarning
        A code generator refuses a region (`RegionRejectedError`): TVM compiles its ops for the host.

    Raises
    ------
    BackendUnavailableError
        A target of the module cannot be built for on this machine; the message says what to install.
    UnknownTargetError
        An external function is for a target that nobody registered.
    InvalidModuleError
        The module is not well formed.
    CodegenError
        A code generator cannot translate one of its functions.
    BuildError
        The shape of an external function's result is not known from those of its arguments.

    Examples
    --------
    >>> executable = ar.build(partitioned)                          # doctest: +SKIP
    >>> machine = relax.VirtualMachine(executable, tvm.cpu())       # doctest: +SKIP
    """
    require_well_formed(mod)
    backends = [backend_of(name) for name in targets_of(mod)]
    words: list[str] = []
    for backend in backends:
        _require_buildable(backend)
        needed = backend.build_options()
        words += [*needed.compile_options, *needed.link_options]
    chosen = options or {}
    codegen_options = {
        backend.name: {**backend.codegen_options, **chosen.get(backend.name, {})} for backend in backends
    }
    generated = _generated(mod, codegen_options)
    compiled = tvm.compile(generated, tvm.target.Target(target) if isinstance(target, str) else target)
    return LinkedExecutable(compiled.mod, tuple(words))


def _generated(mod: tvm.IRModule, options: Mapping[str, Mapping[str, Any]]) -> tvm.IRModule:
    """The module with generated code; what a code generator refuses goes back to the host, one by one."""
    while True:
        try:
            return generate_code(mod, options)
        except RegionRejectedError as error:
            mod = _taken_back(mod, error)


def _taken_back(mod: tvm.IRModule, error: RegionRejectedError) -> tvm.IRModule:
    for target, functions in external_functions(mod).items():
        for name, func in functions.items():
            if str(func.attrs["global_symbol"]) == error.symbol and is_inlinable(func):
                reason = f"target {target!r} refuses {error.symbol}, which the host runs instead ({error})"
                warnings.warn(reason, RegionRejectedWarning, stacklevel=4)
                return inline_functions(mod, {name: func})
    raise error


def targets_of(mod: tvm.IRModule) -> tuple[str, ...]:
    """The targets of the external functions of a module, in order of the functions' names."""
    return tuple(external_functions(mod))


def _require_buildable(backend: Backend) -> None:
    reason = backend.unavailable()
    if reason:
        raise BackendUnavailableError(f"target {backend.name!r}: {reason}")
    if tvm.get_global_func(f"relax.ext.{backend.name}", allow_missing=True) is None:
        raise BackendUnavailableError(
            f"target {backend.name!r} has no code generator: register the global function "
            f"'relax.ext.{backend.name}', or partition without this target"
        )
