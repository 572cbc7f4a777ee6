"""`roi_align` as torchvision declares it, in programs that are exported and not run."""

from __future__ import annotations

import torch
from torch import library as operators

__all__ = ["exported_pooling"]

_OP = "torchvision::roi_align"


def _declared() -> None:
    if hasattr(torch.ops.torchvision, "roi_align"):
        return
    operators.define(
        _OP,
        "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
        "int sampling_ratio, bool aligned) -> Tensor",
    )

    @operators.register_fake(_OP)
    def pooled(image, rows, scale, height, width, samples, aligned):
        return image.new_empty(rows.shape[0], image.shape[1], height, width)


class _Pooling(torch.nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.settings = settings

    def forward(self, image, rows):
        return torch.ops.torchvision.roi_align(image, rows, *self.settings)


def exported_pooling(image, rows, *settings):
    """A program that pools boxes; `settings` are the arguments of `roi_align` behind image and rows."""
    _declared()
    return torch.export.export(_Pooling(settings), (torch.from_numpy(image), torch.from_numpy(rows)))
