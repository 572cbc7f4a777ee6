"""`deform_conv2d` as torchvision declares it, in programs that are exported and not run."""

from __future__ import annotations

import torch
from torch import library as operators

__all__ = ["exported_deformed"]

_OP = "torchvision::deform_conv2d"


def _declared() -> None:
    if hasattr(torch.ops.torchvision, "deform_conv2d"):
        return
    operators.define(
        _OP,
        "(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, "
        "SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, "
        "SymInt offset_groups, bool use_mask) -> Tensor",
    )

    @operators.register_fake(_OP)
    def deformed(image, weight, offset, *rest):
        return image.new_empty(image.shape[0], weight.shape[0], *offset.shape[2:])


class _Deformed(torch.nn.Module):
    def __init__(self, form, weight, bias):
        super().__init__()
        self.form = form
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)

    def forward(self, x, offset, mask):
        form = self.form
        return torch.ops.torchvision.deform_conv2d(
            x,
            self.weight,
            offset,
            mask if form.has_factors else x.new_zeros(x.shape[0], 1),
            self.bias,
            *form.strides,
            *form.padding[:2],
            *form.dilations,
            form.groups,
            form.offset_groups,
            form.has_factors,
        )


def exported_deformed(form, arrays, *, any_batch=False):
    """A program of image, offsets and factors."""
    _declared()
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    bias = tensors.get("b", torch.zeros(form.outputs, dtype=tensors["x"].dtype))
    given = [tensors["x"], tensors["offset"], tensors.get("mask", torch.zeros(form.batch, 1))]
    batch = torch.export.Dim("batch")
    shapes = tuple({0: batch} for _ in given) if any_batch else None
    return torch.export.export(_Deformed(form, tensors["w"], bias), tuple(given), dynamic_shapes=shapes)
