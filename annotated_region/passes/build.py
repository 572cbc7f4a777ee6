"""build: compiles a partitioned module; regions that a code generator refuses go to other targets."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import tvm
from tvm import relax

from annotated_region.checked import checked
from annotated_region.compilation.code_generation import external_functions
from annotated_region.compilation.executable import LinkedExecutable, targets_of
from annotated_region.errors import RegionRejectedError, RegionRejectedWarning
from annotated_region.functions.inlining import inline_functions, is_inlinable, opened
from annotated_region.passes.host_repairs.repairing import compile_for_host
from annotated_region.passes.partition_graph import PartitionGraph
from annotated_region.passes.pipeline import placement_passes
from annotated_region.passes.region_session import RegionSession
from annotated_region.policies.policy import Policy
from annotated_region.progress import progress_line
from annotated_region.surroundings import require_sane_threads
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import expect

__all__ = ["build"]

External = tuple[tvm.ir.GlobalVar, relax.Function]


@checked
def build(
    mod: tvm.IRModule,
    target: str | tvm.target.Target = "llvm",
    options: Mapping[str, Mapping[str, object]] | None = None,
    *,
    alternatives: Sequence[str] | None = None,
    policy: Policy | None = None,
    progress: bool = True,
) -> LinkedExecutable:
    """Build a partitioned module into an executable that runs.

    Parameters
    ----------
    mod
        The result of `partition`, or any other module; it need not have external functions.
    target
        TVM's target for the host code.
    options
        For each backend, the options of its code generator, such as ``{"dnnl": {"precision": "bf16"}}``.
    alternatives
        The targets that a refused region is offered to, in order of preference; by default all targets of
        the module. Ops that none of them claims run on the host.
    policy
        How a refused region is placed again; by default `Priority` in the order of `alternatives`.
    progress
        Whether to show a line with what is compiled and how many functions are left, here and in
        ``export_library``, if the standard error is a terminal.

    Warns
    -----
    RegionRejectedWarning
        A code generator refuses a region (`RegionRejectedError`); the warning says where its ops go.

    Raises
    ------
    UsageError
        An argument has the wrong type, such as a list where the one host target is expected.
    BackendUnavailableError
        A target of the module cannot be built for on this machine, or the environment asks TVM for more
        threads than any machine has; the message says what to do.
    UnknownTargetError
        An external function, or an entry of `options`, is for a target that is not registered.
    InvalidModuleError
        The module is not well formed.
    CodegenError
        A code generator cannot translate one of its functions.
    BuildError
        The result shape of an external function cannot be inferred from its arguments; or TVM cannot compile
        the host code, even after `host_repairs`: the message names the op.

    Examples
    --------
    >>> executable = ar.build(partitioned)                          # doctest: +SKIP
    >>> machine = relax.VirtualMachine(executable, tvm.cpu())       # doctest: +SKIP
    """
    require_sane_threads()
    refused: dict[str, set[str]] = {}
    while True:
        try:
            with progress_line(_steps(mod), progress):
                executable = compile_for_host(mod, target, options)
            executable.progress = progress
            return executable
        except RegionRejectedError as error:
            others = targets_of(mod) if alternatives is None else alternatives
            mod = _offered_again(mod, error, others, policy, refused)


def _steps(mod: tvm.IRModule) -> int:
    """The external functions, and one step for all functions of the host."""
    count = sum(map(len, external_functions(mod).values()))
    return count + 1 if count > 1 else count


def _offered_again(
    mod: tvm.IRModule,
    error: RegionRejectedError,
    others: Sequence[str],
    policy: Policy | None,
    refused: dict[str, set[str]],
) -> tvm.IRModule:
    """The module with a refused region placed again, on targets that have not refused its ops yet.

    `refused` maps the symbol of a region to the targets that refused its ops, and is updated. Each refusal
    removes one target from the candidates of some ops, so this terminates.
    """
    name, func = _refused_region(mod, error)
    owner = str(func.attrs["Codegen"])
    lost = refused.setdefault(str(func.attrs["global_symbol"]), set()) | {owner}
    known = set(mod.get_global_vars())
    host = mod.clone()
    host.update_func(name, opened(func, _constants_given(mod, name, len(func.params))))
    passes = placement_passes([each for each in dict.fromkeys(others) if each not in lost], policy)
    session = RegionSession(only=[name.name_hint])
    placed = session.with_annotations(session.run([*passes, PartitionGraph()], host))
    takers = {symbol: placed[symbol] for symbol in placed.get_global_vars() if symbol not in known}
    refused.update((str(taker.attrs["global_symbol"]), set(lost)) for taker in takers.values())
    _warn(error, owner, [str(taker.attrs["Codegen"]) for taker in takers.values()])
    return inline_functions(placed, {name: expect(relax.Function, placed[name])})


def _refused_region(mod: tvm.IRModule, error: RegionRejectedError) -> External:
    for functions in external_functions(mod).values():
        for name, func in functions.items():
            if str(func.attrs["global_symbol"]) == error.symbol and is_inlinable(func):
                return name, func
    raise error


def _constants_given(mod: tvm.IRModule, name: tvm.ir.GlobalVar, count: int) -> dict[int, relax.Expr]:
    """By parameter index, the constant that every call of a function passes for it."""
    calls: list[relax.Call] = []

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, relax.Call) and expr.op == name:
            calls.append(expr)

    for func in mod.functions.values():
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(func, visit)
    return {
        index: first
        for index in range(count)
        for first, *more in [[call.args[index] for call in calls]]
        if isinstance(first, Constant) and all(each.same_as(first) for each in more)
    }


def _warn(error: RegionRejectedError, owner: str, takers: Sequence[str]) -> None:
    who = f"{', '.join(dict.fromkeys(takers))} and, for other ops, the host" if takers else "the host"
    reason = f"target {owner!r} refuses {error.symbol}; {who} will run it instead ({error})"
    warnings.warn(reason, RegionRejectedWarning, stacklevel=5)
