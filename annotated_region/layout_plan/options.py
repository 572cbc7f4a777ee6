"""Enumerates the layout options of each op by propagating layouts along the ops of a block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tvm import relax

from annotated_region.layout_plan.described_call import changed_call, result_extents
from annotated_region.layout_plan.reading import ComputingBinding
from annotated_region.layout_plan.views import MisfitError, Storage, TensorView, same_extent
from annotated_region.layouts import (
    Layout,
    LayoutChange,
    data_layout_of,
    layout_rule_of,
    with_kernel,
)
from annotated_region.layouts.image_rules import PLAIN
from annotated_region.op_info.info import OpInfo
from annotated_region.op_info.kinds import OpKind
from annotated_region.tvm_adapter.types import tensor_type

__all__ = ["Demand", "Demands", "StepOption", "options_of", "use_rank"]

MOST_OPTIONS = 16
"""The most layouts tried for one op, not counting those that are demanded."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A required layout of an op: of its data, and of its kernel if that matters."""

    data: str
    kernel: str | None = None

    @staticmethod
    def of(name: str) -> Demand:
        """Parse a demand such as ``"NHWC"`` or ``"NHWC/OHWI"``."""
        data, _, kernel = name.partition("/")
        return Demand(data, kernel or None)

    def and_also(self, other: Demand) -> Demand | None:
        """The demand that implies both; None if they contradict each other."""
        kernels = {kernel for kernel in (self.kernel, other.kernel) if kernel is not None}
        if self.data != other.data or len(kernels) > 1:
            return None
        return Demand(self.data, self.kernel or other.kernel)


Demands = Callable[[OpInfo], Sequence[Demand]]
"""Returns the layouts of which an op must have one; empty if it is free."""

_Use = tuple[int, Storage]


@dataclass(frozen=True, slots=True)
class StepOption:
    """One way to run a step.

    Attributes
    ----------
    change
        The op in another layout; None to keep it.
    uses
        The storage of each root that it reads or produces, except those computed from constants.
    """

    change: LayoutChange | None
    uses: frozenset[_Use]


def options_of(
    steps: Sequence[ComputingBinding], fixed: Iterable[TensorView], demands: Demands
) -> list[tuple[StepOption, ...]]:
    """The options of each step; the first one keeps the step unchanged, unless demands exclude that.

    Parameters
    ----------
    steps
        The steps of a block.
    fixed
        The values that enter or leave the block, in their original storage.
    demands
        The layouts that targets demand of an op.

    Notes
    -----
    Every option is checked by TVM's type inference, O(steps x layouts) times.
    """
    found = [_Found(step) for step in steps]
    spread = _Spread(found)
    for view in fixed:
        spread.offer([(view.root.number, view.storage())])
    for one in found:
        one.keep_demanded(demands)
        for option in one.options:
            spread.offer(option.uses)
    spread.run()
    return [tuple(one.options) for one in found]


class _Found:
    """The options of one step found so far."""

    def __init__(self, step: ComputingBinding) -> None:
        self.step = step
        self.options = [StepOption(None, _uses_as_it_was(step))]
        self.rule = None if step.call is None else layout_rule_of(step.call.info.name)
        self.is_open = self.rule is not None
        self.tried: set[Layout] = set()

    def keep_demanded(self, demands: Demands) -> None:
        """Keep only options that meet a demand, if there are any."""
        call = self.step.call
        wanted = demands(call.info) if call is not None else ()
        met = [option for demand in wanted for option in self._meeting(demand)]
        if met:
            self.options, self.is_open = list(dict.fromkeys(met)), False

    def _meeting(self, demand: Demand) -> list[StepOption]:
        """The option that meets a demand, if possible."""
        assert self.step.call is not None
        info = self.step.call.info
        kernel = str(info.attrs.get("kernel_layout", "")) or None
        old = data_layout_of(info)
        if old == demand.data and demand.kernel in (None, kernel):
            return self.options[:1]
        layout = None if old is None else Layout.between(old, demand.data)
        change = None if layout is None or self.rule is None else self.rule(info, layout)
        if change is not None and demand.kernel is not None:
            change = with_kernel(change, demand.kernel)
        option = None if change is None else _possible(self.step, change)
        return [] if option is None else [option]

    def leading(self) -> list[TensorView]:
        """The views that the layout passed to the rule refers to."""
        views = [view for view in (*self.step.operands, *self.step.results) if view is not None]
        call = self.step.call
        assert call is not None
        if call.info.kind is OpKind.ELEMENTWISE or not self.step.operands:
            first = self.step.results[0]
        else:
            first = self.step.operands[0]
        return [view for view in views if first is not None and len(view.axes) == len(first.axes)]

    def try_storage(self, number: int, storage: Storage) -> list[StepOption]:
        """Add the options in which a root has a given storage; returns the new ones."""
        new = []
        for view in self.leading():
            if view.root.number == number:
                for layout in (*_layouts_of_view(view, storage), *self._named(view, storage)):
                    new += self._try(layout)
        return new

    def _named(self, view: TensorView, storage: Storage) -> list[Layout]:
        """The named layouts that give the root this storage; they differ only in axes of extent one."""
        assert self.step.call is not None
        old = data_layout_of(self.step.call.info) or ""
        layouts = [Layout.between(old, name) for name in PLAIN if sorted(name) == sorted(old)]
        return [layout for layout in layouts if layout is not None and view.storage(layout) == storage]

    def _try(self, layout: Layout) -> list[StepOption]:
        call = self.step.call
        if layout in self.tried or len(self.tried) >= MOST_OPTIONS or call is None or self.rule is None:
            return []
        self.tried.add(layout)
        change = None if layout.is_identity else self.rule(call.info, layout)
        option = None if change is None else _possible(self.step, change)
        if option is None or option.uses in [known.uses for known in self.options]:
            return []
        self.options.append(option)
        return [option]


class _Spread:
    """Propagates storages of roots to steps that can adopt them, until a fixpoint."""

    def __init__(self, found: Sequence[_Found]) -> None:
        self.waiting: list[_Use] = []
        self.offered: set[_Use] = set()
        self.open: dict[int, list[_Found]] = {}
        for one in found:
            if one.is_open:
                for number in dict.fromkeys(view.root.number for view in one.leading()):
                    self.open.setdefault(number, []).append(one)

    def offer(self, uses: Iterable[_Use]) -> None:
        """Enqueue new storages."""
        for use in sorted(uses, key=use_rank):
            if use not in self.offered:
                self.offered.add(use)
                self.waiting.append(use)

    def run(self) -> None:
        """Run until no new storage occurs."""
        for number, storage in self.waiting:  # grows while it is walked
            for one in self.open.get(number, ()):
                if one.is_open:
                    for option in one.try_storage(number, storage):
                        self.offer(option.uses)


def use_rank(use: _Use) -> tuple[int, list[tuple[int, int, int]]]:
    """A sort key of uses. Sets of them iterate in hash order, and the hash of None is an address."""
    number, storage = use
    return number, [(piece.axis, piece.low, piece.high or 0) for piece in storage]


def _uses_as_it_was(step: ComputingBinding) -> frozenset[_Use]:
    return frozenset(
        (view.root.number, view.storage())
        for view in (*step.operands, *step.results)
        if view is not None and not view.root.is_constant
    )


def _layouts_of_view(view: TensorView, storage: Storage) -> list[Layout]:
    """The layout of a view that gives its root this storage, if there is one."""
    try:
        return [view.layout(storage)]
    except MisfitError:
        return []


def _possible(step: ComputingBinding, change: LayoutChange) -> StepOption | None:
    """The option of a change; None if its types or axis boundaries do not fit."""
    try:
        return _typed(step, change)
    except MisfitError:
        return None


def _typed(step: ComputingBinding, change: LayoutChange) -> StepOption | None:
    assert step.call is not None
    operands = {}
    uses = set()
    for index, (operand, view) in enumerate(zip(step.call.operands, step.operands, strict=True)):
        assert view is not None
        layout = change.operands.get(index)
        if layout is not None and layout.rank < len(view.axes):
            return None
        shape = view.extents if layout is None else view.shape(layout)
        if shape is None:
            return None
        operands[index] = relax.Var("operand", relax.TensorType(shape, tensor_type(operand).dtype))
        if not view.root.is_constant:
            uses.add((view.root.number, view.storage(layout)))
    made = changed_call(change, operands, relax.BlockBuilder())
    if made is None or not _fits(step, change, made):
        return None
    for view, layout in zip(step.results, change.results, strict=True):
        assert view is not None
        uses.add((view.root.number, view.storage(layout)))
    return StepOption(change, frozenset(uses))


def _fits(step: ComputingBinding, change: LayoutChange, made: relax.Call) -> bool:
    """Whether the inferred result shapes are those that the change states."""
    if len(change.results) != len(step.results):
        return False
    wanted = [
        None if view is None else view.shape(layout) if layout is not None else view.extents
        for view, layout in zip(step.results, change.results, strict=True)
    ]
    found = result_extents(made.ty)
    if None in wanted or None in found or len(wanted) != len(found):
        return False
    pairs = [(list(one or ()), list(other or ())) for one, other in zip(wanted, found, strict=True)]
    return all(len(one) == len(other) and all(map(same_extent, one, other)) for one, other in pairs)
