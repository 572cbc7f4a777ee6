"""Models of one ONNX operator by lot, against ONNX Runtime without its optimizer."""

from __future__ import annotations

import pytest
from kits.importing.drawn_nodes.cases import FAMILIES, drawn_case
from kits.importing.node_checks import Kind, checked

SEEDS = (4, 8, 13)


@pytest.mark.parametrize("family", FAMILIES)
def test_drawn_models_are_right_or_refused(family: str) -> None:
    """ONNX Runtime takes at least one of the models of each family."""
    cases = [case for case in (drawn_case(family, seed) for seed in SEEDS) if case is not None]
    assert cases
    for case in cases:
        outcome = checked(case, "onnxruntime")
        assert outcome.kind in (Kind.RIGHT, Kind.NO_REGION, Kind.REFUSED), f"{case.name}: {outcome}"
