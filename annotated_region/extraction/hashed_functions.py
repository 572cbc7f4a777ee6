"""extract_hashed_functions: the distinct fused functions of a model zoo, with their counts."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import tvm
import tvm_ffi
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from tvm import relax

from annotated_region.checked import checked
from annotated_region.errors import InvalidModuleError
from annotated_region.extraction.call_sites import CallSite, primitive_calls
from annotated_region.extraction.fused_functions import fused
from annotated_region.extraction.work import flops_of, written_parameters
from annotated_region.functions.sizes import bytes_of, total_bytes
from annotated_region.host_targets import HostTarget
from annotated_region.op_info import OpInfo, op_infos
from annotated_region.tvm_adapter.nodes import BufferType
from annotated_region.tvm_adapter.types import expect

__all__ = ["FusedFunction", "Source", "extract_hashed_functions"]

Source: TypeAlias = tvm.IRModule | Callable[[], tvm.IRModule]
"""A module, or a function that creates it; only the latter can be sent to another process."""

# The number of models that are submitted to an executor ahead of the one whose result is awaited.
_AHEAD = 16
_KEYS = 1 << 64


@dataclass(frozen=True, slots=True)
class FusedFunction:
    """A fused primitive function, with all its calls.

    Attributes
    ----------
    name
        Its name in the first model that calls it.
    func
        The TensorIR function, public under that name.
    call_sites
        The call sites, by model. Models are in the order of the input.
    """

    name: str
    func: tvm.tirx.PrimFunc
    call_sites: Mapping[str, tuple[CallSite, ...]]

    @property
    def count(self) -> int:
        """The number of calls in all models."""
        return sum(map(len, self.call_sites.values()))

    @property
    def counts(self) -> dict[str, int]:
        """The number of calls in each model that has any."""
        return {model: len(sites) for model, sites in self.call_sites.items()}

    @property
    def op_infos(self) -> tuple[OpInfo, ...] | None:
        """The ops inside, in order, if they are certain; see `annotated_region.op_infos`."""
        return op_infos(self.func)

    @property
    def inputs(self) -> tuple[relax.TensorType, ...]:
        """Shapes and data types of the tensors that it only reads, in the order of its parameters."""
        written = set(written_parameters(self.func))
        return tuple(_tensor_type(buffer) for buffer in self._buffers() if buffer not in written)

    @property
    def outputs(self) -> tuple[relax.TensorType, ...]:
        """Those of the tensors that it writes, in place or not."""
        return tuple(map(_tensor_type, written_parameters(self.func)))

    @property
    def flops(self) -> int | None:
        """The operations of one call, counted in its loops: arithmetic on tensor elements of any type.

        A multiply-add is two, a transcendental function 10, as in reports. None if the number is not static:
        a shape is symbolic, or it calls something other than TensorIR.
        """
        return flops_of(self.func)

    @property
    def bytes(self) -> int | None:
        """The total size of its inputs and outputs; None if a shape is symbolic."""
        return total_bytes(bytes_of(_tensor_type(buffer)) for buffer in self._buffers())

    def _buffers(self) -> Iterator[tvm.tirx.Var]:
        return (param for param in self.func.params if isinstance(param.ty, BufferType))


def _tensor_type(buffer: tvm.tirx.Var) -> relax.TensorType:
    # Relax has only sizes of 64 bits; TensorIR has any integers.
    return relax.TensorType([extent.astype("int64") for extent in buffer.shape], str(buffer.dtype))


@checked
def extract_hashed_functions(
    mods: tvm.IRModule | Iterable[tuple[str, Source]],
    target: HostTarget | None = None,
    *,
    executor: Executor | None = None,
    progress: bool = False,
    hash_function: Callable[[tvm.tirx.PrimFunc], int] = tvm_ffi.structural_hash,
) -> dict[int, FusedFunction]:
    """The distinct fused functions of one or several modules, with their calls.

    Parameters
    ----------
    mods
        One module, with the name "main", or pairs of a name and a module. Instead of a module, a pair may
        have a function without arguments that creates it, such as ``partial(load, path)``. The iterable is
        consumed one model at a time, and models are not kept.
    target
        See `extract_fused_functions`.
    executor
        The executor that lowers the models; by default they are lowered in this process. For one that uses
        other processes or machines, each pair must have a function that can be sent there.
    progress
        Whether to show a progress bar with the remaining time on the standard error.
    hash_function
        Distinguishes functions at first. Functions with the same hash are compared.

    Returns
    -------
    dict[int, FusedFunction]
        In the order of the first calls. The key is the structural hash of the function without its name; if
        another function has this key already, the next free number.

    Raises
    ------
    InvalidModuleError
        A module is not well formed, or cannot be sent to another process.

    Notes
    -----
    The counts are static: a function with two call sites counts twice, and calls inside a Relax function
    that is called twice count once. The result does not depend on the executor.
    """
    models = [("main", mods)] if isinstance(mods, tvm.IRModule) else mods
    found: dict[int, _Gathered] = {}
    with _progress_bar(models, progress) as advance:
        for name, extracts in _extracted(models, target, executor):
            for extract in extracts:
                _entry_for(extract, found, hash_function).sites.setdefault(name, []).append(extract.site)
            advance()
    return {key: entry.finished() for key, entry in found.items()}


@dataclass(slots=True)
class _Gathered:
    """A function whose calls are being collected."""

    func: tvm.tirx.PrimFunc
    name: str
    sites: dict[str, list[CallSite]]

    def finished(self) -> FusedFunction:
        sites = {model: tuple(found) for model, found in self.sites.items()}
        return FusedFunction(self.name, self.func.with_attr("global_symbol", self.name), sites)


@dataclass(frozen=True, slots=True)
class _Extract:
    """A call in a model, with the called function without its name."""

    func: _Portable
    name: str
    site: CallSite


class _Portable:
    """A TensorIR function that is sent between processes as TVMScript.

    TVM 0.27's own serialization crashes with apache-tvm-ffi 0.1.15; text is parsed back without loss, which
    the receiver checks.
    """

    def __init__(self, func: tvm.tirx.PrimFunc) -> None:
        self.func = func

    def __reduce__(self) -> tuple[object, ...]:
        return _from_text, (self.func.script(), tvm_ffi.structural_hash(self.func))


def _from_text(text: str, expected: int) -> _Portable:
    func = expect(tvm.tirx.PrimFunc, tvm.script.from_source(text))
    if tvm_ffi.structural_hash(func) != expected:
        raise InvalidModuleError(f"TVMScript does not represent this function completely:\n{text}")
    return _Portable(func)


class _Work:
    """A model to be lowered, whose lowering releases it."""

    def __init__(self, name: str, source: Source) -> None:
        self.name = name
        self.source: Source | None = source

    def taken(self) -> tvm.IRModule:
        """The module, to which this object no longer refers."""
        source, self.source = self.source, None
        assert source is not None, "a model is lowered once"
        return source if isinstance(source, tvm.IRModule) else source()

    def __reduce__(self) -> tuple[object, ...]:
        if isinstance(self.source, tvm.IRModule):
            raise InvalidModuleError(
                f"module {self.name!r} cannot be sent to another process; pass a function that creates it "
                "there, such as functools.partial(load, path)"
            )
        return _Work, (self.name, self.source)


def _extracted(
    models: Iterable[tuple[str, Source]], target: HostTarget | None, executor: Executor | None
) -> Iterator[tuple[str, list[_Extract]]]:
    """The calls of each model, in the order of the models."""
    if executor is None:
        for name, source in models:
            work = _Work(name, source)
            del source  # otherwise this model would be alive while the next one is created
            yield name, _extract(work, target)
        return
    pending: deque[tuple[str, Future[list[_Extract]]]] = deque()
    for name, source in models:
        pending.append((name, executor.submit(_extract, _Work(name, source), target)))
        del source
        if len(pending) > _AHEAD:
            first, future = pending.popleft()
            yield first, future.result()
    while pending:
        first, future = pending.popleft()
        yield first, future.result()


def _extract(work: _Work, target: HostTarget | None) -> list[_Extract]:
    module = fused(work.taken(), target)
    # TVM's legalization leaves cycles of Python objects, which keep the weights of the model alive.
    gc.collect()
    nameless: dict[tvm.ir.GlobalVar, _Portable] = {}
    extracts = []
    for call in primitive_calls(module):
        callee = call.callee
        func = module[callee]
        if isinstance(func, tvm.tirx.PrimFunc):
            if callee not in nameless:
                nameless[callee] = _Portable(_without_name(func))
            extracts.append(_Extract(nameless[callee], callee.name_hint, call.site))
    return extracts


def _without_name(func: tvm.tirx.PrimFunc) -> tvm.tirx.PrimFunc:
    return func.without_attr("global_symbol") if func.attrs and "global_symbol" in func.attrs else func


def _entry_for(
    extract: _Extract, found: dict[int, _Gathered], hash_function: Callable[[tvm.tirx.PrimFunc], int]
) -> _Gathered:
    """The entry of the called function; a new one gets the first free key from its hash on."""
    func = extract.func.func
    key = hash_function(func) % _KEYS
    while key in found:
        if tvm_ffi.structural_equal(found[key].func, func):
            return found[key]
        key = (key + 1) % _KEYS
    found[key] = _Gathered(func, extract.name, {})
    return found[key]


@contextmanager
def _progress_bar(models: Iterable[tuple[str, Source]], wanted: bool) -> Iterator[Callable[[], None]]:
    """A function to call after each model, which advances the progress bar if there is one."""
    if not wanted:
        yield lambda: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("extracting", total=len(models) if isinstance(models, Sized) else None)
        yield lambda: bar.advance(task)
