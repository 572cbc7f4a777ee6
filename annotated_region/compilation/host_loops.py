"""Orders the loops of sums on the host, so that TVM's code for them reads memory row by row.

TVM lowers a product of matrices to three loops, of which the one over the sum is innermost, and compiles
them as they are: the inner loop jumps from row to row of the second matrix, and LLVM must not use vector
instructions for it, because it would have to add floats in another order::

    for i, j, k: C[i, j] += A[i, k] * B[k, j]

With the loop over columns innermost, all accesses are contiguous, and its iterations are independent. Rows
are taken in blocks, so that a row of B is read from memory once for several rows of C (loop interchange and
strip mining, as in Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008)::

    for i0, k, i1, j: C[8 * i0 + i1, j] += A[8 * i0 + i1, k] * B[k, j]

Each element still adds the same numbers in the same order, so the results are the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import tvm
from tvm import relax, s_tir, tirx

from annotated_region.compilation.memory_bounds import without_large_bounds
from annotated_region.functions.modules import updated
from annotated_region.tvm_adapter.nodes import PrimExpr, SBlock, SBlockRealize
from annotated_region.tvm_adapter.types import expect

__all__ = ["host_pipeline", "with_ordered_loops"]

_ROWS = 8
"""How many rows are taken at once: their part of the result stays in the first cache."""

_FEWEST_COLUMNS = 4
"""With fewer columns, the sum is better kept in a register."""

_KINDS_OF_HOSTS = ("llvm", "c")
_RESHAPES = "RewriteDataflowReshape"
_SHARING = "StaticPlanBlockMemory"


def host_pipeline(host: tvm.target.Target) -> str | tvm.transform.Pass:
    """TVM's own pipeline for Relax; for a processor without large bounds, and with ordered loops."""
    if str(host.kind.name) not in _KINDS_OF_HOSTS:
        return "default"

    @tvm.transform.module_pass(opt_level=0, name="annotated_region.OrderedLoops")
    def pipeline(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
        lowered = _lowered(without_large_bounds(mod))
        given = {name.name_hint for name in mod.get_global_vars()}
        made = {name.name_hint for name in lowered.get_global_vars()} - given
        return with_ordered_loops(lowered, made)

    return pipeline


def _lowered(mod: tvm.IRModule) -> tvm.IRModule:
    """A module behind TVM's own pipeline.

    Of a transposition to a product of symbolic extents, TVM 0.27.0 asks whether it is a reshape, and fails
    ("The padding factor (n + 4) * 4 is not divisible by n + 4"). The pass that asks saves copies, and is left
    out of the pipeline of such a module. So is the pass that shares memory, where there are branches: it
    gives memory that one branch of an `If` allocates to what runs behind it, also if another one was taken.
    """
    pipeline = relax.get_pipeline("default")
    with _without([_SHARING]) if _has_branches(mod) else nullcontext():
        try:
            lowered: tvm.IRModule = pipeline(mod)
        except tvm.error.InternalError as error:
            if f"Error in pass: {_RESHAPES}" not in str(error):
                raise
            with _without([_RESHAPES]):
                lowered = pipeline(mod)
    return lowered


def _has_branches(mod: tvm.IRModule) -> bool:
    """Whether a function has an `If`."""
    functions = (each for each in mod.functions.values() if isinstance(each, relax.Function))
    bindings = (each for func in functions for block in func.body.blocks for each in block.bindings)
    return any(isinstance(each.value, relax.If) for each in bindings)


def _without(passes: Sequence[str]) -> tvm.transform.PassContext:
    """The current context of passes, which runs some fewer."""
    given = tvm.transform.PassContext.current()
    return tvm.transform.PassContext(
        opt_level=given.opt_level,
        required_pass=list(given.required_pass),
        disabled_pass=[*given.disabled_pass, *passes],
        instruments=list(given.instruments or ()),
        config=dict(given.config.items()),
    )


def with_ordered_loops(mod: tvm.IRModule, names: Collection[str]) -> tvm.IRModule:
    """A module with the loops of sums ordered for contiguous access; `mod` stays unchanged.

    Parameters
    ----------
    mod
        A lowered module.
    names
        The functions to look at: those that TVM's legalization made. Somebody chose the loops of others.

    Notes
    -----
    A block is left as TVM made it where its last loop over elements has fewer than four of them, or does not
    run along the last axis of each tensor that is read.
    """
    functions = {
        name: func
        for name, func in mod.functions_items()
        if name.name_hint in names and isinstance(func, tirx.PrimFunc)
    }
    return updated(mod, {name: _ordered(func) for name, func in functions.items()})


@dataclass(frozen=True, slots=True)
class _LoopedBlock:
    """Loops, each of which contains the next one, around a block."""

    loops: tuple[tirx.For, ...]
    realized: SBlockRealize

    @property
    def block(self) -> SBlock:
        return self.realized.block

    @property
    def sums(self) -> int:
        """The number of loops of the sum."""
        return sum(iter_.iter_type == tirx.IterVar.CommReduce for iter_ in self.block.iter_vars)

    def is_plain(self) -> bool:
        """Whether the variables of the block are the loops, those of the sum innermost, for one sum."""
        kinds = [iter_.iter_type for iter_ in self.block.iter_vars]
        space = len(kinds) - self.sums
        expected = [tirx.IterVar.DataPar] * space + [tirx.IterVar.CommReduce] * self.sums
        variables = [loop.loop_var for loop in self.loops]
        return (
            0 < space < len(kinds) == len(variables)
            and kinds == expected
            and all(map(tirx.Var.same_as, variables, self.realized.iter_values))
            and all(loop.kind == tirx.ForKind.SERIAL and loop.thread_binding is None for loop in self.loops)
            and _is_true(self.realized.predicate)
            and self.block.init is not None
            and isinstance(self.block.body, tirx.BufferStore)
        )

    def gains(self) -> bool:
        """Whether there are several columns, which lie side by side wherever they are read."""
        column = self.block.iter_vars[-1 - self.sums]
        extent = self.loops[-1 - self.sums].extent
        if isinstance(extent, tirx.IntImm) and int(extent) < _FEWEST_COLUMNS:
            return False
        return not any(_uses(axis.min, column.var) for read in self.block.reads for axis in read.region[:-1])


def _ordered(func: tirx.PrimFunc) -> tirx.PrimFunc:
    if not isinstance(func.body, SBlockRealize):  # calls of packed functions, and loops without blocks
        return func
    nests = list(_nests(func.body.block.body, ()))
    if not any(nest.is_plain() and nest.gains() for nest in nests):
        return func
    schedule = s_tir.Schedule(tvm.IRModule({"main": func}))
    blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
    for nest, block in zip(nests, blocks, strict=True):
        if nest.is_plain() and nest.gains():
            _order(schedule, block, nest.sums)
    return expect(tirx.PrimFunc, schedule.mod["main"])


def _nests(statement: tirx.Stmt, around: tuple[tirx.For, ...]) -> Iterator[_LoopedBlock]:
    """The blocks of a statement with the loops around them, in their order."""
    if isinstance(statement, tirx.SeqStmt):
        for each in statement.seq:
            yield from _nests(each, around)
    elif isinstance(statement, tirx.For):
        yield from _nests(statement.body, (*around, statement))
    elif isinstance(statement, SBlockRealize):
        yield _LoopedBlock(around, statement)


def _order(schedule: s_tir.Schedule, block: s_tir.schedule.SBlockRV, sums: int) -> None:
    """The last loop over elements goes inside the sum, with a few of the loop before it."""
    loops = schedule.get_loops(block)
    *outer, column = loops[:-sums]
    inside = [column]
    if outer and _divides(_ROWS, schedule.get(outer[-1]).extent):
        _row, inner = schedule.split(outer[-1], [None, _ROWS])
        inside = [inner, column]
    schedule.reorder(*loops[-sums:], *inside)
    schedule.decompose_reduction(block, loops[-sums])


def _divides(number: int, extent: PrimExpr) -> bool:
    return isinstance(extent, tirx.IntImm) and int(extent) % number == 0


def _is_true(predicate: PrimExpr) -> bool:
    return isinstance(predicate, tirx.IntImm) and bool(predicate.value)


def _uses(index: PrimExpr, variable: tirx.Var) -> bool:
    return any(variable.same_as(each) for each in tirx.analysis.undefined_vars(index))
