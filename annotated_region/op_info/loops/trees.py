"""Expressions as nested tuples in a canonical form: equal trees compute equal values.

====================================  ====================================================================
``("linear", c, ((atom, k), ...))``   the integer ``c + k * atom + ...``; an index, an extent
``("iter", n)``                       iteration variable `n` of the block (an atom)
``("size", n)``                       a symbolic extent (an atom)
``("div" | "mod", linear, k)``        floor division and remainder by a number, or by a linear form (atoms)
``("product", linear, linear)``       neither factor is a number (an atom)
``("Max" | "Min", "int", l, l)``      of two linear forms (atoms)
``("load", buffer, indices)``         an element of a buffer; among integers it is an atom
``("nonnegative" | "zero", linear)``  a comparison of integers with 0
``("and" | "or", trees)``             conditions, flat and sorted
``("if", condition, then, else)``
``("float" | "int", dtype, value)``   constants among data
``("index", dtype, linear)``          an integer of iteration variables used as data
``(name, dtype, operands...)``        any other operator, cast or call
====================================  ====================================================================

Sums and products of data are equal up to the order of their two operands, which does not change the result;
``max`` and ``min`` are not, because of NaN; and nothing is reassociated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

__all__ = ["Extent", "Tree", "commuted", "is_size", "linear", "loads_in", "renamed", "subtrees"]

# Nested tuples of strings and numbers; a recursive alias would not be more precise for a type checker.
Tree: TypeAlias = tuple[Any, ...]
Extent: TypeAlias = int | Tree
"""A number, or a linear form of sizes and of what is computed from them."""

COMMUTING = ("Add", "Mul")


def linear(constant: int, terms: Mapping[Tree, int]) -> Tree:
    """The integer `constant` plus the sum of each atom times its factor."""
    kept = [(atom, factor) for atom, factor in terms.items() if factor]
    return ("linear", constant, tuple(sorted(kept, key=repr)))


def is_size(tree: Tree) -> bool:
    """Whether a linear form or an atom is computed from symbolic extents alone."""
    match tree[0]:
        case "size":
            return True
        case "linear":
            return all(is_size(atom) for atom, _ in tree[2])
        case "div" | "mod" | "product" | "Max" | "Min":
            return all(is_size(part) for part in tree[1:] if isinstance(part, tuple))
        case _:
            return False


def subtrees(tree: Tree) -> Iterator[Tree]:
    """`tree` and every tree inside it, outermost first."""
    if tree and isinstance(tree[0], str):
        yield tree
    for part in tree:
        if isinstance(part, tuple):
            yield from subtrees(part)


def loads_in(tree: Tree) -> list[Tree]:
    """The loads in a tree, in order, each once."""
    return list(dict.fromkeys(part for part in subtrees(tree) if part[0] == "load"))


def renamed(tree: Tree, buffers: Mapping[int, object]) -> Tree:
    """The tree with renamed buffers, in canonical form."""

    def rename(part: object) -> object:
        if not isinstance(part, tuple):
            return part
        if part and part[0] == "load":
            return ("load", buffers[part[1]], rename(part[2]))
        return commuted(tuple(map(rename, part)))

    renamed_tree = rename(tree)
    assert isinstance(renamed_tree, tuple)
    return renamed_tree


def commuted(tree: Tree) -> Tree:
    """The tree with the operands of a commutative root sorted."""
    if not tree:
        return tree
    if tree[0] in COMMUTING and len(tree) == 4:
        return (*tree[:2], *sorted(tree[2:], key=repr))
    if tree[0] in ("and", "or"):
        return (tree[0], tuple(sorted(dict.fromkeys(tree[1]), key=repr)))
    if tree[0] == "linear":
        return ("linear", tree[1], tuple(sorted(tree[2], key=repr)))
    return tree


def replaced(tree: Tree, replace: Callable[[Tree], Tree | None]) -> Tree:
    """The tree with its outermost subtrees replaced for which `replace` returns a tree."""
    new = replace(tree) if tree and isinstance(tree[0], str) else None
    if new is not None:
        return new
    return tuple(replaced(part, replace) if isinstance(part, tuple) else part for part in tree)
