"""Images in other sizes."""

from __future__ import annotations

from annotated_region.backends.onnx_emitter.conversions.layouts import relayout
from annotated_region.backends.onnx_emitter.emission import Emission, extents_of
from annotated_region.backends.onnx_emitter.registry import converter
from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import require

__all__: list[str] = []


@converter("relax.image.resize2d")
def _resize(emission: Emission, op: OpView) -> str:
    """Only what all engines compute alike: linear, and nearest neighbours that are rounded down."""
    attrs, layout = op.attrs, op.attrs["layout"]
    mode, transformation = attrs["method"], attrs["coordinate_transformation_mode"]
    require(attrs["out_dtype"] in (None, "", "void", str(op.arg_tensor(0).dtype)), "a result of another type")
    require(transformation in ("half_pixel", "align_corners", "asymmetric"), f"coordinates {transformation}")
    is_nearest = mode == "nearest_neighbor"
    require(mode == "linear" or is_nearest, f"interpolation {mode}")
    exact = transformation == "asymmetric" and attrs["rounding_method"] == "floor"
    require(not is_nearest or exact, "nearest neighbours that are not those of rounded-down coordinates")
    data = relayout(emission, emission.operand(op.args[0]), layout, "NCHW")
    after = dict(zip(layout, extents_of(op.out_type), strict=True))
    sizes = emission.shape([after[letter] for letter in "NCHW"])
    result = emission.node(
        "Resize",
        data,
        "",
        "",
        sizes,
        mode="nearest" if is_nearest else "linear",
        coordinate_transformation_mode=transformation,
        nearest_mode="floor" if is_nearest else None,
    )
    return relayout(emission, result, "NCHW", layout)
