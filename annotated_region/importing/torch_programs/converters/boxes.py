"""`torchvision.ops.roi_align`, whose boxes TVM's importer shifts by half a pixel before it scales them."""

from __future__ import annotations

from tvm import relax

from annotated_region.errors import ModelError
from annotated_region.importing.shared_ops.box_pooling import BoxPooling
from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import TorchNode

__all__: list[str] = []


@converts("roi_align.default")
def pooled_boxes(node: TorchNode) -> relax.Expr:
    """The means of boxes of images."""
    scale, rows, columns, samples = (
        node.given(place, name)
        for place, name in enumerate(("spatial_scale", "pooled_height", "pooled_width", "sampling_ratio"), 2)
    )
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise ModelError("a symbolic number of parts is not supported")
    if not scale:
        raise ModelError("spatial_scale=0 is not supported, since it leaves no box")
    is_shifted = bool(node.given(6, "aligned", default=False))
    pooling = BoxPooling((rows, columns), float(str(scale)), int(str(samples)), is_shifted)
    return node.emit(pooling.of(node.tensor(0), node.tensor(1), node.emit))
