"""`torchvision.ops.deform_conv2d`, which TVM 0.27's importer lacks."""

from __future__ import annotations

from tvm import relax

from annotated_region.errors import ModelError
from annotated_region.importing.shared_ops.deformed_convolution import DeformedConvolution
from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import TorchNode, extents_of_tensor

__all__: list[str] = []


@converts("deform_conv2d.default")
def deformed(node: TorchNode) -> relax.Expr:
    """A convolution whose kernels have points with offsets, and with factors if ``use_mask`` says so."""
    image, weight, offsets = (node.tensor(place) for place in range(3))
    known = [extents_of_tensor(image)[1], *extents_of_tensor(weight)]
    if not all(isinstance(each, int) for each in known):
        raise ModelError(f"symbolic channels or kernels {tuple(map(str, known))} are not supported")
    numbers = [int(str(node.given(place))) for place in range(5, 13)]
    how = DeformedConvolution(
        (numbers[0], numbers[1]), (numbers[2], numbers[3]), (numbers[4], numbers[5]), *numbers[6:]
    )
    factors = node.tensor(3) if node.given(13) else None
    return how.of(image, weight, offsets, factors, node.tensor(4), node.emit)
