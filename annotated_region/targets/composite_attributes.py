"""Computes the extra attributes of composites with the pattern that matched them.

TVM's ``FuseOpsByPattern`` calls an entry's ``attrs_getter`` when it creates the composite function. Here a
composite is only a name and nodes until a function is created for it, so the pattern is matched again then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from annotated_region.dataflow.graph import DataflowGraph
from annotated_region.errors import RuleError
from annotated_region.ids import NodeId
from annotated_region.origins import described
from annotated_region.targets.matching import Matcher
from annotated_region.targets.rules import Pattern, patterns_of

__all__ = ["AttributesOf", "composite_attributes"]

AttributesOf: TypeAlias = Callable[[str, tuple[NodeId, ...]], Mapping[str, object]]
"""Maps the name and the nodes of a composite, in program order, to its extra attributes."""


def composite_attributes(graph: DataflowGraph, target: str) -> AttributesOf:
    """A function that computes the extra attributes of the composites of a target in a function.

    It raises `RuleError` if the ``attrs_getter`` of a pattern raises, or does not return attributes.
    """
    patterns = [pattern for pattern in patterns_of(target) if pattern.attributes is not None]
    if not patterns:
        return lambda _name, _nodes: {}
    matcher = Matcher(graph)

    def attributes(name: str, nodes: tuple[NodeId, ...]) -> Mapping[str, object]:
        candidates = (pattern for pattern in patterns if pattern.name == name)
        answers = (_answer(matcher, pattern, nodes) for pattern in candidates)
        return next((answer for answer in answers if answer is not None), {})

    return attributes


def _answer(matcher: Matcher, pattern: Pattern, nodes: tuple[NodeId, ...]) -> Mapping[str, object] | None:
    """The attributes that a pattern computes for these nodes; None if it does not match exactly them."""
    assert pattern.attributes is not None
    root = nodes[-1]
    found = matcher.found(pattern.pattern, root)
    if found is None or not set(nodes) <= {root, *matcher.nodes_of(found)}:
        return None
    parts = {name: found[part] for name, part in pattern.annotations.items() if part in found}
    where = f"the attrs_getter of pattern {pattern.name!r} at {described(matcher.graph.nodes[root].var)}"
    try:
        answer = dict(pattern.attributes(parts))
    except Exception as error:
        raise RuleError(f"{where} in {matcher.graph.name} failed: {type(error).__name__}: {error}") from error
    if "Composite" in answer or not all(isinstance(key, str) for key in answer):
        raise RuleError(f"{where} answered {answer}; answer with names and values, without Composite")
    return answer
