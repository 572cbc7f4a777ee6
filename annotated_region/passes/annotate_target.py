"""AnnotateTarget: annotates the module with the claims of every target.

It runs right after preparation. Each target's rule is asked about each op, and each target's patterns are
matched everywhere, so claims may overlap:

    x -> [conv2d] -> [add] -> [relu] -> softmax          claims of dnnl: conv2d; add; relu;
         '-------------------'                           the composite conv2d + add + relu
                                                         claims of tensorrt: all four

This pass makes no placement decisions: MergeCompilerRegions merges the claims of each target into the
largest valid regions, and ResolveConflicts assigns every node to one target. Declined ops go to the
report, with the reason.

A call to a lowered function is treated as the op, or ops, that it is known to compute. Calls that a
target claims are raised, so that regions hold ops; other calls are unchanged:

    lv = R.call_tir(cls.conv2d, (x, w))      ->     lv = R.nn.conv2d(x, w, ...)             claimed
    lv1 = R.call_tir(cls.my_kernel, (lv,))          lv1 = R.call_tir(cls.my_kernel, (lv,))

A call to a composite function made by TVM's `FuseOpsByPattern` is inlined, and the target named in its
``Composite`` attribute claims either all of its ops, as that composite, or none:

    lv = cls.fused_relax_matmul_relax_add(x, w, b)    ->    lv_lv = R.matmul(x, w)
         # "Composite": "cublas.matmul_bias"                lv    = R.add(lv_lv, b)     claimed as one

Bindings that move no data join an adjacent claim: the fields of a tuple-valued op and aliases of a value
join the claim of the producer, a tuple with a single user joins the claim of that user.
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

# Seconds that the rules and patterns of a target may take per function before a warning names the target:
# a constant, and an allowance per node.
_PATIENCE, _PATIENCE_PER_NODE = 10.0, 0.02


class Granted(NamedTuple):
    """An op that a target claims regardless of its rule: the target, the function and the binding."""

    target: str
    function: str
    name: str


@module_pass
@checked_class
@dataclass(frozen=True)
class AnnotateTarget(RegionPass):
    """Annotate everything that the given targets claim.

    Takes any well-formed module. Existing annotations are kept, and no target claims the nodes inside
    them; the pass is idempotent.

    Parameters
    ----------
    targets
        The names of the targets.
    granted
        Ops that targets claim regardless of their rules, for what-if analysis.

    Raises
    ------
    UsageError
        The targets are not strings.
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
    Calls each rule once per op, and tries each pattern at every op with the name of its root. Each distinct
    PrimFunc is analyzed once per process.
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
        """Annotate all functions, and remove functions that lost their last call to raising."""
        return without_uncalled(mod, super().run(mod, context, session))

    def transform_regions(self, regions: AnnotatedRegionSet, mod: tvm.IRModule) -> RegionsAndNotes:
        """Add the claims of all targets on one function."""
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
    """The raised calls with at least one op inside a region."""
    nodes = regions.dataflow.nodes
    inside = {nodes[node].var for member in regions.node_regions.values() for node in member.nodes}
    held = (var for var, ops in calls.bindings.items() if any(op.var in inside for op in ops))
    return dict.fromkeys(held)


def _is_answer(refusal: Refusal | None) -> bool:
    """Whether a rule or a check declined with a reason of its own."""
    return refusal is not None and refusal.reason in (DeclineReason.ANSWERED, DeclineReason.UNEXPLAINED)


class _Claimant:
    """Collects and notes the claims of targets on the nodes of one function outside existing regions."""

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
        """The claims of one target; warns if its rules and patterns are unreasonably slow."""
        start = time.monotonic()
        claims = list(self.claims(target))
        seconds = time.monotonic() - start
        nodes = len(self.graph.nodes)
        if seconds > _PATIENCE + nodes * _PATIENCE_PER_NODE:
            warnings.warn(
                f"the rules and patterns of {target!r} took {seconds:.0f} s for the {nodes} nodes of "
                f"{self.graph.name}; remove this target, or report the problem to its author",
                SlowBackendWarning,
                stacklevel=2,
            )
        return claims

    def claims(self, target: str) -> Iterator[NodeRegion]:
        """The claims of one target: single ops in program order, pattern matches, preexisting composites."""
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
        """The matches of the patterns of `target`.

        Adds the nodes of accepted matches to `covered`, and the roots of refused ones to `declined`.
        """
        matches = self.matcher.matches(patterns_of(target))
        for match in without_outranked(each for each in matches if held.isdisjoint(each.nodes)):
            if match.refusal:
                # The answer of the rule says more than that a pattern does not fit the surroundings.
                if _is_answer(match.refusal) or not _is_answer(declined.get(match.root)):
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
        """The composites of `target` already in the module; updates `covered` and `declined` likewise."""
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
        """The claim of a composite; records a `ClaimNote` for each of its nodes."""
        variables = (self.graph.nodes[number].var for number in nodes)
        self.claimed += [ClaimNote(var, target, name) for var in variables]
        return NodeRegion(target, self.with_structure(nodes), (ClaimedUnit(nodes, name),))

    def numbers_of(self, var: relax.Var) -> tuple[NodeId, ...]:
        """The node that defines a variable, as a tuple; empty for a literal."""
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
        return refusal_by_rule(target, view, lambda: f"{described(node.var)} in {self.graph.name}")

    def with_structure(self, nodes: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
        """`nodes` with their structure nodes: tuples before them, tuple fields and aliases after them."""
        inside = dict.fromkeys(nodes)
        for number in nodes:
            for edge in self.graph.into[number]:
                if self.belongs_before(edge.producer, inside):
                    inside[edge.producer] = None
        work = list(nodes)
        while work:
            for edge in self.graph.out_of[work.pop()]:
                if edge.consumer not in inside and self.belongs_after(edge.consumer, nodes[0]):
                    inside[edge.consumer] = None
                    work.append(edge.consumer)
        return tuple(sorted(inside))

    def belongs_before(self, producer: NodeId, inside: dict[NodeId, None]) -> bool:
        """Whether a node is a tuple of the same block whose users are all in `inside`."""
        if producer < 0 or producer in self.taken:
            return False
        node = self.graph.nodes[producer]
        return (
            node.kind is NodeKind.STRUCTURE
            and isinstance(node.value, relax.Tuple)
            and node.scope == self.graph.nodes[next(iter(inside))].scope
            and all(edge.consumer in inside or edge.consumer == DEAD for edge in self.graph.out_of[producer])
        )

    def belongs_after(self, consumer: NodeId, first: NodeId) -> bool:
        """Whether a node is a tuple field or an alias in the same block as `first`."""
        if consumer < 0 or consumer in self.taken:
            return False
        node = self.graph.nodes[consumer]
        return (
            node.kind is NodeKind.STRUCTURE
            and isinstance(node.value, relax.TupleGetItem | relax.Var)
            and node.scope == self.graph.nodes[first].scope
        )
