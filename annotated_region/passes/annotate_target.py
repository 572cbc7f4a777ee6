"""AnnotateTarget: writes what every target claims into the module, as annotations.

It runs first. Each op is shown to the rule of each target, and each pattern of each target is matched
everywhere, so claims overlap freely:

    x -> [conv2d] -> [add] -> [relu] -> softmax          claims of dnnl: conv2d; add; relu;
         '-------------------'                           the composite conv2d + add + relu
                                                         claims of tensorrt: all four

Nothing is decided here: MergeCompilerRegions makes the claims of each target as large as validity
allows, and ResolveConflicts gives every node to one target. What a target declines, and why, goes to
the report.

A call of a lowered function counts as the op, or the ops, that it is known to compute. Those calls that
a target claims are raised, so that regions hold ops; the others stay as they are:

    lv = R.call_tir(cls.conv2d, (x, w))      ->     lv = R.nn.conv2d(x, w, ...)             claimed
    lv1 = R.call_tir(cls.my_kernel, (lv,))          lv1 = R.call_tir(cls.my_kernel, (lv,))

A call of a composite that TVM's `FuseOpsByPattern` has made is opened, and the target in its name claims
its ops, all or none, as that composite:

    lv = cls.fused_relax_matmul_relax_add(x, w, b)    ->    lv_lv = R.matmul(x, w)
         # "Composite": "cublas.matmul_bias"                lv    = R.add(lv_lv, b)     claimed as one

What moves no data belongs to the claims around it: the fields of a tuple-valued op to the op, another
name for a value to what makes the value, a tuple that only one op uses to that op.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import tvm
from tvm import relax

from annotated_region.arguments import target_names
from annotated_region.checked import checked_class
from annotated_region.dataflow.graph import DEAD, NodeKind
from annotated_region.errors import SlowBackendWarning
from annotated_region.functions.modules import without_uncalled
from annotated_region.ids import NodeId
from annotated_region.notes import ClaimNote, DeclineNote, DeclineReason, Note, Refusal
from annotated_region.op_info.raising import LoweredCalls
from annotated_region.origins import described
from annotated_region.passes.module_pass import module_pass
from annotated_region.passes.region_pass import RegionPass, RegionsAndNotes
from annotated_region.passes.region_session import RegionSession
from annotated_region.regions.given_composites import GivenComposite, GivenComposites
from annotated_region.regions.node_region import ClaimedUnit, NodeRegion
from annotated_region.regions.op_names import op_name_of
from annotated_region.regions.raised_regions import with_calls_lowered, with_calls_raised
from annotated_region.regions.region_set import AnnotatedRegionSet
from annotated_region.targets.asking import refusal_by_rule
from annotated_region.targets.backend import backend_of
from annotated_region.targets.composite_attributes import composite_attributes
from annotated_region.targets.matching import Matcher, without_outranked
from annotated_region.targets.op_view import OpView
from annotated_region.targets.rules import patterns_of

__all__ = ["AnnotateTarget", "Granted"]

# Seconds that a target may take to claim its part of a function before a warning names it: some, and some for
# each node.
_PATIENCE, _PATIENCE_PER_NODE = 10.0, 0.02


class Granted(NamedTuple):
    """An op that a target is to claim whatever its rule answers: the target, the function and the binding."""

    target: str
    function: str
    name: str


@module_pass
@checked_class
@dataclass(frozen=True)
class AnnotateTarget(RegionPass):
    """Annotate everything that the given targets claim.

    Takes any well-formed module. Nodes that are annotated already are the user's word: no target claims
    them, and annotating twice changes nothing.

    Parameters
    ----------
    targets
        The names of the targets.
    granted
        Ops that targets claim whatever their rules answer, to find out what would come of it.

    Raises
    ------
    UsageError
        The targets are no texts.
    UnknownTargetError
        A target has no rule, pattern or backend.
    RuleError
        A rule or the check of a pattern failed.
    InvalidModuleError
        The module is not well formed.
    OpInfoError
        A PrimFunc carries malformed op info.

    Notes
    -----
    Calls each rule once an op and tries each pattern at each op of its root's name. Each distinct
    PrimFunc is looked at once in a process.
    """

    targets: str | Sequence[str]
    granted: frozenset[Granted] = field(default=frozenset(), kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "targets", tuple(target_names(self.targets)))
        for target in self.targets:
            backend_of(target)

    def run(
        self, mod: tvm.IRModule, context: tvm.ir.transform.PassContext, session: RegionSession
    ) -> tvm.IRModule:
        """Annotate all functions, and remove the functions whose calls were all raised."""
        return without_uncalled(mod, super().run(mod, context, session))

    def transform_regions(self, regions: AnnotatedRegionSet, mod: tvm.IRModule) -> RegionsAndNotes:
        """Add what the targets claim of one function."""
        given = GivenComposites.in_function(regions.func, mod)
        opened = with_calls_raised(regions, given.calls) if given.of else regions
        lowered = LoweredCalls.of(opened.func, mod)
        offered = with_calls_raised(opened, lowered) if lowered.bindings else opened
        claimant = _Claimant(offered, self.granted, given)
        claims = [claim for target in self.targets for claim in claimant.all_claims(target)]
        notes: list[Note] = [*claimant.claimed, *claimant.declined]
        claimed = offered.replaced_by([*offered.node_regions.values(), *claims]) if claims else offered
        if not lowered.bindings:
            return RegionsAndNotes(claimed, notes)
        chosen = _held(claimed, lowered)
        if len(chosen) == len(lowered.bindings):
            return RegionsAndNotes(claimed, notes)
        touched = chosen or claims
        return RegionsAndNotes(with_calls_lowered(claimed, lowered, chosen) if touched else opened, notes)


def _held(regions: AnnotatedRegionSet, calls: LoweredCalls) -> dict[relax.Var, None]:
    """The calls of which some op lies in a region."""
    nodes = regions.dataflow.nodes
    inside = {nodes[node].var for member in regions.node_regions.values() for node in member.nodes}
    held = (var for var, ops in calls.bindings.items() if any(op.var in inside for op in ops))
    return dict.fromkeys(held)


class _Claimant:
    """Collects the claims of targets on one function without annotations, and notes them."""

    def __init__(
        self, regions: AnnotatedRegionSet, granted: frozenset[Granted], given: GivenComposites
    ) -> None:
        self.graph = regions.dataflow
        self.granted = granted
        self.given = {
            tuple(node for each in given.calls.bindings[var] for node in self.numbers_of(each.var)): composite
            for var, composite in given.of.items()
        }
        self.taken = {node for member in regions.node_regions.values() for node in member.nodes}
        self.claimed: list[ClaimNote] = []
        self.declined: list[DeclineNote] = []
        self.matcher = Matcher(self.graph)

    def all_claims(self, target: str) -> list[NodeRegion]:
        """The claims of one target, with a warning that names it if they take unreasonably long."""
        start = time.monotonic()
        claims = list(self.claims(target))
        seconds = time.monotonic() - start
        nodes = len(self.graph.nodes)
        if seconds > _PATIENCE + nodes * _PATIENCE_PER_NODE:
            warnings.warn(
                f"the rules and patterns of {target!r} took {seconds:.0f} s for the {nodes} nodes of "
                f"{self.graph.name}; leave this target out, or tell its author",
                SlowBackendWarning,
                stacklevel=2,
            )
        return claims

    def claims(self, target: str) -> Iterator[NodeRegion]:
        """The claims of one target: single ops in program order, composites, those that were made before."""
        covered: set[NodeId] = set()
        declined: dict[NodeId, Refusal] = {}
        given = {nodes: each for nodes, each in self.given.items() if each.target == target}
        held = self.taken.union(*given)
        for number, node in self.graph.numbered():
            if number in held or node.kind not in (NodeKind.OPERATION, NodeKind.BOUNDARY):
                continue
            refusal = self.ask_rule(target, number)
            if refusal and Granted(target, self.graph.name, node.var.name) not in self.granted:
                declined[number] = refusal
                continue
            covered.add(number)
            self.claimed.append(ClaimNote(node.var, target, op_name_of(node.value)))
            yield NodeRegion(target, self.with_structure((number,)))
        yield from self.composites(target, held, covered, declined)
        yield from self.composites_given(target, given, covered, declined)
        self.declined += [
            DeclineNote(self.graph.nodes[number].var, target, refusal)
            for number, refusal in declined.items()
            if number not in covered
        ]

    def composites(
        self, target: str, held: set[NodeId], covered: set[NodeId], declined: dict[NodeId, Refusal]
    ) -> Iterator[NodeRegion]:
        """The matches of the patterns of `target`; adds their nodes to `covered`, and why to `declined`."""
        matches = self.matcher.matches(patterns_of(target))
        for match in without_outranked(each for each in matches if held.isdisjoint(each.nodes)):
            if match.refusal:
                declined[match.root] = match.refusal
                continue
            covered.update(match.nodes)
            yield self.composite(target, match.pattern.name, match.nodes)

    def composites_given(
        self,
        target: str,
        given: Mapping[tuple[NodeId, ...], GivenComposite],
        covered: set[NodeId],
        declined: dict[NodeId, Refusal],
    ) -> Iterator[NodeRegion]:
        """The composites of `target` that the module came with; adds as `composites` does."""
        known = composite_attributes(self.graph, target)
        for nodes, composite in given.items():
            if not self.taken.isdisjoint(nodes):
                continue
            if dict(known(composite.name, nodes)) != dict(composite.attributes):
                names = ", ".join(composite.attributes)
                refusal = Refusal(DeclineReason.UNKNOWN_ATTRIBUTES, names, composite.name)
                declined.update(dict.fromkeys(nodes, refusal))
                continue
            covered.update(nodes)
            yield self.composite(target, composite.name, nodes)

    def composite(self, target: str, name: str, nodes: tuple[NodeId, ...]) -> NodeRegion:
        """The claim of a composite, noted."""
        variables = (self.graph.nodes[number].var for number in nodes)
        self.claimed += [ClaimNote(var, target, name) for var in variables]
        return NodeRegion(target, self.with_structure(nodes), (ClaimedUnit(nodes, name),))

    def numbers_of(self, var: relax.Var) -> tuple[NodeId, ...]:
        """The number of the node that a variable is bound to, unless it is a literal."""
        number = self.graph.number_of(var)
        is_node = number is not None and self.graph.nodes[number].kind is not NodeKind.LITERAL
        return (number,) if is_node and number is not None else ()

    def ask_rule(self, target: str, number: NodeId) -> Refusal | None:
        """Why `target` declines a node; None if it claims it."""
        node = self.graph.nodes[number]
        if node.kind is NodeKind.BOUNDARY:
            return Refusal(DeclineReason.NEVER_OFFLOADED)
        view = OpView.of(node.value)
        if view is None:
            return Refusal(DeclineReason.NOT_AN_OP)
        return refusal_by_rule(target, view, f"{described(node.var)} in {self.graph.name}")

    def with_structure(self, nodes: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
        """`nodes` and what belongs to them: fields and other names behind, tuples before."""
        inside = dict.fromkeys(nodes)
        for number in nodes:
            for edge in self.graph.into[number]:
                if self.belongs_before(edge.producer, inside):
                    inside[edge.producer] = None
        work = list(nodes)
        while work:
            for edge in self.graph.out_of[work.pop()]:
                if edge.consumer not in inside and self.belongs_behind(edge.consumer, nodes[0]):
                    inside[edge.consumer] = None
                    work.append(edge.consumer)
        return tuple(sorted(inside))

    def belongs_before(self, producer: NodeId, inside: dict[NodeId, None]) -> bool:
        """Whether a node is a tuple of the same block that only nodes inside use."""
        if producer < 0 or producer in self.taken:
            return False
        node = self.graph.nodes[producer]
        return (
            isinstance(node.value, relax.Tuple)
            and node.scope == self.graph.nodes[next(iter(inside))].scope
            and all(edge.consumer in inside or edge.consumer == DEAD for edge in self.graph.out_of[producer])
        )

    def belongs_behind(self, consumer: NodeId, first: NodeId) -> bool:
        """Whether a node is a field of, or another name for, what a node of the same block makes."""
        if consumer < 0 or consumer in self.taken:
            return False
        node = self.graph.nodes[consumer]
        moves_nothing = isinstance(node.value, relax.TupleGetItem | relax.Var)
        return moves_nothing and node.scope == self.graph.nodes[first].scope
