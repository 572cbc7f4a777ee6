"""Ops of TVM's importers that are not emitted as ONNX, each with the reason for reports.

All other ops of the importers have a converter; `test_every_imported_op` checks this against the importers.
"""

from __future__ import annotations

from typing import NoReturn

from annotated_region.backends.onnx_emitter.emission import Emission
from annotated_region.backends.onnx_emitter.registry import converter
from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import Declined

__all__ = ["ABSENT"]

_UNKNOWN_EXTENTS = "the extents of the result depend on its data"

ABSENT = {
    "relax.assert_op": "it computes nothing",
    "relax.atan2": "ONNX has no atan2, and a quotient loses the signs of zeros",
    "relax.cumprod": "ONNX has no cumulative product",
    "relax.dynamic_strided_slice": _UNKNOWN_EXTENTS,
    "relax.nn.nll_loss": "losses are only for training",
    "relax.nonzero": _UNKNOWN_EXTENTS,
    "relax.null_value": "it computes nothing",
    "relax.tensor_to_shape": "a region cannot return a shape, because it is not a tensor",
    "relax.unique": _UNKNOWN_EXTENTS,
    "relax.vision.all_class_non_max_suppression": _UNKNOWN_EXTENTS,
    "relax.vision.roi_pool": "TVM rounds corners halfway between pixels to even, ONNX away from zero",
}
"""Reasons by op name."""


@converter(*ABSENT)
def _absent(_emission: Emission, op: OpView) -> NoReturn:
    raise Declined(ABSENT[op.name])
