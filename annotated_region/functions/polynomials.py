"""Extents as polynomials over variables and quotients, which proves more equations than TVM's analyzer.

Exporters write the length of padded blocks, and what follows from it, without simplifying it::

    whole = n + (64 - n % 64) % 64        blocks = whole // 64        block = whole // blocks

TVM proves neither that ``block`` is 64 nor that ``whole`` is ``64 * blocks``. Here ``n % 64`` becomes
``n - 64 * (n // 64)``, and a quotient gives up what is divisible: ``(64 * q + r) // 64`` is ``q + r // 64``.
What remains of a quotient is an atom, like a variable::

    whole = 64 * ((n + 63) // 64)         blocks = (n + 63) // 64      block = 64

Numbers are integers without bounds, as for TVM's analyzer; quotients are rounded down, and no divisor is 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import gcd
from typing import TypeAlias

import tvm_ffi
from tvm import tirx

from annotated_region.tvm_adapter.arithmetic import Extent, provably_equal
from annotated_region.tvm_adapter.nodes import PrimExpr

__all__ = ["are_equal", "simplified"]

Monomial: TypeAlias = tuple[int, ...]
"""A product of atoms, by their numbers in ascending order, one for each power; empty for the number 1."""

Polynomial: TypeAlias = Mapping[Monomial, int]
"""The coefficients, none of them 0."""

QUOTIENTS = (tirx.FloorDiv, tirx.FloorMod)
PAIRS = (tirx.Add, tirx.Sub, tirx.Mul, *QUOTIENTS)
MOST_TERMS = 64
"""The most terms of a polynomial; larger ones are not simplified."""


class _UnfitError(Exception):
    """The polynomial is too large, or something is divided by 0."""


def simplified(extent: PrimExpr) -> PrimExpr:
    """An equal extent of fewer operations; itself if none is found, or if it has no quotients.

    Notes
    -----
    Linear in the size of the extent for polynomials of a bounded number of terms.
    """
    if not _has_quotients(extent):
        return extent
    atoms = _PolynomialAtoms()
    try:
        found = atoms.expression(atoms.polynomial(extent))
    except _UnfitError:
        return extent
    return found if _size(found) < _size(extent) else extent


def are_equal(left: Extent, right: Extent) -> bool:
    """Whether two extents are equal: TVM proves it, or they are the same polynomial."""
    return provably_equal(left, right) or _are_one_polynomial(left, right)


def _are_one_polynomial(left: Extent, right: Extent) -> bool:
    atoms = _PolynomialAtoms()
    try:
        return atoms.polynomial(left) == atoms.polynomial(right)
    except _UnfitError:
        return False


def _has_quotients(extent: PrimExpr | int) -> bool:
    if not isinstance(extent, PAIRS):
        return False
    return isinstance(extent, QUOTIENTS) or _has_quotients(extent.a) or _has_quotients(extent.b)


def _size(extent: PrimExpr) -> int:
    return 1 + _size(extent.a) + _size(extent.b) if isinstance(extent, PAIRS) else 1


@dataclass(slots=True)
class _PolynomialAtoms:
    """The variables, quotients and other expressions that polynomials are made of, by their numbers."""

    expressions: list[PrimExpr] = field(default_factory=list)
    quotients: dict[tuple[frozenset[tuple[Monomial, int]], ...], int] = field(default_factory=dict)

    def polynomial(self, extent: PrimExpr | int) -> Polynomial:
        if isinstance(extent, int | tirx.IntImm):
            return _polynomial([((), int(extent))])
        if not isinstance(extent, PAIRS):
            return {(self._number(extent),): 1}
        left, right = self.polynomial(extent.a), self.polynomial(extent.b)
        if isinstance(extent, tirx.Mul):
            return _product(left, right)
        if isinstance(extent, tirx.FloorDiv):
            return self.quotient(left, right)
        if isinstance(extent, tirx.FloorMod):
            right = _product(right, self.quotient(left, right))
        return _sum(left, right, 1 if isinstance(extent, tirx.Add) else -1)

    def quotient(self, data: Polynomial, divisor: Polynomial) -> Polynomial:
        """The quotient, rounded down."""
        if not divisor:
            raise _UnfitError
        if set(divisor) == {()}:
            return self._divided_by_number(data, divisor[()])
        whole, rest = _divided(data, divisor)
        if not rest:
            return whole
        rest, divisor = _without_common_factors(rest, divisor)
        if set(divisor) == {()}:
            return _sum(whole, self._divided_by_number(rest, divisor[()]))
        if divisor[max(divisor, key=_order)] < 0:
            rest, divisor = _times(rest, -1), _times(divisor, -1)
        return _sum(whole, self._atom(rest, divisor))

    def _divided_by_number(self, data: Polynomial, divisor: int) -> Polynomial:
        if divisor < 0:
            return self._divided_by_number(_times(data, -1), -divisor)
        rest = {term: _remainder(factor, divisor, term) for term, factor in data.items()}
        whole = _polynomial((term, (factor - rest[term]) // divisor) for term, factor in data.items())
        number = rest.pop((), 0)
        rest = {term: factor for term, factor in rest.items() if factor}
        if not rest:
            return whole
        common = gcd(divisor, *rest.values())
        if common > 1:
            smaller = _polynomial((term, factor // common) for term, factor in [*rest.items(), ((), number)])
            return _sum(whole, self._divided_by_number(smaller, divisor // common))
        if rest[max(rest, key=_order)] < 0:  # the quotient rounded up of the opposite
            opposite = _polynomial([*_times(rest, -1).items(), ((), divisor - 1 - number)])
            return _sum(whole, self._divided_by_number(opposite, divisor), -1)
        return _sum(whole, self._atom(_polynomial([*rest.items(), ((), number)]), {(): divisor}))

    def _atom(self, data: Polynomial, divisor: Polynomial) -> Polynomial:
        key = (frozenset(data.items()), frozenset(divisor.items()))
        if key not in self.quotients:
            self.quotients[key] = len(self.expressions)
            self.expressions.append(tirx.FloorDiv(self.expression(data), self.expression(divisor)))
        return {(self.quotients[key],): 1}

    def _number(self, extent: PrimExpr) -> int:
        if str(extent.ty) != str(tirx.IntImm("int64", 0).ty):
            raise _UnfitError
        for number, known in enumerate(self.expressions):
            if known is extent or tvm_ffi.structural_equal(known, extent):
                return number
        self.expressions.append(extent)
        return len(self.expressions) - 1

    def expression(self, data: Polynomial) -> PrimExpr:
        """The polynomial as an expression, terms that are subtracted last."""
        terms = sorted(data.items(), key=lambda term: (term[1] < 0, -len(term[0]), term[0]))
        found: PrimExpr | None = None
        for atoms, factor in terms:
            is_subtracted = factor < 0 and found is not None
            term = self._term(atoms, -factor if is_subtracted else factor)
            if found is None:
                found = term
            else:
                found = tirx.Sub(found, term) if is_subtracted else tirx.Add(found, term)
        return tirx.IntImm("int64", 0) if found is None else found

    def _term(self, atoms: Monomial, factor: int) -> PrimExpr:
        found: PrimExpr | None = None
        for number in atoms:
            atom = self.expressions[number]
            found = atom if found is None else tirx.Mul(found, atom)
        if found is None:
            return tirx.IntImm("int64", factor)
        return found if factor == 1 else tirx.Mul(found, tirx.IntImm("int64", factor))


def _polynomial(terms: Iterable[tuple[Monomial, int]]) -> dict[Monomial, int]:
    found: dict[Monomial, int] = {}
    for term, factor in terms:
        found[term] = found.get(term, 0) + factor
    found = {term: factor for term, factor in found.items() if factor}
    if len(found) > MOST_TERMS:
        raise _UnfitError
    return found


def _times(data: Polynomial, factor: int) -> Polynomial:
    return {term: factor * each for term, each in data.items()}


def _sum(left: Polynomial, right: Polynomial, factor: int = 1) -> Polynomial:
    """``left + factor * right``."""
    return _polynomial([*left.items(), *_times(right, factor).items()])


def _product(left: Polynomial, right: Polynomial) -> Polynomial:
    return _polynomial(
        (tuple(sorted(one + other)), factor * times)
        for one, factor in left.items()
        for other, times in right.items()
    )


def _order(term: Monomial) -> tuple[int, Monomial]:
    """The key of an order of monomials that multiplication keeps."""
    return len(term), term


def _remainder(factor: int, divisor: int, term: Monomial) -> int:
    """What a quotient keeps of a coefficient: of a number what is not below 0, else what is closest to 0."""
    rest = factor % divisor
    return rest - divisor if term and 2 * rest > divisor else rest


def _divided(data: Polynomial, divisor: Polynomial) -> tuple[Polynomial, Polynomial]:
    """Quotient and remainder of polynomials: ``data = quotient * divisor + remainder``.

    Terminates: the largest monomial of what is left decreases with each step, in an order without endless
    descent.
    """
    first = max(divisor, key=_order)
    left, whole, rest = dict(data), {}, {}
    while left:
        term = max(left, key=_order)
        factor, times = left[term], _removed(term, first)
        if times is None or factor % divisor[first]:
            rest[term] = left.pop(term)
            continue
        whole[times] = factor // divisor[first]
        left = dict(_sum(left, _product({times: whole[times]}, divisor), -1))
    return whole, rest


def _removed(term: Monomial, part: Monomial) -> Monomial | None:
    """The product without some of its atoms; None if it lacks one of them."""
    left = list(term)
    for atom in part:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _without_common_factors(data: Polynomial, divisor: Polynomial) -> tuple[Polynomial, Polynomial]:
    """Both divided by the number and the atoms that divide all of their terms."""
    terms = [*data, *divisor]
    number = gcd(*data.values(), *divisor.values())
    common: list[int] = []
    for atom in sorted(set(terms[0])):
        common += [atom] * min(term.count(atom) for term in terms)
    return _reduced(data, number, tuple(common)), _reduced(divisor, number, tuple(common))


def _reduced(data: Polynomial, number: int, atoms: Monomial) -> Polynomial:
    parts = ((_removed(term, atoms), factor) for term, factor in data.items())
    return {term: factor // number for term, factor in parts if term is not None}
