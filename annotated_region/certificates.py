"""Certificates: orders that prove regions acyclic, and a checker that shares no code with the passes.

The checker sees a function only as a list of definitions and needs no TVM;
`annotated_region.regions.certificate` extracts the definitions.
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
"""Region ids, interleaved with the variables of nodes outside the regions of the order."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """Orders of regions and host nodes in which every value is defined before it is used.

    Attributes
    ----------
    orders
        A disjoint set of regions has one order, of all regions. Overlapping regions have no common
        order; then there is one order for each target, of its regions that overlap no other region of
        that target, and further orders for the remaining regions.
    """

    orders: tuple[Order, ...]

    @property
    def order(self) -> Order:
        """The one order of a disjoint set.

        Raises
        ------
        OverlappingRegionsError
            The regions overlap, so there is no single order.
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
        The variable that it binds.
    uses
        The variables that its value reads.
    extents
        The shape variables of its type; each is defined by the first definition that has it.
    is_annotation
        Whether it is an annotation of the variable in `uses`, if any; it takes that variable's position.
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
    """Check a certificate against the definitions of a function.

    Parameters
    ----------
    nodes_of
        The variables of each region, by its id.
    given
        The shape variables of the parameters.
    definitions
        All bindings in program order; bindings nested in a value precede that value's binding.
    certificate
        The orders.

    Raises
    ------
    RegionCycleError
        A region is in no order, a binding is missing or appears twice, or a value is used before its
        definition.

    Notes
    -----
    For each order, linear in the number of definitions and uses.
    """
    named = {item for order in certificate.orders for item in order if isinstance(item, int)}
    if wrong := named.symmetric_difference(nodes_of):
        raise RegionCycleError(
            f"regions {sorted(wrong)} appear in no order, or in an order but not in the set"
        )
    known = dict.fromkeys(given, -1)
    for order in certificate.orders:
        place = dict(known)
        for position, item in enumerate(order):
            for var in nodes_of[item] if isinstance(item, int) else (item,):
                if place.setdefault(var, position) != position:
                    raise RegionCycleError(f"{var.name!r} appears twice in the certificate")
        for definition in definitions:
            _check_definition(definition, place)


def _check_definition(definition: Definition, place: dict[relax.Var, int]) -> None:
    """Check one binding, and record the positions of its shape variables or its annotation in `place`.

    Position -1 is before the order: parameters, and whatever is derived from parameters alone.
    """
    var = definition.var
    for extent in definition.extents:
        place.setdefault(extent, place.get(var, -1))
    if definition.is_annotation:
        place[var] = max((place.get(used, -1) for used in definition.uses), default=-1)
        return
    if var not in place:
        raise RegionCycleError(f"{var.name!r} is missing from the certificate")
    for used in definition.uses:
        if place.get(used, -1) > place[var]:
            raise RegionCycleError(f"{var.name!r} uses {used.name!r}, which comes later")
