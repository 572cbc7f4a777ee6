"""The networks of the zoo: which there are on each road, found by name without importing what makes them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from annotated_region.errors import ModelError

if TYPE_CHECKING:
    from kits.zoo.onnx_model import OnnxModel
    from kits.zoo.torch_model import TorchModel

__all__ = ["ONNX_NETWORKS", "TORCH_NETWORKS", "onnx_network", "torch_network"]

ONNX_NETWORKS: Mapping[str, tuple[str, ...]] = {
    "decode": ("llama_decode", "qwen_decode", "gemma_decode", "gpt2_decode", "phi_decode"),
    "encoder_decoder": ("t5", "whisper_decode"),
    "positions": ("bloom_decode", "conformer_rotary", "conformer_relative"),
    "windows": ("swin", "sam_encoder"),
    "detection": ("detr", "rt_detr", "yolo"),
    "sequences": (
        "mamba_unrolled", "mamba_closed", "retention", "linear_attention", "gru", "lstm", "speech",
    ),
    "experts": ("soft_experts", "mixtral_experts"),
    "diffusion": ("unet", "vae_decoder", "dit"),
    "images": (
        "efficientnet", "mobilenet_v3", "convnext_v2", "shufflenet_v2", "super_resolution", "segmentation",
    ),
    "others": (
        "graph_convolution", "graph_attention", "sound", "wavenet", "recommender", "mixer", "perceiver",
    ),
    "quantized": ("quantized_llama", "dynamically_quantized_llama"),
}  # fmt: skip
"""By the family (a file of `onnx_families`), the networks that are ONNX graphs."""

TORCH_NETWORKS: Mapping[str, tuple[str, ...]] = {
    "decode": ("llama_decode", "qwen_decode", "gemma_decode", "gpt2_decode"),
    "encoder_decoder": ("t5", "whisper"),
    "positions": ("bloom_decode", "conformer_rotary", "conformer_relative"),
    "windows": ("swin", "sam_encoder"),
    "detection": ("detr", "rt_detr", "yolo"),
    "sequences": ("mamba_looped", "mamba_closed", "gru", "lstm", "rwkv"),
    "experts": ("mixtral_experts", "soft_experts"),
    "diffusion": ("unet", "vae_decoder", "dit"),
    "images": (
        "efficientnet", "mobilenet_v3", "convnext_v2", "shufflenet_v2", "super_resolution", "segmentation",
    ),
    "others": ("graph_convolution", "graph_attention", "sound", "wavenet", "recommender"),
}  # fmt: skip
"""By the family (a file of `torch_families`), the networks that are PyTorch modules."""


def onnx_network(name: str) -> OnnxModel:
    """The network of a name that is an ONNX graph; needs the package ``onnx``.

    Raises
    ------
    ModelError
        There is no such network.
    """
    found: OnnxModel = _found(name, ONNX_NETWORKS, "onnx_families")
    return found


def torch_network(name: str) -> TorchModel:
    """The network of a name that is a PyTorch module; needs PyTorch.

    Raises
    ------
    ModelError
        There is no such network.
    """
    found: TorchModel = _found(name, TORCH_NETWORKS, "torch_families")
    return found


def _found(name: str, networks: Mapping[str, tuple[str, ...]], folder: str) -> Any:
    for family, names in networks.items():
        if name in names:
            module = importlib.import_module(f"kits.zoo.{folder}.{family}")
            return next(model for model in module.MODELS if model.name == name)
    known = ", ".join(name for names in networks.values() for name in names)
    raise ModelError(f"there is no network {name!r} among {folder}; choose one of {known}")
