"""How PyTorch users write the parts of networks: each a function of the module `torch` and its inputs.

Nothing here imports PyTorch, so that the tests of these can be collected, and skipped, without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["IDIOMS", "Idiom"]

Shape = tuple[int, ...]
Body = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Idiom:
    """A function of `torch` and tensors of these shapes."""

    name: str
    shapes: tuple[Shape, ...]
    body: Body


IDIOMS: list[Idiom] = []


def idiom(name: str, *shapes: Shape) -> Callable[[Body], Body]:
    def register(body: Body) -> Body:
        IDIOMS.append(Idiom(name, shapes, body))
        return body

    return register


IMAGE: Shape = (2, 8, 6, 6)
ROWS: Shape = (2, 5, 16)
HEADS: Shape = (2, 4, 6, 8)


def function(name: str, *shapes: Shape, **options: Any) -> None:
    """One of ``torch.nn.functional``."""
    idiom(name, *shapes)(lambda torch, *inputs: getattr(torch.nn.functional, name)(*inputs, **options))


for _name in (
    "hardswish",
    "hardsigmoid",
    "relu6",
    "mish",
    "silu",
    "gelu",
    "leaky_relu",
    "softmax",
    "elu",
    "softplus",
):
    function(_name, ROWS, **({"dim": -1} if _name == "softmax" else {}))
function("adaptive_avg_pool2d", IMAGE, output_size=(3, 2))
function("avg_pool2d", IMAGE, kernel_size=2)
function("max_pool2d", IMAGE, kernel_size=3, stride=2, padding=1)
function("instance_norm", IMAGE)
function("layer_norm", ROWS, normalized_shape=(16,))
function("rms_norm", ROWS, normalized_shape=(16,))
function("normalize", ROWS, dim=-1)
idiom("group_norm", IMAGE, (8,), (8,))(
    lambda torch, x, scale, shift: torch.nn.functional.group_norm(x, 4, scale, shift)
)
idiom("first_of_a_row", ROWS)(lambda torch, x: torch.relu(x)[:, 0])
idiom("gelu_tanh", ROWS)(lambda torch, x: torch.nn.functional.gelu(x, approximate="tanh"))
idiom("upsample", IMAGE)(
    lambda torch, x: torch.nn.functional.interpolate(x, scale_factor=2.0, mode="nearest")
)
idiom("upsample_linear", IMAGE)(
    lambda torch, x: torch.nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear")
)
idiom("pixel_shuffle", IMAGE)(lambda torch, x: torch.nn.functional.pixel_shuffle(x, 2))
idiom("channels_mean", IMAGE)(lambda torch, x: x.mean(dim=[2, 3]))
idiom("squeeze_and_excite", IMAGE, (4, 8), (8, 4))(
    lambda torch, x, w, v: x * torch.sigmoid(torch.relu(x.mean((2, 3)) @ w.T) @ v.T)[:, :, None, None]
)
idiom("rms_norm_by_hand", ROWS, (16,))(
    lambda torch, x, w: w * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))
)
idiom("gated", ROWS)(lambda torch, x: torch.nn.functional.glu(x, dim=-1))
idiom("every_second", ROWS)(lambda torch, x: torch.relu(x[..., ::2]))
idiom("window", ROWS)(lambda torch, x: torch.relu(x[:, 1:-1]))
idiom("einsum", HEADS, HEADS)(lambda torch, q, k: torch.einsum("bhqd,bhkd->bhqk", q, k))
idiom("stack_and_flatten", ROWS)(
    lambda torch, x: torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).flatten(-2)
)
idiom("masked_fill", HEADS, HEADS)(lambda torch, x, y: x.masked_fill(y < 0, float("-inf")).softmax(-1))
idiom("var", ROWS)(
    lambda torch, x: (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
)
idiom("repeat_interleave", HEADS)(lambda torch, x: torch.relu(x).repeat_interleave(2, dim=1))
idiom("attention_grouped", HEADS, (2, 2, 6, 8), (2, 2, 6, 8))(
    lambda torch, q, k, v: torch.nn.functional.scaled_dot_product_attention(
        q, k, v, is_causal=True, enable_gqa=True
    )
)
idiom("attention_scale", HEADS, HEADS, HEADS)(
    lambda torch, q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=0.5)
)
idiom("attention_float_mask", HEADS, HEADS, HEADS, (2, 1, 6, 6))(
    lambda torch, q, k, v, mask: torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
)
idiom("attention_truth_mask", HEADS, HEADS, HEADS, (2, 1, 6, 6))(
    lambda torch, q, k, v, mask: torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask > 0)
)


@idiom("attention_by_hand", HEADS, HEADS, HEADS)
def _(torch: Any, q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.transpose(-2, -1) / 8**0.5
    hidden = torch.ones(6, 6, dtype=torch.bool).triu(1)
    return scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v


@idiom("multi_head_attention", ROWS, (48, 16), (48,), (16, 16), (16,))
def _(torch: Any, x: Any, joined: Any, joined_bias: Any, output: Any, bias: Any) -> Any:
    rows = x.transpose(0, 1)
    mixed, _ = torch.nn.functional.multi_head_attention_forward(
        rows, rows, rows, 16, 4, joined / 4, joined_bias, None, None, False, 0.0, output / 4, bias,
        training=False, need_weights=False, attn_mask=torch.ones(5, 5, dtype=torch.bool).triu(1),
    )  # fmt: skip
    return mixed
