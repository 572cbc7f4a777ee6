"""Certificates: orders that prove regions acyclic, and a checker that shares no code with the rest."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tvm import relax

from annotated_region.errors import OverlappingRegionsError, RegionCycleError
from annotated_region.ids import RegionId
from annotated_region.regions.region import AnnotatedRegion
from annotated_region.tvm_adapter.types import shape_vars_of

__all__ = ["Certificate", "check_certificate"]

Order = tuple[RegionId | relax.Var, ...]
"""Region ids, and the variables of the nodes that no region of the order holds."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """Orders of regions and host nodes in which every value is defined before it is used.

    Attributes
    ----------
    orders
        A disjoint set of regions has one order, of all of them. Regions that overlap cannot stand
        in one order; then there is one for each target, of its regions that overlap no other of its
        regions, and further ones that hold the rest.
    """

    orders: tuple[Order, ...]

    @property
    def order(self) -> Order:
        """The one order of a disjoint set.

        Raises
        ------
        OverlappingRegionsError
            The regions overlap, so that no single order holds them.
        """
        if len(self.orders) != 1:
            raise OverlappingRegionsError(
                f"overlapping regions have {len(self.orders)} orders, not one; run ResolveConflicts first, "
                "or read Certificate.orders"
            )
        return self.orders[0]


def check_certificate(
    func: relax.Function,
    regions: Iterable[AnnotatedRegion],
    certificate: Certificate,
    annotations: Collection[str] = ("relax.annotation.compiler_begin", "relax.annotation.compiler_end"),
) -> None:
    """Check a certificate against the function alone, trusting nothing else.

    Parameters
    ----------
    func
        The function that the regions were read from, or the same without annotations.
    regions, certificate
        The regions, and what `AnnotatedRegionSet.verify` says of them.
    annotations
        The names of the annotation ops.

    Raises
    ------
    RegionCycleError
        A region stands in no order, a binding stands nowhere or twice, or a value is used before
        it is defined.
    """
    by_id: dict[int, AnnotatedRegion] = {region.id: region for region in regions}
    named = {item for order in certificate.orders for item in order if isinstance(item, int)}
    if wrong := named.symmetric_difference(by_id):
        raise RegionCycleError(
            f"regions {sorted(wrong)} stand in no order, or in an order but not in the set"
        )
    for order in certificate.orders:
        place = {extent: -1 for param in func.params for extent in shape_vars_of(param.ty)}
        for position, item in enumerate(order):
            for var in by_id[item].nodes if isinstance(item, int) else (item,):
                if place.setdefault(var, position) != position:
                    raise RegionCycleError(f"{var.name!r} stands twice in the certificate")
        for var, value in _definitions(func.body, place, annotations):
            if var not in place:
                raise RegionCycleError(f"{var.name!r} stands nowhere in the certificate")
            for used in relax.analysis.free_vars(value):
                if place.get(used, -1) > place[var]:
                    raise RegionCycleError(f"{var.name!r} uses {used.name!r}, which comes later")


def _definitions(
    body: relax.Expr, place: dict[relax.Var, int], annotations: Collection[str]
) -> Iterator[tuple[relax.Var, relax.Expr]]:
    """All bindings; an annotation takes the place of its argument, a new shape variable that of its cast."""
    blocks = body.blocks if isinstance(body, relax.SeqExpr) else ()
    for binding in (binding for block in blocks for binding in block.bindings):
        value = binding.value
        for inner in _bodies_in(value):
            yield from _definitions(inner, place, annotations)
        for extent in shape_vars_of(binding.var.ty):
            place.setdefault(extent, place.get(binding.var, -1))
        if isinstance(value, relax.Call) and getattr(value.op, "name", "") in annotations:
            place[binding.var] = _place_of(value.args[0], place)
        else:
            yield binding.var, value


def _bodies_in(value: relax.Expr) -> tuple[relax.Expr, ...]:
    """The bodies that a bound value holds."""
    if isinstance(value, relax.If):
        return (value.true_branch, value.false_branch)
    return (value.body,) if isinstance(value, relax.Function) else ()


def _place_of(expr: relax.Expr, place: Mapping[relax.Var, int]) -> int:
    """Where an annotated value stands; what is no variable of the function stands before all of it."""
    return place.get(expr, -1) if isinstance(expr, relax.Var) else -1
