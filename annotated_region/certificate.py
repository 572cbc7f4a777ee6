"""Certificates: orders that prove regions acyclic, and a checker that shares no code with the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import tvm
from tvm import relax

from annotated_region.errors import OverlappingRegionsError, RegionCycleError
from annotated_region.region import AnnotatedRegion

__all__ = ["Certificate", "check_certificate"]

Order = tuple[int | relax.Var, ...]
"""Region ids, and the variables of the nodes that no region of the order holds."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """Orders of regions and host nodes in which every value is defined before it is used.

    Attributes
    ----------
    orders
        A disjoint set of regions has one order, of all of them. Regions that overlap cannot stand
        in one order; then there is one for each target, and one for each region that overlaps
        another of its own target.
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
    func: relax.Function, regions: Iterable[AnnotatedRegion], certificate: Certificate
) -> None:
    """Check a certificate against the function alone, trusting nothing else.

    Raises
    ------
    RegionCycleError
        A region stands in no order, a binding stands nowhere or twice, or a value is used before
        it is defined.
    """
    by_id = {region.id: region for region in regions}
    named = {item for order in certificate.orders for item in order if isinstance(item, int)}
    if missing := set(by_id) - named:
        raise RegionCycleError(f"regions {sorted(missing)} stand in no order of the certificate")
    for order in certificate.orders:
        place: dict[relax.Var, int] = {}
        for position, item in enumerate(order):
            for var in by_id[item].nodes if isinstance(item, int) else (item,):
                if var in place:
                    raise RegionCycleError(f"{var.name!r} stands twice in the certificate")
                place[var] = position
        for var, value in _definitions(func.body, place):
            if var not in place:
                raise RegionCycleError(f"{var.name!r} stands nowhere in the certificate")
            for used in relax.analysis.free_vars(value):
                if place.get(used, -1) > place[var]:
                    raise RegionCycleError(f"{var.name!r} uses {used.name!r}, which comes later")


def _definitions(body: relax.Expr, place: dict[relax.Var, int]) -> Iterator[tuple[relax.Var, relax.Expr]]:
    """All bindings; an annotation takes the place of its argument."""
    for binding in (binding for block in getattr(body, "blocks", ()) for binding in block.bindings):
        value = binding.value
        if isinstance(value, relax.If | relax.Function):
            for part in ("true_branch", "false_branch", "body"):
                yield from _definitions(getattr(value, part, None), place)
        if isinstance(value, tvm.ir.Call) and getattr(value.op, "name", "").startswith("relax.annotation."):
            place[binding.var] = place.get(value.args[0], -1)
        else:
            yield binding.var, value
