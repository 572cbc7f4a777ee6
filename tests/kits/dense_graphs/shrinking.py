"""Makes a failing graph smaller: fewer nodes and calls, smaller extents, as long as it fails.

Greedy, as in delta debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input",
2002): the first smaller graph that fails takes the place of the given one, and the search begins anew. A
candidate may be no valid graph at all; then it does not fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kits.dense_graphs.recipe import TUPLES, Dim, Node, Recipe, extent_of

__all__ = ["shrunk"]

Fails = Callable[[Recipe], bool]
MOST_TRIES = 600


def shrunk(recipe: Recipe, fails: Fails, tries: int = MOST_TRIES) -> Recipe:
    """The smallest graph that is found to fail in so many tries."""
    left = tries
    found = True
    while found and left > 0:
        found = False
        for candidate in _smaller(recipe):
            if left == 0:
                break
            left -= 1
            if fails(candidate):
                recipe, found = candidate, True
                break
    return recipe


def _smaller(recipe: Recipe) -> Iterator[Recipe]:
    yield from _fewer_results(recipe)
    yield from _cut(recipe)
    yield from _fewer_calls(recipe)
    yield from _known_extents(recipe)
    yield from _smaller_extents(recipe)
    yield from _simpler_sources(recipe)


def _fewer_results(recipe: Recipe) -> Iterator[Recipe]:
    if len(recipe.results) > 1:
        for result in recipe.results:
            yield without_dead(replace(recipe, results=(result,)))
        for result in recipe.results:
            rest = tuple(each for each in recipe.results if each != result)
            yield without_dead(replace(recipe, results=rest))


def _cut(recipe: Recipe) -> Iterator[Recipe]:
    """A node becomes an input, or one of its operands; a result becomes what it is computed from."""
    for number in reversed(range(len(recipe.nodes))):
        node = recipe.nodes[number]
        if node.is_source:
            continue
        if number in recipe.results:
            for operand in node.operands:
                if not recipe.nodes[operand].is_source and recipe.nodes[operand].op not in TUPLES:
                    results = tuple(operand if each == number else each for each in recipe.results)
                    yield without_dead(replace(recipe, results=tuple(dict.fromkeys(results))))
        for operand in node.operands:
            given = recipe.nodes[operand]
            if given.shape == node.shape and given.dtype == node.dtype and given.op not in TUPLES:
                yield without_dead(_redirected(recipe, number, operand))
        if node.op not in TUPLES and number not in recipe.results:
            kind = {"float32": "positive", "bool": "truth"}.get(node.dtype, "bytes")
            kinds = ("normal", "positive") if node.dtype == "float32" else (kind,)
            for kind in kinds:
                put = Node("input", (), {"kind": kind, "key": 100 + number}, node.shape, node.dtype)
                yield without_dead(_with(recipe, number, put))


def _redirected(recipe: Recipe, old: int, new: int) -> Recipe:
    def turned(number: int) -> int:
        return new if number == old else number

    nodes = tuple(replace(node, operands=tuple(map(turned, node.operands))) for node in recipe.nodes)
    results = tuple(dict.fromkeys(map(turned, recipe.results)))
    return replace(recipe, nodes=nodes, results=results)


def _with(recipe: Recipe, number: int, node: Node) -> Recipe:
    return replace(recipe, nodes=(*recipe.nodes[:number], node, *recipe.nodes[number + 1 :]))


def without_dead(recipe: Recipe) -> Recipe:
    """The recipe without nodes that nobody reads."""
    alive = set(recipe.results)
    for number in reversed(range(len(recipe.nodes))):
        if number in alive:
            alive.update(recipe.nodes[number].operands)
    names = {old: new for new, old in enumerate(sorted(alive))}
    nodes = tuple(
        replace(recipe.nodes[old], operands=tuple(names[each] for each in recipe.nodes[old].operands))
        for old in sorted(alive)
    )
    return replace(recipe, nodes=nodes, results=tuple(names[each] for each in recipe.results))


def _fewer_calls(recipe: Recipe) -> Iterator[Recipe]:
    if len(recipe.calls) > 1:
        yield from (replace(recipe, calls=(call,)) for call in recipe.calls)


def _known_extents(recipe: Recipe) -> Iterator[Recipe]:
    """Numbers for symbols."""
    if not recipe.calls[0]:
        return
    for call in recipe.calls:
        nodes = tuple(
            replace(
                node,
                shape=tuple(extent_of(dim, call) for dim in node.shape),
                attrs={name: _known(value, call) for name, value in node.attrs.items()},
            )
            for node in recipe.nodes
        )
        yield replace(recipe, nodes=nodes, calls=({},))


def _known(value: Any, call: Mapping[str, int]) -> Any:
    return [extent_of(dim, call) for dim in value] if isinstance(value, list) and _is_shape(value) else value


def _is_shape(value: Sequence[Any]) -> bool:
    return all(isinstance(dim, int | str) for dim in value)


SHAPES = ("shape", "repeats", "end", "size", "indices_or_sections")
"""Attributes that follow extents."""


def _smaller_extents(recipe: Recipe) -> Iterator[Recipe]:
    """Each extent of one size becomes a smaller one, everywhere."""
    extents = sorted(
        {dim for node in recipe.nodes for dim in node.shape if isinstance(dim, int)}, reverse=True
    )
    for old in extents:
        for new in (1, 2, 3, 4, 8):
            if new < old:
                yield _resized(recipe, {old: new})
        for other in extents:
            if other < old and other > 1:
                yield _resized(recipe, {old: 2, other: 1})
                yield _resized(recipe, {old: 2 * 2, other: 2})


def _resized(recipe: Recipe, sizes: Mapping[int, int]) -> Recipe:
    def size(dim: Dim) -> Dim:
        return sizes.get(dim, dim) if isinstance(dim, int) else dim

    nodes = tuple(
        replace(
            node,
            shape=tuple(map(size, node.shape)),
            attrs={name: _resized_attr(name, value, size) for name, value in node.attrs.items()},
        )
        for node in recipe.nodes
    )
    return replace(recipe, nodes=nodes)


def _resized_attr(name: str, value: Any, size: Callable[[Dim], Dim]) -> Any:
    return [size(dim) for dim in value] if name in SHAPES and isinstance(value, list) else value


def _simpler_sources(recipe: Recipe) -> Iterator[Recipe]:
    """Inputs for constants; ordinary numbers; no axis that has an extent of one in the first place."""
    for number, node in enumerate(recipe.nodes):
        if node.op == "constant" and "kind" in node.attrs:
            yield _with(recipe, number, replace(node, op="input"))
