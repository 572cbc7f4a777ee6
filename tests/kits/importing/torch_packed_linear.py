"""A linear layer of PyTorch whose weights are words of eight numbers."""

from __future__ import annotations

import torch

from kits.importing.torch_functions import NIBBLES

__all__ = ["PackedLinear"]


class PackedLinear(torch.nn.Module):
    """Weights of 4 bits, eight in each int32, and zero points likewise, as GPTQ stores them."""

    def __init__(self, inputs, outputs, group):
        super().__init__()
        draw = torch.Generator().manual_seed(1)

        def words(*shape):
            return torch.randint(-(2**31), 2**31 - 1, shape, generator=draw).int()

        self.register_buffer("words", words(inputs // 8, outputs))
        self.register_buffer("zeros", words(inputs // group, outputs // 8))
        self.register_buffer("scales", torch.rand(inputs // group, outputs, generator=draw) * 0.02 + 0.01)
        self.register_buffer("places", NIBBLES)
        self.shape = inputs, outputs, group

    def forward(self, x):
        inputs, outputs, group = self.shape
        zeros = (torch.bitwise_right_shift(self.zeros[:, :, None], self.places) & 15).reshape(-1, 1, outputs)
        parts = torch.bitwise_right_shift(self.words[:, None], self.places[:, None]) & 15
        numbers = parts.reshape(-1, group, outputs) - zeros - 1
        return x @ (self.scales[:, None] * numbers).reshape(inputs, outputs)
