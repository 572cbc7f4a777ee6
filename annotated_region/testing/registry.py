"""Registers rules, patterns and backends for the length of a test, and forgets them afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from annotated_region import backend, rules

__all__ = ["claim_ops", "temporary_registrations"]


@contextmanager
def temporary_registrations() -> Iterator[None]:
    """Inside the ``with`` block registrations work as ever; behind it they are what they were before."""
    known_rules = {target: dict(registered) for target, registered in rules._RULES.items()}
    known_patterns = {
        target: {name: list(variants) for name, variants in registered.items()}
        for target, registered in rules._PATTERNS.items()
    }
    known_backends = dict(backend._BACKENDS)
    try:
        yield
    finally:
        for registry, known in (
            (rules._RULES, known_rules),
            (rules._PATTERNS, known_patterns),
            (backend._BACKENDS, known_backends),
        ):
            registry.clear()  # type: ignore[attr-defined]
            registry.update(known)  # type: ignore[attr-defined]


def claim_ops(target: str, *op_names: str, answer: bool | str = True) -> None:
    """Register rules of `target` that all give the same answer, for ops such as ``"relax.add"``."""

    def rule(_op: object) -> bool | str:
        return answer

    for op_name in op_names:
        rules.register_rule(target, op_name)(rule)
