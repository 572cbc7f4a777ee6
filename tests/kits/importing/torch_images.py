"""Functions of images of PyTorch that TVM converts to something else, by names: resized, sampled, pooled."""

from __future__ import annotations

import math

import torch
from torch.nn import functional

__all__ = ["IMAGES", "SIZES"]


def grid_of(x):
    return torch.tanh(x[:, :2].permute(0, 2, 3, 1)) * 1.2


def grid_of_volume(x):
    return torch.stack([torch.tanh(x), torch.sin(3 * x), torch.tanh(x * x) - 0.3], -1) * 1.4


IMAGES = {
    "a grid": lambda x: torch.nn.functional.grid_sample(x, grid_of(x), align_corners=False),
    "a grid that ends at the border": lambda x: torch.nn.functional.grid_sample(
        x, grid_of(x), mode="nearest", padding_mode="border", align_corners=True
    ),
    "grids of all kinds": lambda x: tuple(
        functional.grid_sample(x, 1.3 * grid_of(x), mode, outside, aligned)
        for mode, outside, aligned in (
            ("bilinear", "reflection", True),
            ("nearest", "reflection", False),
            ("nearest", "zeros", True),
            ("bicubic", "zeros", False),
            ("bicubic", "border", True),
            ("bicubic", "reflection", False),
        )
    ),
    "grids of volumes": lambda x: tuple(
        functional.grid_sample(x[:, None], grid_of_volume(x), mode, outside, aligned)
        for mode, outside, aligned in (
            ("bilinear", "zeros", False),
            ("bilinear", "reflection", True),
            ("nearest", "border", False),
        )
    ),
    "a divisor": lambda x: torch.nn.functional.avg_pool2d(x, (2, 3), (1, 2), (1, 1), divisor_override=5),
    "a divisor, rounded up": lambda x: (
        functional.avg_pool2d(x, 3, 1, 1, True, False, 2),
        functional.avg_pool2d(x, (4, 4), (3, 5), 1, True, False, 2),
        functional.avg_pool2d(x[0], (6, 6), (3, 3), (2, 3), True, True, 2),
        functional.avg_pool3d(x[:, None], (2, 3, 4), (1, 2, 2), (0, 1, 2), True, True, 2),
        functional.avg_pool3d(x, (3, 3, 4), (2, 3, 2), (1, 1, 0), False, False, 7),
    ),
    "a divisor of whole numbers": lambda x: (
        functional.avg_pool2d((9 * x).to(torch.int64), (3, 2), (2, 1), 1, True, False, 2),
        functional.avg_pool3d((9 * x[:, None]).to(torch.int64), (2, 3, 4), divisor_override=5),
    ),
    "nearest, not by whole factors": lambda x: torch.nn.functional.interpolate(x, size=(7, 11)),
    "nearest, smaller": lambda x: torch.nn.functional.interpolate(x, size=(3, 5)),
    "nearest, by factors": lambda x: functional.interpolate(x, scale_factor=(2.3, 0.4)),
    "means, by factors": lambda x: functional.interpolate(x, scale_factor=(1.7, 0.6), mode="bilinear"),
    "transposed convolutions of volumes": lambda x: (
        functional.conv_transpose3d(
            x[:, :, None], torch.arange(96.0).reshape(3, 2, 2, 2, 4) / 96, torch.ones(2), stride=(1, 2, 3)
        ),
        functional.conv_transpose3d(
            x[:, :, None], torch.arange(81.0).reshape(3, 1, 3, 3, 3) / 81, None, 2, 1, 1, 3, (1, 1, 1)
        ),
    ),
    "maxima of parts": lambda x: (
        functional.adaptive_max_pool3d(x, (2, 5, 3)),
        functional.adaptive_max_pool2d(x, (5, 3)),
        functional.adaptive_max_pool2d(x, 1),
    ),
    "places of maxima": lambda x: (
        *functional.max_pool2d(x, 2, return_indices=True),
        *functional.max_pool2d(x.round(), 3, 2, 1, return_indices=True),
        *functional.max_pool2d(x, (3, 2), 2, 1, (2, 3), ceil_mode=True, return_indices=True),
        *functional.max_pool2d(torch.where(x > 0.3, x, -torch.inf), 3, 1, 1, return_indices=True),
        functional.max_pool2d(torch.where(x > 0.8, torch.nan, x), 2, return_indices=True)[1],
        *functional.max_pool2d((9 * x[0]).to(torch.int64), 2, return_indices=True),
        *functional.max_pool1d(x[0], 3, 2, return_indices=True),
        *functional.max_pool3d(x[:, None], (2, 3, 2), (1, 2, 2), (1, 1, 0), return_indices=True),
    ),
    "maxima back in their places": lambda x: (
        functional.max_unpool2d(*functional.max_pool2d(x, 2, return_indices=True), 2),
        functional.max_unpool2d(*functional.max_pool2d(x, 3, 3, return_indices=True), 3, output_size=x.shape),
    ),
    "means of parts": lambda x: (
        functional.adaptive_avg_pool2d(x, (5, 3)),
        functional.adaptive_avg_pool2d(x, (16, 7)),
    ),
    "cropped": lambda x: functional.pad(x, (-2, 1, 3, -1), value=4.0) + functional.pad(x, (-1, 0, 2, 0)),
    "means between corners": lambda x: (
        functional.interpolate(x, size=(5, 17), mode="bilinear", align_corners=True),
        functional.interpolate(x, size=(1, 1), mode="bilinear", align_corners=True),
        functional.interpolate(x, scale_factor=(2, 1.7), mode="bilinear", align_corners=True),
    ),
    "means, by whole factors": lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"),
    "smoothed": lambda x: (
        functional.interpolate(x, size=(5, 17), mode="bilinear", antialias=True),
        functional.interpolate(x, size=(7, 4), mode="bicubic", antialias=True),
        functional.interpolate(x, scale_factor=(0.3, 1.3), mode="bicubic", antialias=True),
    ),
}

SIZES = {
    "to the size of another": lambda x: [
        functional.interpolate(functional.avg_pool2d(x, 2), size=x.shape[-2:], **how)
        for how in (
            {"mode": "bilinear"},
            {"mode": "bilinear", "align_corners": True},
            {"mode": "nearest"},
        )
    ],
    "to one of two axes": lambda x: functional.interpolate(x, size=(5, x.shape[2]), mode="bilinear"),
    "by factors": lambda x: [
        functional.interpolate(x, scale_factor=factors, **how)
        for factors in (0.5, (2, 1.25))
        for how in (
            {"mode": "bilinear"},
            {"mode": "bilinear", "align_corners": True},
            {"mode": "nearest"},
        )
    ],
    "extents by factors": lambda x: [
        x[0, 0, 0, 0] + torch.arange(size)
        for size in (math.ceil(x.shape[2] * 0.75), math.ceil(x.shape[3] * 1.5))
    ],
    "to one row": lambda x: functional.interpolate(
        x, size=(1, x.shape[3]), mode="bilinear", align_corners=True
    ),
    "maxima, rounded up": lambda x: (
        functional.max_pool2d(x, 3, 2, ceil_mode=True),
        functional.max_pool2d(x, 3, 2, 1, ceil_mode=True),
        functional.max_pool2d(x, 2, 2, 1, ceil_mode=True),
        functional.max_pool2d(x[0], (3, 2), 2, ceil_mode=True),
        functional.max_pool3d(x[:, None], (1, 3, 2), (1, 2, 2), ceil_mode=True),
        functional.max_pool2d(functional.max_pool2d(x, 2, 2, ceil_mode=True), 2, 2, ceil_mode=True),
    ),
    "means, rounded up": lambda x: (
        functional.avg_pool1d(x[:, 0], 3, 2, ceil_mode=True),
        functional.avg_pool2d(x, 3, 2, ceil_mode=True),
        functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True, divisor_override=5),
        functional.avg_pool3d(x[:, None], (1, 3, 2), (1, 2, 2), ceil_mode=True),
    ),
}
