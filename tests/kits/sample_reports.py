"""A report in which every kind of thing that reports tell stands at least once."""

from __future__ import annotations

import annotated_region as ar
from annotated_region.reports.report import Report
from annotated_region.testing.graphs import SIX_OPS, module_of
from annotated_region.testing.registry import claim_ops, temporary_registrations

__all__ = ["sample_report"]


def sample_report() -> Report:
    """Two targets, one that cannot run here, regions kept apart, a dissolved one, costs."""
    with temporary_registrations():
        claim_ops("sketch", "relax.nn.relu", "relax.add")
        claim_ops("sketch", "relax.tanh", answer="no tanh")
        claim_ops("pencil", "relax.tanh")
        claim_ops("absent", "relax.add")
        ar.register_backend("absent", unavailable=lambda: "install libabsent")
        ar.register_backend("pencil", min_work=3)
        return ar.explain(
            module_of(SIX_OPS),
            ["absent", "pencil", "sketch"],
            ar.LeastCost(ar.UnitCost()),
            prepare=False,
            bans={"x1": ["pencil"]},
        )
