"""Networks of diffusion models with seeded weights, as ONNX, with group norm as PyTorch exports it.

The decoder is that of an autoencoder with a latent image (Rombach et al., High-Resolution Image Synthesis
with Latent Diffusion Models, 2022): residual blocks, an attention in the middle, nearest neighbours between
stages. The block is one residual block of a U-Net with the embedding of a time step, and the attention
behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from annotated_region.errors import ModelError
from kits.onnx_network import Network

__all__ = ["DIFFUSION_MODELS", "diffusion_model"]

GROUPS = 32
EPSILON = 1e-6
LATENTS = 4
EMBEDDING = 256


@dataclass(frozen=True, slots=True)
class _Size:
    """Channels of each stage, residual blocks of each, and pixels of a side of the smallest image."""

    channels: tuple[int, ...]
    blocks: int
    side: int


SIZES: Mapping[str, Mapping[str, _Size]] = {
    "vae_decoder": {"base": _Size((256, 256, 128, 64), 2, 16), "small": _Size((64, 32), 1, 8)},
    "unet_block": {"base": _Size((320,), 1, 32), "small": _Size((64,), 1, 8)},
}
DIFFUSION_MODELS: tuple[str, ...] = tuple(SIZES)


def diffusion_model(name: str, size: str = "base") -> onnx.ModelProto:
    """One of `DIFFUSION_MODELS`, of size ``"base"`` or ``"small"``.

    Raises
    ------
    ModelError
        There is no such model.
    """
    if name not in SIZES or size not in SIZES[name]:
        raise ModelError(
            f"there is no model {name!r} of size {size!r}; choose one of {', '.join(SIZES)}, base or small"
        )
    writer = _Writer(Network(f"{name}_{size}"))
    return writer.decoder(SIZES[name][size]) if name == "vae_decoder" else writer.block(SIZES[name][size])


@dataclass(frozen=True, slots=True)
class _Writer:
    """The parts of both networks."""

    net: Network

    def decoder(self, size: _Size) -> onnx.ModelProto:
        net, side, width = self.net, size.side, size.channels[0]
        value = net.conv(net.input("latents", (1, LATENTS, side, side)), (width, LATENTS, 3, 3))
        value = self.residual(value, width, width, side)
        value = self.residual(self.attention(value, width, side), width, width, side)
        for stage, channels in enumerate(size.channels):
            for _ in range(size.blocks):
                value = self.residual(value, width, channels, side)
                width = channels
            if stage + 1 < len(size.channels):
                side *= 2
                value = net.conv(self.enlarged(value), (width, width, 3, 3))
        value = net.conv(self.activated(value, width, side), (3, width, 3, 3))
        return net.model(value, (1, 3, side, side))

    def block(self, size: _Size) -> onnx.ModelProto:
        net, side, width = self.net, size.side, size.channels[0]
        image = net.input("image", (1, width, side, side))
        step = net.input("step", (1, EMBEDDING))
        shift = net.op("Reshape", net.dense(self.silu(step), EMBEDDING, width), net.shape(1, width, 1, 1))
        inner = net.op("Add", net.conv(self.activated(image, width, side), (width, width, 3, 3)), shift)
        inner = net.conv(self.activated(inner, width, side), (width, width, 3, 3))
        value = self.attention(net.op("Add", image, inner), width, side)
        return net.model(value, (1, width, side, side))

    def residual(self, value: str, inputs: int, outputs: int, side: int) -> str:
        net = self.net
        inner = net.conv(self.activated(value, inputs, side), (outputs, inputs, 3, 3))
        inner = net.conv(self.activated(inner, outputs, side), (outputs, outputs, 3, 3))
        same = value if inputs == outputs else net.conv(value, (outputs, inputs, 1, 1))
        return net.op("Add", same, inner)

    def attention(self, value: str, width: int, side: int) -> str:
        """One head over all pixels."""
        net, pixels = self.net, side * side
        rows = net.op("Reshape", self.group_norm(value, width, side), net.shape(1, width, pixels))
        rows = net.op("Transpose", rows, perm=[0, 2, 1])
        queries, keys, values = (net.dense(rows, width, width) for _ in range(3))
        scores = net.op("MatMul", queries, net.op("Transpose", keys, perm=[0, 2, 1]))
        weights = net.op("Softmax", net.op("Mul", scores, net.number(width**-0.5)), axis=-1)
        result = net.op(
            "Transpose", net.dense(net.op("MatMul", weights, values), width, width), perm=[0, 2, 1]
        )
        return net.op("Add", net.op("Reshape", result, net.shape(1, width, side, side)), value)

    def activated(self, value: str, width: int, side: int) -> str:
        return self.silu(self.group_norm(value, width, side))

    def silu(self, value: str) -> str:
        return self.net.op("Mul", value, self.net.op("Sigmoid", value))

    def group_norm(self, value: str, width: int, side: int) -> str:
        """PyTorch exports it as an instance norm between two reshapes, then scale and shift."""
        net, groups = self.net, min(GROUPS, width)
        ones, zeros = (net.constant(make(groups, "float32")) for make in (np.ones, np.zeros))
        rows = net.op("Reshape", value, net.shape(0, groups, -1))
        normal = net.op("InstanceNormalization", rows, ones, zeros, epsilon=EPSILON)
        image = net.op("Reshape", normal, net.shape(1, width, side, side))
        scaled = net.op("Mul", image, net.weight((width, 1, 1), 0.1, 1.0))
        return net.op("Add", scaled, net.weight((width, 1, 1), 0.1))

    def enlarged(self, value: str) -> str:
        scales = self.net.constant(np.asarray((1, 1, 2, 2), "float32"))
        modes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return self.net.op("Resize", value, "", scales, mode="nearest", **modes)
