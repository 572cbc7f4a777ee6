"""Functions of PyTorch that are refused, each for another reason."""

from __future__ import annotations

import torch
from torch.nn import functional

from kits.importing.torch_operands import numbers

__all__ = ["REFUSED"]

REFUSED = {
    "antialiasing between corners": lambda x: torch.nn.functional.interpolate(
        x[None], size=(3, 3), mode="bilinear", antialias=True, align_corners=True
    ),
    "an op without converter": torch.digamma,
    "truth values as an index": lambda x: x[x > 0],
    "quotients of selected whole numbers": lambda x: ((x * 9).long()[x > 0] // (x * 9).long()[x > 0]).sum(),
    "selected rows beside others": lambda x: x[x > 0].cumsum(0).sum(),
    "places of maxima": lambda x: functional.adaptive_max_pool2d(x, 2, return_indices=True)[1],
    "a reduction into a scalar": lambda x: x.sum().scatter_reduce(
        0, numbers(x)[0, 0, 0] * 0, x.amax(), "prod"
    ),
    "a sorter": lambda x: torch.searchsorted(x[0, 0], x[0], sorter=torch.argsort(x[0, 0])),
    "bits that are moved away": lambda x: numbers(x) >> 64,
    "blended bytes": lambda x: functional.interpolate(
        numbers(x)[None].to(torch.uint8), (3, 3), mode="bilinear", align_corners=True
    ),
    "smoothed bytes": lambda x: functional.interpolate(
        numbers(x)[None].to(torch.uint8), (3, 3), mode="bilinear", antialias=True
    ),
    "memory beside a view": lambda x: x[:, 1:3].as_strided((2, 4), (1, 2)),
    "memory behind a view": lambda x: x[0, :1].as_strided((2, 4), (8, 2)),
    "an effect": lambda x: torch.linalg.inv(x[0, :3, :3]),
    "random numbers": lambda x: x + torch.randn_like(x),
    "random places": lambda x: x[torch.randint(0, 2, (3,))],
    "branches": lambda x: torch.cond(
        x.sum() > 0, lambda y: torch.take(torch.arange(9.0), y[0, 0].long()), lambda y: y[0, 0].sin(), (x,)
    ),
}
