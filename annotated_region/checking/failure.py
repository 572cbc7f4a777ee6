"""A wrong call of a region, or of its smallest failing part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from annotated_region.checking.program import PlacedFunction
from annotated_region.checking.region_values import RegionValues
from annotated_region.checking.tolerance import Tolerance
from annotated_region.costs.model import HOST
from annotated_region.ids import NodeId

__all__ = ["Failure"]


@dataclass(frozen=True)
class Failure:
    """The inputs, results and expected results of a wrong call.

    Attributes
    ----------
    function
        The region.
    nodes
        The failing nodes: all nodes of the region, or a part.
    values
        The inputs, as computed by the host.
    wanted, found
        By name, the results of the host and of the target; empty for the target if it raised.
    tolerance
        The tolerance that was exceeded.
    options
        By target, the options of its code generator.
    error
        The error that the target raised; empty if it returned.
    reference
        What computed the wanted results.
    """

    function: PlacedFunction
    nodes: tuple[NodeId, ...]
    values: RegionValues
    wanted: Mapping[str, np.ndarray]
    found: Mapping[str, np.ndarray]
    tolerance: Tolerance
    options: Mapping[str, Mapping[str, object]]
    error: str = ""
    reference: str = HOST
