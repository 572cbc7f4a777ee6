"""Checks the certificate of a function's regions against the function's bindings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from tvm import relax

from annotated_region.certificates import Certificate, Definition, check_orders
from annotated_region.checked import checked
from annotated_region.regions.region import AnnotatedRegion
from annotated_region.tvm_adapter.types import shape_vars_of

__all__ = ["check_certificate"]


@checked
def check_certificate(
    func: relax.Function,
    regions: Iterable[AnnotatedRegion],
    certificate: Certificate,
    annotations: Collection[str] = ("relax.annotation.compiler_begin", "relax.annotation.compiler_end"),
) -> None:
    """Check a certificate independently of the code that produced it: only `func` is read.

    Parameters
    ----------
    func
        The function that the regions were read from, or the same function without annotations.
    regions, certificate
        The regions, and the result of `AnnotatedRegionSet.verify`.
    annotations
        The names of the annotation ops.

    Raises
    ------
    RegionCycleError
        A region is in no order, a binding is missing or appears twice, or a value is used before its
        definition.
    """
    given = [extent for param in func.params for extent in shape_vars_of(param.ty)]
    nodes_of: dict[int, tuple[relax.Var, ...]] = {region.id: region.nodes for region in regions}
    check_orders(nodes_of, given, list(_definitions(func.body, annotations)), certificate)


def _definitions(body: relax.Expr, annotations: Collection[str]) -> Iterator[Definition]:
    """All bindings in program order; those of bodies nested in a value precede that value's binding."""
    blocks = body.blocks if isinstance(body, relax.SeqExpr) else ()
    for binding in (binding for block in blocks for binding in block.bindings):
        value = binding.value
        for inner in _bodies_in(value):
            yield from _definitions(inner, annotations)
        is_annotation = isinstance(value, relax.Call) and getattr(value.op, "name", "") in annotations
        uses = tuple(relax.analysis.free_vars(value))
        yield Definition(binding.var, uses, tuple(shape_vars_of(binding.var.ty)), is_annotation)


def _bodies_in(value: relax.Expr) -> tuple[relax.Expr, ...]:
    """The bodies nested in a bound value."""
    if isinstance(value, relax.If):
        return (value.true_branch, value.false_branch)
    return (value.body,) if isinstance(value, relax.Function) else ()
