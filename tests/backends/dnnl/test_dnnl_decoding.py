"""Language models of transformers with past keys and values: each step is that of PyTorch.

Prompt and decode steps are exported by ``torch.export`` and read by TVM's importer; the past is an input, and
the past with the new rows a result. Weights of 8 and 4 bits are held against the same rounded weights in
PyTorch.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import needs_onednn
from tvm import relax

import annotated_region as ar
from annotated_region.passes.weight_rounding.rounding import rounded

torch: Any = pytest.importorskip("torch", reason="exports programs of PyTorch")
transformers: Any = pytest.importorskip("transformers", reason="has the models")
caches: Any = importlib.import_module("transformers.cache_utils")

pytestmark = [
    needs_onednn,
    # PyTorch and transformers warn of their own use of their own code.
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

WORDS, WIDTH, LAYERS, HEADS, PAIRS = 96, 64, 2, 4, 2
STEPS = 64
GROUP = 32
TOLERANCE = 1e-3

SIZES = {
    "vocab_size": WORDS,
    "hidden_size": WIDTH,
    "intermediate_size": 96,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": PAIRS,
    "max_position_embeddings": 512,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": None,
}
GPT2_SIZES = {"vocab_size": WORDS, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": 512}
WORDS_OF_ENDS = {"bos_token_id": 0, "eos_token_id": 1}
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "Llama": ("LlamaForCausalLM", "LlamaConfig", SIZES),
    "Qwen": ("Qwen2ForCausalLM", "Qwen2Config", SIZES),
    "Gemma": ("GemmaForCausalLM", "GemmaConfig", {**SIZES, "head_dim": WIDTH // HEADS}),
    "Phi": ("PhiForCausalLM", "PhiConfig", SIZES),
    "GPT-2": ("GPT2LMHeadModel", "GPT2Config", {**GPT2_SIZES, **WORDS_OF_ENDS}),
    "Mistral": ("MistralForCausalLM", "MistralConfig", {**SIZES, "sliding_window": 32}),
}
"""By name: the class, that of its configuration, and the sizes."""


def model_of(name):
    """A model whose answers differ clearly from word to word."""
    model_class, config_class, sizes = MODELS[name]
    torch.manual_seed(0)
    model = getattr(transformers, model_class)(getattr(transformers, config_class)(**sizes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(3)
    return model.requires_grad_(False)


def with_rounded_weights(model, bits):
    """The model with what weights of so many bits stand for; the table of words stays."""
    convolution = importlib.import_module("transformers.pytorch_utils").Conv1D
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            module.weight = torch.nn.Parameter(stood_for(module.weight, bits), requires_grad=False)
        if isinstance(module, convolution):
            weight = stood_for(module.weight.T, bits).T.contiguous()
            module.weight = torch.nn.Parameter(weight, requires_grad=False)
    return model


def stood_for(weight, bits):
    array = np.ascontiguousarray(weight.numpy())
    numbers = rounded(array, bits, GROUP, zero_points=False)
    floats = (numbers.words.astype("float32") - numbers.zeros) * numbers.scales[:, None]
    return torch.from_numpy(floats.reshape(array.shape).astype("float32"))


class Layer(caches.DynamicLayer):
    """Keys and values as they are; transformers' own class joins the first ones with an empty tensor."""

    def update(self, keys, values, *_, **__):
        if self.is_initialized:
            keys, values = torch.cat([self.keys, keys], -2), torch.cat([self.values, values], -2)
        self.keys, self.values, self.is_initialized = keys, values, True
        self.dtype, self.device = keys.dtype, keys.device
        return keys, values


def cache_of(past):
    """A cache that begins with given keys and values."""
    made = caches.DynamicCache()
    made.layers = [Layer() for _ in range(LAYERS)]
    for layer, keys, values in zip(made.layers, past[0::2], past[1::2], strict=False):
        layer.update(keys, values)
    return made


class Step(torch.nn.Module):
    """Words and a past, or none, to the logits of the last and the past of the next step."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, words, past):
        cache = cache_of(past)
        logits = self.model(input_ids=words, past_key_values=cache, use_cache=True).logits
        return (logits[:, -1], *(rows for layer in cache.layers for rows in (layer.keys, layer.values)))


class Prompt(torch.nn.Module):
    """The same without a past."""

    def __init__(self, model):
        super().__init__()
        self.step = Step(model)

    def forward(self, words):
        return self.step(words, [])


def built(module, given, shapes, bits):
    program = torch.export.export(module, given, dynamic_shapes=shapes, strict=False)
    imported = ar.from_exported_program(program)
    if bits is not None:
        imported = ar.passes.QuantizeWeights(bits, GROUP)(imported)
    partitioned = ar.partition(imported, ["dnnl"])
    regions = [each for each in partitioned.functions.values() if each.attrs and "Codegen" in each.attrs]
    assert len(regions) == 1
    return relax.VirtualMachine(ar.build(partitioned).jit(), tvm.cpu())


def answers(machine, *given):
    return [each.numpy() for each in machine["main"](*(tvm.runtime.tensor(one.numpy()) for one in given))]


def error(found, wanted):
    pairs = zip(found, (each.numpy() for each in wanted), strict=True)
    return max(float(np.abs(one - other).max() / np.abs(other).max()) for one, other in pairs)


def decode_step(model, batch, bits):
    pairs = getattr(model.config, "num_key_value_heads", HEADS)
    past = [torch.randn(batch, pairs, 6, WIDTH // HEADS) for _ in range(2 * LAYERS)]
    words = torch.zeros(batch, 1, dtype=torch.int64)
    shapes = ({}, [{2: torch.export.Dim.AUTO}] * len(past))
    return built(Step(model), (words, past), shapes, bits)


def worst_error(name, batch, prompts, bits=None):
    """Of all steps behind prompts of some lengths, and of the prompts."""
    original, model = model_of(name), model_of(name)
    if bits is not None:
        model = with_rounded_weights(model, bits)
    machine, worst = decode_step(original, batch, bits), 0.0
    for length in prompts:
        words = torch.randint(0, WORDS, (batch, length))
        wanted = Prompt(model)(words)
        found = answers(built(Prompt(original), (words,), None, bits), words)
        worst = max(worst, error(found, wanted))
        for _ in range(STEPS):
            words, past = wanted[0].argmax(-1)[:, None], list(wanted[1:])
            found = answers(machine, words, *map(torch.from_numpy, found[1:]))
            wanted = Step(model)(words, past)
            worst = max(worst, error(found, wanted))
    return worst


@pytest.mark.parametrize("name", MODELS)
def test_each_step_is_that_of_pytorch(name):
    assert worst_error(name, 1, (7,)) <= TOLERANCE


@pytest.mark.parametrize("bits", [8, 4])
def test_rounded_weights_are_those_of_pytorch(bits):
    assert worst_error("Llama", 1, (7,), bits) <= TOLERANCE


@pytest.mark.parametrize(("prompt", "bits"), [(1, None), (7, 4)])
def test_several_texts_at_once(prompt, bits):
    """PyTorch exports a product of several texts of several words by a weight that is broadcast."""
    assert worst_error("Qwen", 3, (prompt,), bits) <= TOLERANCE
