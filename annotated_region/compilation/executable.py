"""Compiles a module with external functions: code generation, TVM's compilation, linking."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import tvm
from tvm import relax
from tvm.relax.vm_build import VMExecutable
from tvm.support import cc

from annotated_region.checked import checked
from annotated_region.compilation.appending import append_in_place
from annotated_region.compilation.code_generation import external_functions, generate_code
from annotated_region.compilation.constant_objects import ConstantData, constants_apart
from annotated_region.compilation.host_loops import host_pipeline
from annotated_region.compilation.late_constants import objects_of
from annotated_region.compilation.objects import SharedLibraryLinker
from annotated_region.errors import BackendUnavailableError, BuildError, InvalidModuleError
from annotated_region.functions.modules import require_well_formed
from annotated_region.host_targets import host_target
from annotated_region.targets.backend import Backend, BuildOptions, backend_of, unavailability
from annotated_region.tvm_adapter.modules import allow_freeing

__all__ = ["LinkedExecutable", "LinkedRegion", "compile_module", "machine_of", "targets_of"]


# TVM raises these, and subclasses of them, when its passes or LLVM fail. Its definitions of ops in Python
# assert what they support, and read numbers from symbolic extents.
_FAILURES_OF_TVM = (
    *(RuntimeError, ValueError, TypeError, NotImplementedError),
    *(AssertionError, AttributeError, LookupError, ArithmeticError),
)


# Workers, errors and other objects of a process refer to code of the library that made them, so its code must
# not be unloaded when its module is freed.
_STAYS_LOADED = "-Wl,-z,nodelete"


@dataclass(frozen=True, slots=True)
class LinkedRegion:
    """An external function of an executable.

    Attributes
    ----------
    target
        The target that it runs on.
    inputs
        The number of its arguments that are inputs.
    ops
        The bindings of its ops, including those in composites.
    needs_python
        Why it runs only in Python processes; None if it does not.
    """

    target: str
    inputs: int
    ops: tuple[str, ...] = ()
    needs_python: str | None = None


class LinkedExecutable(VMExecutable):
    """A `VMExecutable` with the libraries that its external functions need.

    `relax.VirtualMachine` accepts it; ``export_library(path)`` builds a library that TVM's runtime can load
    in any process, without this package.

    Attributes
    ----------
    regions
        Its external functions, by symbol.
    parameters
        The names of the parameters of ``main``.
    libraries
        The shared libraries of the engines that run its regions.
    host
        The kind of TVM's target for the host, and the instruction set that it names.
    progress
        Whether `export_library` shows on a terminal how much is left to compile.
    """

    _jitted_mod: tvm.runtime.Module | None

    def __init__(
        self,
        mod: tvm.runtime.Module,
        needs: Sequence[BuildOptions],
        regions: Mapping[str, LinkedRegion] = MappingProxyType({}),
        parameters: Sequence[str] = (),
        host: str = "llvm",
        constants: Sequence[ConstantData] = (),
    ) -> None:
        super().__init__(mod)
        self._constants = tuple(constants)
        self.regions = dict(regions)
        self.parameters = tuple(parameters)
        self.host = host
        self.progress = True
        words = [word for each in needs for word in (*each.compile_options, *each.link_options)]
        self.options = tuple(words)
        self.libraries = tuple(dict.fromkeys(library for each in needs for library in each.libraries))
        self.sources = tuple(source for each in needs for source in each.sources)

    def release(self) -> None:
        """Free the memory of the library that this process has loaded to run the executable.

        TVM keeps each loaded library until the process ends, with its constants, packed weights and sessions:
        about two to three times the size of the weights. A process that builds or replaces models calls this
        when no virtual machine made from the executable will run again. Regions that are called later raise a
        ``RuntimeError``; those that run at the time must have returned. A new `relax.VirtualMachine` links
        and loads the library anew. The file of the library stays mapped, which takes no memory that the
        system could not use otherwise.
        """
        self.hand_over()()

    def hand_over(self) -> Callable[[], None]:
        """What frees the library that is loaded, if any: as `release`, but when it is called.

        Until then the library stays, also when the executable, with its copy of the constants, is gone.
        """
        library, self._jitted_mod = self._jitted_mod, None
        return partial(_free, library, tuple(self.regions))

    @checked
    def export_library(self, file_name: str, **kwargs: Any) -> object:
        """Compile and link everything into one shared library; objects in the cache are only linked.

        The library is written atomically. Its run path has the folders of its engines' libraries on this
        machine, before the system's search path.

        Parameters
        ----------
        file_name
            The library to write.
        **kwargs
            As for TVM's ``Executable.export_library``; ``options`` are passed to the compiler after ours.
            ``run_path`` replaces the folders of the run path.

        Raises
        ------
        BackendUnavailableError
            There is no C++ compiler on this machine.
        BuildError
            The compiler or the linker rejects the code.
        OSError
            The library cannot be written.

        Warns
        -----
        CacheWarning
            A cached object failed verification, and is compiled again.
        """
        looked_for = [str(library.file.parent) for library in self.libraries]
        run_path = dict.fromkeys(kwargs.pop("run_path", looked_for))
        if not self.options:
            return super().export_library(file_name, **kwargs)
        compiler = cc.get_cc()
        if not compiler and "cc" not in kwargs:
            raise BackendUnavailableError(
                "no C++ compiler found, and the external functions are C++; install one (on Debian: apt-get "
                "install g++) or name it in the environment variable CXX"
            )
        # The path is passed as a separate argument: a comma in it would split a -Wl argument.
        looking = [word for each in run_path for word in ("-Xlinker", "-rpath", "-Xlinker", each)]
        options = [*self.options, _STAYS_LOADED, *kwargs.pop("options", ()), *looking]
        if not str(file_name).endswith(".tar"):  # an archive of sources and objects
            kwargs["options"] = options
        is_ours = kwargs.get("fcompile") is None and str(file_name).endswith(".so")
        if is_ours:
            kwargs["fcompile"] = SharedLibraryLinker(self.sources, self.progress, self._constants)
        try:
            with tempfile.TemporaryDirectory() as folder:
                objects = [] if is_ours else objects_of(self._constants, Path(folder))
                addons = [*(kwargs.pop("addons", None) or ()), *objects]
                return super().export_library(file_name, addons=addons, **kwargs)
        except RuntimeError as error:
            raise BuildError(
                f"{compiler or kwargs['cc']} could not build the external functions:\n{error}"
            ) from error


@contextmanager
def machine_of(executable: VMExecutable) -> Iterator[relax.VirtualMachine]:
    """A virtual machine for an executable, whose memory is released at the end; see `LinkedExecutable`.

    The executable itself is not kept: it holds the constants, which the machine does not need.
    """
    machine = relax.VirtualMachine(executable, tvm.cpu())
    free = executable.hand_over() if isinstance(executable, LinkedExecutable) else None
    del executable
    try:
        yield machine
    finally:
        if free is not None:
            free()


def _free(library: tvm.runtime.Module | None, symbols: Sequence[str]) -> None:
    """Free what a library holds: the plans of these external functions, then the library."""
    if library is None:  # never run, or a program without C++ code, which TVM frees
        return
    for symbol in symbols:
        if library.implements_function(f"{symbol}__release", query_imports=True):
            library.get_function(f"{symbol}__release", query_imports=True)()
    allow_freeing(library)


def compile_module(
    mod: tvm.IRModule,
    target: str | tvm.target.Target = "llvm",
    options: Mapping[str, Mapping[str, object]] | None = None,
    *,
    checked: tvm.IRModule | None = None,
) -> LinkedExecutable:
    """Compile a partitioned module without further passes; parameters and errors are those of
    `annotated_region.build`.

    `checked` is a module known to be well formed, which is not checked again.

    Raises
    ------
    RegionRejectedError
        A code generator rejects a region.
    """
    if not mod.same_as(checked):
        require_well_formed(mod)
    if not any(isinstance(function, relax.Function) for function in mod.functions.values()):
        raise InvalidModuleError(
            "the module has no function of Relax, so there is nothing to build; pass a model"
        )
    host = host_target(target)
    backends = [backend_of(name) for name in targets_of(mod)]
    for backend in backends:
        _require_buildable(backend)
    needs = [backend.build_options() for backend in backends]
    chosen = options or {}
    for name in chosen:
        backend_of(name)  # reject unregistered names, whose options would be ignored
    codegen_options = {
        backend.name: {**backend.codegen_options, **chosen.get(backend.name, {})} for backend in backends
    }
    with constants_apart() as constants:
        generated = append_in_place(generate_code(mod, codegen_options))
    try:
        compiled = tvm.compile(generated, host, relax_pipeline=host_pipeline(host))
    except _FAILURES_OF_TVM as error:
        raise BuildError(f"TVM cannot compile what the host runs: {type(error).__name__}: {error}") from error
    bound = {backend.name: backend.needs_python(codegen_options[backend.name]) for backend in backends}
    regions = _linked_regions(mod, bound)
    return LinkedExecutable(compiled.mod, needs, regions, _parameters(mod), _instructions(host), constants)


def _linked_regions(mod: tvm.IRModule, bound: Mapping[str, str | None]) -> dict[str, LinkedRegion]:
    """The external functions by symbol; `bound` has, for each target, why it needs Python, or None."""
    return {
        str(func.attrs["global_symbol"]): LinkedRegion(target, len(func.params), _ops_in(func), bound[target])
        for target, functions in external_functions(mod).items()
        for func in functions.values()
    }


def _ops_in(func: relax.Function) -> tuple[str, ...]:
    bodies: list[relax.SeqExpr] = []

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, relax.SeqExpr):
            bodies.append(expr)

    relax.analysis.post_order_visit(func, visit)
    bindings = (binding for body in bodies for block in body.blocks for binding in block.bindings)
    return tuple(
        binding.var.name
        for binding in bindings
        if isinstance(binding.value, relax.Call) and isinstance(binding.value.op, tvm.ir.Op)
    )


def _instructions(host: tvm.target.Target) -> str:
    """The kind of a target with its processor and instruction set, as text."""
    named = [f"{key}={host.attrs[key]}" for key in ("mcpu", "mattr") if key in host.attrs]
    return " ".join([str(host.kind.name), *named])


def _parameters(mod: tvm.IRModule) -> list[str]:
    """The names of the parameters of ``main``; empty if there is no such function."""
    mains = [func for name, func in mod.functions_items() if name.name_hint == "main"]
    return [param.name for func in mains if isinstance(func, relax.Function) for param in func.params]


def targets_of(mod: tvm.IRModule) -> tuple[str, ...]:
    """The targets of the external functions of a module, in alphabetical order of the functions."""
    return tuple(external_functions(mod))


def _require_buildable(backend: Backend) -> None:
    reason = None if backend.builds_anywhere else unavailability(backend)
    if reason:
        raise BackendUnavailableError(f"target {backend.name!r}: {reason}")
    if tvm.get_global_func(f"relax.ext.{backend.name}", allow_missing=True) is None:
        raise BackendUnavailableError(
            f"target {backend.name!r} has no code generator: register the global function "
            f"'relax.ext.{backend.name}', or partition without this target"
        )
