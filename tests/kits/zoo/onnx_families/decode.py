"""Decode steps as ONNX graphs: new words, keys and values of the words before, and both as they have grown.

The Llama has grouped heads and rotary positions, the Qwen norms of queries and keys, the Gemma soft caps, a
window and norms on both sides, the GPT-2 learned positions and biases, the Phi attention beside its
feed-forward layer and positions that turn half of each head. All hide padding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kits.onnx_network import Network
from kits.zoo.onnx_blocks import (
    attention,
    causal_bias,
    cosines_and_sines,
    heads,
    joined,
    project,
    repeated,
    rms_norm,
    rotated,
    sigmoid_linear,
    sliced,
    with_past,
)
from kits.zoo.onnx_model import OnnxModel
from kits.zoo.signature import Form, Input, Kind, Sizes

__all__ = ["DECODE_FORMS", "MODELS", "past_of", "step"]

WIDTH, HEADS, PAIRS, PART, HIDDEN, WORDS = 32, 4, 2, 8, 48, 32
GROUP = HEADS // PAIRS


def step(batch: int, past: int, length: int) -> Sizes:
    """The sizes of one call."""
    return {"batch": batch, "past": past, "length": length}


ONE, FEW, LATER = step(1, 5, 1), step(3, 6, 4), step(1, 11, 1)
ONE_OF_ANY_PAST = Form("any_past", {"batch": 1, "length": 1}, (ONE, LATER))

DECODE_FORMS = (
    Form("one_word", ONE, (ONE,)),
    Form("few_words", FEW, (FEW,)),
    ONE_OF_ANY_PAST,
    Form("symbolic", {}, (ONE, FEW, LATER, step(2, 1, 1))),
)
"""One word, a few words, one word after any past, and everything symbolic."""


def past_of(layers: int, pairs: int = PAIRS, part: int = PART) -> tuple[Input, ...]:
    """The keys and the values of the words before, layer by layer."""
    shape = ("batch", pairs, "past", part)
    return tuple(Input(f"past_{kind}_{layer}", shape) for layer in range(layers) for kind in "kv")


TAKEN = (
    Input("ids", ("batch", "length"), Kind.WORDS),
    Input("positions", ("batch", "length"), Kind.POSITIONS),
    Input("seen", ("batch", "past + length"), Kind.SEEN),
)


@dataclass(frozen=True, slots=True)
class Manner:
    """How a decoder differs from the Llama.

    Attributes
    ----------
    norms_heads
        Whether queries and keys pass a norm (Qwen 3, Gemma 3).
    cap
        The bound that scores approach (Gemma 2); 0 for none.
    windows
        How many words each layer sees; 0 for all.
    norms_results
        Whether attention and feed-forward layer pass a norm before they are added (Gemma).
    """

    norms_heads: bool = False
    cap: float = 0.0
    windows: tuple[int, ...] = (0, 0)
    norms_results: bool = False


def _grouped(
    net: Network, n: str, layer: int, turns: tuple[str, str], manner: Manner
) -> tuple[str, str, str]:
    """The mixed values of grouped heads, and the keys and values of all words."""
    q = heads(net, project(net, n, WIDTH, HEADS * PART), HEADS, PART)
    k = heads(net, project(net, n, WIDTH, PAIRS * PART), PAIRS, PART)
    v = heads(net, project(net, n, WIDTH, PAIRS * PART), PAIRS, PART)
    if manner.norms_heads:
        q, k = rms_norm(net, q, PART), rms_norm(net, k, PART)
    q, k = rotated(net, q, PART, turns), rotated(net, k, PART, turns)
    keys, values = with_past(net, f"past_k_{layer}", k), with_past(net, f"past_v_{layer}", v)
    bias = causal_bias(net, "seen", "positions", manner.windows[layer])
    wide_keys, wide_values = (repeated(net, each, PAIRS, GROUP, PART) for each in (keys, values))
    mixed = attention(net, q, wide_keys, wide_values, PART, bias, manner.cap)
    return joined(net, mixed, HEADS * PART), keys, values


def _gated(net: Network, n: str, activation: Callable[[Network, str], str]) -> str:
    gate = activation(net, project(net, n, WIDTH, HIDDEN))
    return project(net, net.op("Mul", gate, project(net, n, WIDTH, HIDDEN)), HIDDEN, WIDTH, 0.7)


def _decoder(net: Network, manner: Manner) -> Sequence[str]:
    x = net.op("Gather", net.weight((WORDS, WIDTH), 1.0), "ids")
    turns = cosines_and_sines(net, "positions", PART)
    activation = Network.gelu_tanh if manner.norms_results else sigmoid_linear
    grown: list[str] = []
    for layer in range(len(manner.windows)):
        mixed, keys, values = _grouped(net, rms_norm(net, x, WIDTH), layer, turns, manner)
        grown += [keys, values]
        mixed = project(net, mixed, HEADS * PART, WIDTH)
        x = net.op("Add", x, rms_norm(net, mixed, WIDTH) if manner.norms_results else mixed)
        inner = _gated(net, rms_norm(net, x, WIDTH), activation)
        x = net.op("Add", x, rms_norm(net, inner, WIDTH) if manner.norms_results else inner)
    scores = project(net, rms_norm(net, x, WIDTH), WIDTH, WORDS)
    if manner.cap:
        scores = net.op("Mul", net.op("Tanh", net.op("Div", scores, net.number(3.0))), net.number(3.0))
    return [scores, *grown]


def _gpt2(net: Network) -> Sequence[str]:
    words = net.op("Gather", net.weight((WORDS, WIDTH), 0.7), "ids")
    x = net.op("Add", words, net.op("Gather", net.weight((64, WIDTH), 0.7), "positions"))
    grown: list[str] = []
    for layer in range(2):
        three = net.dense(net.layer_norm(x, WIDTH), WIDTH, 3 * WIDTH)
        q, k, v = (
            heads(net, each, HEADS, PART)
            for each in net.ops("Split", 3, three, net.shape(*[WIDTH] * 3), axis=2)
        )
        keys, values = with_past(net, f"past_k_{layer}", k), with_past(net, f"past_v_{layer}", v)
        grown += [keys, values]
        mixed = joined(
            net, attention(net, q, keys, values, PART, causal_bias(net, "seen", "positions")), WIDTH
        )
        x = net.op("Add", x, net.dense(mixed, WIDTH, WIDTH))
        hidden = net.gelu_tanh(net.dense(net.layer_norm(x, WIDTH), WIDTH, HIDDEN))
        x = net.op("Add", x, net.dense(hidden, HIDDEN, WIDTH))
    return [project(net, net.layer_norm(x, WIDTH), WIDTH, WORDS), *grown]


def _half_rotated(net: Network, value: str, turns: tuple[str, str]) -> str:
    turned = rotated(net, sliced(net, value, 0, PART // 2, -1), PART // 2, turns)
    return net.op("Concat", turned, sliced(net, value, PART // 2, PART, -1), axis=-1)


def _phi(net: Network) -> Sequence[str]:
    x = net.op("Gather", net.weight((WORDS, WIDTH), 1.0), "ids")
    turns = cosines_and_sines(net, "positions", PART // 2)
    n = net.layer_norm(x, WIDTH)
    q, k, v = (heads(net, net.dense(n, WIDTH, WIDTH), HEADS, PART) for _ in range(3))
    q, k = _half_rotated(net, q, turns), _half_rotated(net, k, turns)
    keys, values = with_past(net, "past_k_0", k), with_past(net, "past_v_0", v)
    mixed = attention(net, q, keys, values, PART, causal_bias(net, "seen", "positions"))
    beside = net.dense(joined(net, mixed, WIDTH), WIDTH, WIDTH)
    inner = net.dense(net.gelu_tanh(net.dense(n, WIDTH, HIDDEN)), HIDDEN, WIDTH)
    x = net.op("Add", net.op("Add", beside, inner), x)
    return [net.dense(net.layer_norm(x, WIDTH), WIDTH, WORDS), keys, values]


def _model(name: str, manner: Manner) -> OnnxModel:
    inputs = (*TAKEN, *past_of(len(manner.windows)))
    return OnnxModel(name, inputs, lambda net: _decoder(net, manner), DECODE_FORMS)


MODELS = (
    _model("llama_decode", Manner()),
    _model("qwen_decode", Manner(norms_heads=True)),
    _model("gemma_decode", Manner(norms_heads=True, cap=5.0, windows=(4, 0), norms_results=True)),
    OnnxModel("gpt2_decode", (*TAKEN, *past_of(2, HEADS)), _gpt2, DECODE_FORMS),
    OnnxModel("phi_decode", (*TAKEN, *past_of(1, HEADS)), _phi, DECODE_FORMS),
)
