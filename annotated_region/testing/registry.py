"""Registers rules, patterns and backends for the duration of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from annotated_region.checked import checked
from annotated_region.targets import backend, installed_backends, rules
from annotated_region.targets.built_in import load_all_built_in

__all__ = ["claim_ops", "temporary_registrations"]


@contextmanager
def temporary_registrations() -> Iterator[None]:
    """Restore all registrations at the end of the ``with`` block."""
    load_all_built_in()  # otherwise a first load inside the block would be undone at its end
    registries: list[dict[str, Any]] = [
        rules._RULES,
        rules._PATTERNS,
        backend._BACKENDS,
        installed_backends._LOADED,
    ]
    known = [{key: _copy(value) for key, value in registry.items()} for registry in registries]
    try:
        yield
    finally:
        for registry, before in zip(registries, known, strict=True):
            registry.clear()
            registry.update(before)


def _copy(registered: object) -> object:
    """A copy of nested dicts and lists, with shared leaves, which registrations do not mutate."""
    if isinstance(registered, dict):
        return {key: _copy(value) for key, value in registered.items()}
    return list(registered) if isinstance(registered, list) else registered


@checked
def claim_ops(target: str, /, *op_names: str, answer: bool | str = True) -> None:
    """Register rules of `target` with a constant answer, for ops such as ``"relax.add"``."""

    def rule(_op: object) -> bool | str:
        return answer

    for op_name in op_names:
        rules.register_rule(target, op_name)(rule)
