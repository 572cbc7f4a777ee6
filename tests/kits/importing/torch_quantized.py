"""Quantized programs of PyTorch: by observers (PT2E), with scales chosen in each call, and in training."""

from __future__ import annotations

import torch
import torch.ao.quantization.fx._decomposed
from torch import nn
from torch.export import Dim
from torch.nn import functional

from kits.importing.torch_blocks import Case, seeded

__all__ = ["CASES", "OTHERS"]

OPS = torch.ops.quantized_decomposed
SIGNED = (-128, 127, torch.int8)
UNSIGNED = (0, 255, torch.uint8)


def rounded(x, scale, zero, span=UNSIGNED):
    """A tensor as the integers of one grid stand for it."""
    integers = OPS.quantize_per_tensor.default(x, scale, zero, *span)
    return OPS.dequantize_per_tensor.default(integers, scale, zero, *span)


class Weight(nn.Module):
    """Constant bytes with a scale for each slice of the first axis."""

    def __init__(self, *shape):
        super().__init__()
        numbers = torch.Generator().manual_seed(sum(shape))
        self.register_buffer("bytes", torch.randint(-127, 128, shape, generator=numbers, dtype=torch.int8))
        self.register_buffer("scales", torch.rand(shape[0], generator=numbers) * 0.01 + 0.001)
        self.register_buffer("zeros", torch.zeros(shape[0], dtype=torch.int64))

    def forward(self):
        span = (-127, 127, torch.int8)
        return OPS.dequantize_per_channel.default(self.bytes, self.scales, self.zeros, 0, *span)


class Network(nn.Module):
    """Convolutions, a sum, a mean and a product; activations have the range of x86 in one place."""

    def __init__(self):
        super().__init__()
        self.weights = nn.ModuleList([Weight(6, 4, 3, 3), Weight(6, 6, 3, 3), Weight(5, 6)])

    def forward(self, x):
        x = rounded(x[:, None].expand(-1, 4, -1, -1), 0.03, 128)
        one, other, last = (weight() for weight in self.weights)
        y = rounded(functional.conv2d(x, one, padding=1).relu(), 0.05, 0, (0, 127, torch.uint8))
        y = rounded(functional.conv2d(y, other, padding=1) + y, 0.1, 100)
        return [rounded(functional.linear(y.mean((2, 3)), last), 0.02, -3, SIGNED)]


class Dynamic(nn.Module):
    """Products whose left sides get their scales in each call."""

    def __init__(self):
        super().__init__()
        self.weight = Weight(6, 8)

    def forward(self, x):
        sums = []
        for choose, span in (
            (OPS.choose_qparams.tensor, SIGNED),
            (OPS.choose_qparams.tensor, UNSIGNED),
            (OPS.choose_qparams_symmetric.tensor, SIGNED),
            (OPS.choose_qparams_symmetric.tensor, UNSIGNED),
        ):
            scale, zero = choose(x, *span[:2], 1e-6, span[2])
            integers = OPS.quantize_per_tensor.tensor(x, scale, zero, *span)
            floats = OPS.dequantize_per_tensor.tensor(integers, scale, zero, *span)
            sums.append(functional.linear(floats, self.weight()))
        return sums


class Fake(nn.Module):
    """Rounded in training: by one scale, by each column, into a part of the bytes, into 16 bits."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scales", torch.arange(1, 9) * 0.02)
        self.register_buffer("zeros", torch.arange(8, dtype=torch.int32))
        self.register_buffer("one", torch.tensor([0.05]))
        self.register_buffer("shift", torch.tensor([5], dtype=torch.int32))

    def forward(self, x):
        whole, slices = torch.fake_quantize_per_tensor_affine, torch.fake_quantize_per_channel_affine
        parts = [whole(x, 0.04, 3, -128, 127), whole(x, 0.01, 3, 0, 100)]
        parts += [slices(x, self.scales, self.zeros, x.ndim - 1, 0, 255)]
        parts += [whole(x, self.one, self.shift, -100, 127), whole(x, 0.001, 7, -32768, 32767)]
        return [*parts, slices(x, self.scales, self.zeros, x.ndim - 1, -8, 7)]


class Values(nn.Module):
    """Integers and scales as results: of rows, of columns without zero points, of 32 bits, of 4 bits."""

    def forward(self, x):
        scales = x.abs().amax(-1, keepdim=True) / 100 + 0.01
        by_row = OPS.quantize_per_token(x, scales, torch.ones_like(scales), *SIGNED)
        wide = (-(2**31), 2**31 - 1, torch.int32)
        columns, zeros = torch.arange(1, 9) * 0.25, torch.zeros(8, dtype=torch.int64)
        half = OPS.dequantize_per_tensor.default(by_row, 0.5, 2, *SIGNED, out_dtype=torch.float16)
        return [
            by_row,
            OPS.dequantize_per_token(by_row, scales, torch.ones_like(scales), *SIGNED, torch.float32),
            OPS.quantize_per_tensor.default(x, 0.25, 9, *wide),
            OPS.dequantize_per_channel.default(by_row, columns, None, 1, *SIGNED),
            OPS.quantize_per_channel.default(x, columns, zeros, 1, -8, 7, torch.int8),
            half,
            *OPS.choose_qparams.tensor(x, -100, 90, 1e-6, torch.int8),
            *OPS.choose_qparams_symmetric.tensor(x, 0, 255, 1e-6, torch.uint8),
        ]


class Eighths(nn.Module):
    """Integers of 64 bits, for which there is no grid."""

    def forward(self, x):
        integers = torch.ops.quantized_decomposed.quantize_per_tensor.default
        return [integers(x, 0.1, 0, -8, 7, torch.int64)]


ROWS = ({0: Dim.DYNAMIC},)
CASES = {
    "network": Case(Network(), ROWS, [(seeded(count, 5, 6),) for count in (2, 3)]),
    "dynamic": Case(Dynamic(), ROWS, [(seeded(count, 8) * count,) for count in (2, 5)]),
    "fake": Case(Fake(), None, [(seeded(3, 8) * count,) for count in (2, 5)]),
}
"""What targets claim whole."""

OTHERS = {"values": Case(Values(), ROWS, [(seeded(4, 8) * 3,), (torch.zeros(2, 8),)])}
