"""More cases of `special_cases`: ops that move elements to computed places, and those without a case."""

from __future__ import annotations

import numpy as np
from tvm import relax
from tvm.relax import op

from annotated_region.recurrent_loops.loop import LoopFunction, RecurrentLoop
from annotated_region.recurrent_loops.op import attributes_of_loop, recurrent_loop
from kits.backends.special_cases import CASES, Case, case

__all__ = ["CASES", "WITHOUT_CASE", "Case"]


def places(*values: int) -> relax.Expr:
    return relax.const(np.array(values, "int64"))


case(
    "index_put",
    ((3, 4), (2,)),
    lambda x, v: op.index_put(x, (places(2, 0), places(1, 3)), v),
)
case("slice_scatter", ((3, 4), (3, 2)), lambda x, y: op.slice_scatter(x, y, 1, 3, 1, 1))
case("reverse_sequence", ((3, 4),), lambda x: op.reverse_sequence(x, places(1, 3, 4), 1, 0))
case("meshgrid", ((3,), (2,)), lambda x, y: op.negative(op.meshgrid([x, y], "ij")[0]))
case("size", ((3, 4),), op.size)
case("eye_like", ((3, 4),), lambda x: op.add(x, op.eye_like(x)))
case("bucketize", ((3, 4),), lambda x: op.bucketize(x, relax.const(np.array([-1, 1, 2], "float32"))))
case("log_add_exp", ((3, 4), (3, 4)), op.log_add_exp)
case(
    "resize3d",
    ((1, 2, 2, 3, 2),),
    lambda x: op.image.resize3d(
        x, (4, 3, 2), method="nearest_neighbor", coordinate_transformation_mode="asymmetric"
    ),
)
_grid = relax.const(np.random.default_rng(3).uniform(-0.9, 0.9, (1, 2, 3, 4)).astype("float32"))
case("grid_sample", ((1, 2, 4, 4),), lambda x: op.image.grid_sample(x, _grid, "nearest", align_corners=True))
case("grid_sample_linear", ((1, 2, 4, 4),), lambda x: op.image.grid_sample(x, _grid))
case(
    "recurrent_loop",
    ((4, 2, 9),),
    lambda x: relax.TupleGetItem(
        recurrent_loop(
            x,
            relax.const(np.random.default_rng(8).standard_normal((3, 3, 16)).astype("float32")),
            relax.const(np.full((2, 3), 0.25, "float32")),
            **attributes_of_loop(
                RecurrentLoop("GRU", 3, "float32", (LoopFunction("sigmoid"), LoopFunction("tanh")))
            ),
        ),
        0,
    ),
)
_ORDER = "NaN has no place in an order; topk has a case"
_WHOLE = "of whole numbers"
_NOTHING = "makes numbers of no operand"
_SUMS = "sums of few numbers in another order, which decides whether those of the largest end"
WITHOUT_CASE = {
    "relax.arange": _NOTHING,
    "relax.argsort": _ORDER,
    "relax.bitwise_and": _WHOLE,
    "relax.bitwise_not": _WHOLE,
    "relax.bitwise_or": _WHOLE,
    "relax.bitwise_xor": _WHOLE,
    "relax.eye": _NOTHING,
    "relax.hamming_window": _NOTHING,
    "relax.image.affine_grid": _SUMS,
    "relax.left_shift": _WHOLE,
    "relax.median": _ORDER,
    "relax.nn.pixel_shuffle": "TVM 0.27 cannot compute it",
    "relax.one_hot": _WHOLE,
    "relax.right_shift": _WHOLE,
    "relax.shape_to_tensor": _NOTHING,
    "relax.sort": _ORDER,
    "relax.vision.roi_align": _SUMS,
}
"""Ops without a case."""
