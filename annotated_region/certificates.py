"""Certificates: orders that prove regions acyclic, and a checker of them that shares no code with the rest.

The checker knows a function by its definitions alone and needs no TVM; `annotated_region.regions.certificate`
reads the definitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from annotated_region.errors import OverlappingRegionsError, RegionCycleError
from annotated_region.ids import RegionId

if TYPE_CHECKING:
    from tvm import relax

__all__ = ["Certificate", "Definition", "check_orders"]

Order: TypeAlias = "tuple[RegionId | relax.Var, ...]"
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


@dataclass(frozen=True, slots=True)
class Definition:
    """One binding of a function.

    Attributes
    ----------
    var
        What it binds.
    uses
        The variables that its value reads.
    extents
        The shape variables of its type; those that nothing before it has are defined here.
    is_annotation
        Whether it annotates the one variable that it reads, if any, and stands where that does.
    """

    var: relax.Var
    uses: tuple[relax.Var, ...]
    extents: tuple[relax.Var, ...] = ()
    is_annotation: bool = False


def check_orders(
    nodes_of: Mapping[int, Sequence[relax.Var]],
    given: Iterable[relax.Var],
    definitions: Sequence[Definition],
    certificate: Certificate,
) -> None:
    """Check a certificate against the definitions of a function, trusting nothing else.

    Parameters
    ----------
    nodes_of
        The variables of each region, by its id.
    given
        The shape variables of the parameters.
    definitions
        All bindings in program order; those inside of a value come before it.
    certificate
        The orders.

    Raises
    ------
    RegionCycleError
        A region stands in no order, a binding stands nowhere or twice, or a value is used before
        it is defined.

    Notes
    -----
    Linear in the definitions and what they use, for each order.
    """
    named = {item for order in certificate.orders for item in order if isinstance(item, int)}
    if wrong := named.symmetric_difference(nodes_of):
        raise RegionCycleError(
            f"regions {sorted(wrong)} stand in no order, or in an order but not in the set"
        )
    known = dict.fromkeys(given, -1)
    for order in certificate.orders:
        place = dict(known)
        for position, item in enumerate(order):
            for var in nodes_of[item] if isinstance(item, int) else (item,):
                if place.setdefault(var, position) != position:
                    raise RegionCycleError(f"{var.name!r} stands twice in the certificate")
        for definition in definitions:
            _check_definition(definition, place)


def _check_definition(definition: Definition, place: dict[relax.Var, int]) -> None:
    """Check one binding, and note where its shape variables and annotations stand; before all is -1."""
    var = definition.var
    for extent in definition.extents:
        place.setdefault(extent, place.get(var, -1))
    if definition.is_annotation:
        place[var] = max((place.get(used, -1) for used in definition.uses), default=-1)
        return
    if var not in place:
        raise RegionCycleError(f"{var.name!r} stands nowhere in the certificate")
    for used in definition.uses:
        if place.get(used, -1) > place[var]:
            raise RegionCycleError(f"{var.name!r} uses {used.name!r}, which comes later")
