"""Models of one ONNX operator, or of a few, by lot, against ONNX Runtime without its optimizer."""

from __future__ import annotations

import pytest
from kits.importing.drawn_nodes.cases import FAMILIES, drawn_case, drawn_chain
from kits.importing.node_checks import Kind, checked

SEEDS = (4, 8, 13)


@pytest.mark.sweep
@pytest.mark.parametrize("family", FAMILIES)
def test_drawn_models_are_right_or_refused(family: str) -> None:
    """ONNX Runtime takes at least one of the models of each family."""
    cases = [case for case in (drawn_case(family, seed) for seed in SEEDS) if case is not None]
    assert cases
    for case in cases:
        outcome = checked(case, "onnxruntime")
        assert outcome.kind in (Kind.RIGHT, Kind.NO_REGION, Kind.REFUSED), f"{case.name}: {outcome}"


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(24))
def test_drawn_chains_are_right_or_refused(seed: int) -> None:
    case = drawn_chain(seed)
    outcome = None if case is None else checked(case, ("host", "onnxruntime", "dnnl")[seed % 3])
    kinds = (Kind.RIGHT, Kind.NO_REGION, Kind.REFUSED)
    assert outcome is None or outcome.kind in kinds, f"{seed}: {outcome}"


def test_most_chains_have_results() -> None:
    """Operands are joined, ONNX Runtime takes them, and the results do not hang on roundings."""
    cases = [drawn_chain(seed) for seed in range(24)]
    known = [case for case in cases if case is not None]
    assert len(known) >= 12
    assert any(len(case.calls) == 2 for case in known), "none has named extents"
    assert all(len(case.model.graph.node) > 1 for case in known)
