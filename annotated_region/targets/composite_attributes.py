"""Further attributes of composites, as the pattern that a composite was made with computes them.

TVM's ``FuseOpsByPattern`` asks an entry's ``attrs_getter`` when it makes the composite. Here a composite is
no more than a name and its nodes until a function is made of them; the pattern is matched once more then.
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
"""From the name of a composite and its nodes, in program order, to its further attributes."""


def composite_attributes(graph: DataflowGraph, target: str) -> AttributesOf:
    """What tells the further attributes of the composites of a target in a function.

    What it gives raises `RuleError` where the ``attrs_getter`` of a pattern fails, or answers with something
    else than attributes.
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
    """What a pattern answers for these nodes; None if it does not match just them."""
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
