"""Ops that TVM's importers make and that are not said in ONNX, each with the reason that reports give.

All others that they make have a converter; `test_every_imported_op` compares with what the importers name.
"""

from __future__ import annotations

from typing import NoReturn

from annotated_region.backends.onnx_emitter.emission import Emission
from annotated_region.backends.onnx_emitter.registry import converter
from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import Declined

__all__ = ["ABSENT"]

_UNKNOWN_EXTENTS = "the extents of the result are known only when it has been computed"

ABSENT = {
    "relax.assert_op": "it computes nothing",
    "relax.atan2": "ONNX has no angle of two numbers, and a quotient has lost the signs of zeros",
    "relax.cumprod": "ONNX has no running product",
    "relax.dynamic_strided_slice": _UNKNOWN_EXTENTS,
    "relax.nn.nll_loss": "losses are for training",
    "relax.nonzero": _UNKNOWN_EXTENTS,
    "relax.null_value": "it computes nothing",
    "relax.tensor_to_shape": "a shape is no tensor, so that no region can return it",
    "relax.unique": _UNKNOWN_EXTENTS,
    "relax.vision.all_class_non_max_suppression": _UNKNOWN_EXTENTS,
    "relax.vision.roi_pool": "TVM rounds a corner between two pixels to the even one, ONNX away from zero",
}
"""Reasons by the name of the op."""


@converter(*ABSENT)
def _absent(_emission: Emission, op: OpView) -> NoReturn:
    raise Declined(ABSENT[op.name])
