"""IncrementalPartition: `annotated_region.partition` for a module that is edited and partitioned again.

The result has the same bytes as that of `partition`. The parts of the function are kept between calls (see
`annotated_region.incremental.cuts`). A part whose bindings are unchanged objects reuses its regions and
external functions; all others run through the passes as separate functions
(`annotated_region.incremental.stretch`).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import tvm
from tvm import relax

from annotated_region.arguments import target_names
from annotated_region.checked import checked, checked_class
from annotated_region.collector import paused_collector
from annotated_region.expr_map import ExprMap, ExprSet
from annotated_region.functions.equal_functions import FunctionContents
from annotated_region.functions.function_library import FunctionLibrary
from annotated_region.functions.modules import require_well_formed
from annotated_region.functions.rewriting import typed
from annotated_region.incremental.cuts import Separable, reads_only
from annotated_region.incremental.part import FunctionPart, is_same
from annotated_region.incremental.source import Source, reason_against_bindings, source_of
from annotated_region.incremental.stretch import NoticingPolicy, Stretch
from annotated_region.incremental.window import Window
from annotated_region.passes.partition_graph import NamesOfRegions
from annotated_region.passes.pipeline import partition, passes_before_functions
from annotated_region.policies.policy import Policy, Priority
from annotated_region.surroundings import require_sane_threads
from annotated_region.targets.backend import backend_of
from annotated_region.targets.rules import patterns_of, rules_of

__all__ = ["IncrementalPartition", "IncrementalWork"]


@dataclass(frozen=True, slots=True)
class IncrementalWork:
    """Statistics of the last call.

    Attributes
    ----------
    kept
        The number of bindings whose regions were reused.
    done
        The number of bindings that went through the passes.
    why_whole
        The reason why the whole function was partitioned; empty if it was not, or at the first call.
    """

    kept: int = 0
    done: int = 0
    why_whole: str = ""


@dataclass(frozen=True, slots=True)
class _State:
    """The state between calls."""

    source: Source
    known: tuple[object, ...]
    parts: Sequence[FunctionPart]
    contents: FunctionContents


@checked_class
@dataclass(slots=True)
class IncrementalPartition:
    """Partitions successive versions of a module, and repeats only the parts that changed.

    Each call returns the same bytes as ``partition(mod, targets, policy, ...)``. Its module is compared with
    that of the previous call: a binding is unchanged if it binds the same variable object to the same value
    object. TVM's mutators keep such objects; for a model that is imported again, nothing can be reused.

    Parameters
    ----------
    targets, policy, prepare, cross_compile, min_work, names
        As for `annotated_region.partition`.

    Attributes
    ----------
    work
        The statistics of the last call.

    Notes
    -----
    The object keeps the last module and its external functions alive. Parts are separated by ops that no
    target claims and after which only their own result is live. A function without such ops is a single part.
    Functions with symbolic shapes or several blocks, and modules with several functions, are always
    partitioned as a whole; `work` has the reason.

    Examples
    --------
    >>> import annotated_region as ar
    >>> again = ar.IncrementalPartition(["dnnl"])
    >>> first = again(mod)  # doctest: +SKIP
    >>> second = again(edited)  # doctest: +SKIP
    >>> again.work  # doctest: +SKIP
    IncrementalWork(kept=9980, done=20, why_whole='')
    """

    targets: str | Sequence[str]
    policy: Policy | None = None
    prepare: bool = field(default=True, kw_only=True)
    cross_compile: bool = field(default=False, kw_only=True)
    min_work: Mapping[str, float] | None = field(default=None, kw_only=True)
    names: NamesOfRegions = field(default="places", kw_only=True)
    work: IncrementalWork = field(default_factory=IncrementalWork, init=False)
    _state: _State | None = field(default=None, init=False, repr=False)

    @checked
    @paused_collector()
    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        """The partitioned module.

        Raises
        ------
        AnnotatedRegionError
            As `annotated_region.partition` does.
        """
        require_sane_threads()
        source = source_of(mod)
        reason = source if isinstance(source, str) else self._reason()
        if isinstance(source, str) or reason:
            return self._whole(mod, reason)
        known, state = self._known(), self._state
        if state is not None and state.known == known and state.source.frame_equals(source):
            parts, done, reason = self._parts(source, state)
        else:
            parts, done, reason = (
                [],
                0,
                "" if state is None else "the targets, or something other than bindings, changed",
            )
        if not parts:
            require_well_formed(mod)
            everything = Window(source, source.bindings, None, is_last=True)
            found = self._stretch().parts(everything)
            if isinstance(found, str):
                return self._whole(mod, found)
            parts, done = found, len(source.bindings)
        if _share_names(parts):
            return self._whole(mod, "two parts have names in common")
        contents = FunctionContents(None if state is None else state.contents)
        written = _written(mod, source, parts, contents)
        contents.forget()
        self._state = _State(source, known, parts, contents)
        self.work = IncrementalWork(len(source.bindings) - done, done, reason)
        return written

    def _whole(self, mod: tvm.IRModule, reason: str) -> tvm.IRModule:
        self._state = None
        size = sum(len(block.bindings) for func in mod.functions.values() for block in _blocks(func))
        self.work = IncrementalWork(0, size, reason)
        return partition(
            mod,
            self.targets,
            self.policy,
            prepare=self.prepare,
            cross_compile=self.cross_compile,
            min_work=self.min_work,
            names=self.names,
        )

    def _reason(self) -> str:
        """Why functions cannot be processed in parts, except for reasons in the function itself."""
        context = tvm.transform.PassContext.current()
        if context.instruments or context.disabled_pass or context.required_pass:
            return "a PassContext watches, disables or requires passes"
        limited = [name for name in target_names(self.targets) if backend_of(name).max_regions is not None]
        return f"{limited[0]!r} has a limit on the number of regions" if limited else ""

    def _known(self) -> tuple[object, ...]:
        """The inputs other than the module: if one changed, nothing is reused."""
        names = target_names(self.targets)
        claims = [(backend_of(name), tuple(rules_of(name).items()), patterns_of(name)) for name in names]
        return (*claims, tuple(sorted(os.environ.items())))

    def _stretch(self) -> Stretch:
        names = target_names(self.targets)
        noticing = NoticingPolicy(Priority(names) if self.policy is None else self.policy)
        steps = passes_before_functions(
            names,
            noticing,
            prepare=self.prepare,
            cross_compile=self.cross_compile,
            min_work=self.min_work,
        )
        return Stretch(steps, noticing, self.names == "places", Separable(names))

    def _parts(self, source: Source, state: _State) -> tuple[list[FunctionPart], int, str]:
        """The parts of an edited function, the number of repeated bindings, and why there are no parts."""
        if len(ExprSet(binding.var for binding in source.bindings)) < len(source.bindings):
            return [], 0, "a variable is bound twice"
        parts: list[FunctionPart] = []
        done = 0
        stretch = self._stretch()
        for piece in _pieces(source, state.parts):
            if isinstance(piece, FunctionPart):
                parts.append(piece)
                continue
            inputs = [*source.func.params, *([piece.head.var] if piece.head is not None else [])]
            reason = reason_against_bindings(piece.bindings)
            if not reason and not reads_only(piece.bindings, iter(inputs)):
                reason = "an edited binding reads a value from before the previous cut"
            found = reason or stretch.parts(piece)
            if isinstance(found, str):
                return [], 0, found
            parts += found
            done += len(piece.bindings)
        return parts, done, ""


def _blocks(func: tvm.ir.BaseFunc) -> Sequence[relax.BindingBlock]:
    is_sequence = isinstance(func, relax.Function) and isinstance(func.body, relax.SeqExpr)
    return list(func.body.blocks) if is_sequence else []  # type: ignore[attr-defined]


def _pieces(source: Source, known: Sequence[FunctionPart]) -> Iterator[FunctionPart | Window]:
    """The unchanged parts of a function, and windows over the bindings between them."""
    kept: ExprMap[_Kept] = ExprMap()
    heads = (None, *(part.bindings[-1] for part in known))
    for part, head in zip(known, heads, strict=False):
        kept[part.bindings[0].var] = _Kept(part, head, part is known[-1])
    open_from, number = 0, 0
    while number < len(source.bindings):
        found = kept.get(source.bindings[number].var)
        if found is None or not found.stands_at(number, source.bindings):
            number += 1
            continue
        yield from _window(source, open_from, number)
        yield found.part
        open_from = number = number + len(found.part.bindings)
    yield from _window(source, open_from, len(source.bindings))


@dataclass(frozen=True, slots=True)
class _Kept:
    """A part of the previous call, the binding before it, and whether it was the last part."""

    part: FunctionPart
    head: relax.Binding | None
    is_last: bool

    def stands_at(self, start: int, bindings: Sequence[relax.Binding]) -> bool:
        """Whether a function contains this part, after the same binding, starting at a given index."""
        stop = start + len(self.part.bindings)
        if stop > len(bindings) or (stop == len(bindings)) != self.is_last:
            return False
        if (start == 0) != (self.head is None):
            return False
        if self.head is not None and not is_same(bindings[start - 1], self.head):
            return False
        return all(map(is_same, bindings[start:stop], self.part.bindings))


def _window(source: Source, start: int, stop: int) -> Iterator[Window]:
    if start < stop:
        head = source.bindings[start - 1] if start else None
        yield Window(source, source.bindings[start:stop], head, stop == len(source.bindings))


def _share_names(parts: Sequence[FunctionPart]) -> bool:
    """Whether two parts have, or requested during preparation, the same name."""
    counts = Counter(name for part in parts for name in part.names)
    return any(count > 1 for count in counts.values())


def _written(
    mod: tvm.IRModule, source: Source, parts: Sequence[FunctionPart], contents: FunctionContents
) -> tvm.IRModule:
    library = FunctionLibrary(mod, contents)
    func = source.func
    bindings = [binding for part in parts for binding in part.written(library)]
    body = func.body
    block = relax.DataflowBlock(bindings, body.blocks[0].span)
    result = typed(relax.SeqExpr([block], body.body, body.span), body.ty)
    whole = relax.Function(func.params, result, func.ret_ty, func.is_pure, func.attrs, func.span)
    library.replace(source.name, whole)
    return library.module()
