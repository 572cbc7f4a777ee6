"""The example of generation: each step of a Llama is what numpy computes of the whole text at once."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from dataclasses import asdict, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from kits.backends.dnnl.dnnl_harness import needs_onednn
from kits.backends.dnnl.packed_samples import has_whole_numbers
from kits.example_files import EXAMPLES, example_module
from tvm.support import cc

import annotated_region as ar
from annotated_region.backends.dnnl import processor
from annotated_region.passes.weight_rounding.rounding import rounded

CAPACITY = 16
STEPS = 64
SETTINGS = {"floats": (None, 32), "8 bits": (8, 32), "4 bits": (4, 32), "4 and 16 bits": (4, 32, "int16")}


@cache
def example() -> ModuleType:
    return example_module("generate.py")


def config():
    return example().Config(words=100, width=64, layers=2, heads=4, pairs=2, hidden=96)


class Reference:
    """The same network over a whole text, in double precision, with what the rounded weights stand for."""

    def __init__(self, bits, group, activations="float32"):
        self.config, self.bits, self.group = config(), bits, group
        self.stored = {}
        draw = example().random_weights(3)

        def weight(name, shape):
            self.stored[name] = draw(name, shape)
            return self.stored[name]

        self.built = example().build(self.config, weight, bits, group, activations).jit()

    def matrix(self, name):
        array = self.stored[f"{name}.weight"]
        if self.bits is None:
            return array.T.astype("float64")
        numbers = rounded(array, self.bits, self.group, zero_points=False)
        floats = (numbers.words.astype("float64") - numbers.zeros) * numbers.scales[:, None]
        return floats.reshape(array.shape).T

    def norm(self, x, name):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * self.stored[f"{name}.weight"]

    def turned(self, x):
        part = x.shape[-1]
        angle = np.arange(len(x))[:, None] / 10000 ** (np.arange(0, part, 2) / part)
        whole = (x[..., : part // 2] + 1j * x[..., part // 2 :]) * np.exp(1j * angle)[:, None]
        return np.concatenate([whole.real, whole.imag], -1)

    def attention(self, x, place):
        c, length = self.config, len(x)
        q = self.turned((x @ self.matrix(place + "q_proj")).reshape(length, c.heads, c.part))
        k, v = (
            (x @ self.matrix(place + name)).reshape(length, c.pairs, c.part) for name in ("k_proj", "v_proj")
        )
        k, v = (np.repeat(each, c.heads // c.pairs, axis=1) for each in (self.turned(k), v))
        scores = np.einsum("qhd,khd->hqk", q, k) / c.part**0.5
        scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        found = np.einsum("hqk,khd->qhd", shares / shares.sum(-1, keepdims=True), v)
        return found.reshape(length, -1) @ self.matrix(place + "o_proj")

    def logits(self, tokens):
        """Of what follows each token."""
        x = self.stored["model.embed_tokens.weight"].astype("float16").astype("float64")[tokens]
        for layer in range(self.config.layers):
            place = f"model.layers.{layer}."
            x = x + self.attention(self.norm(x, place + "input_layernorm"), place + "self_attn.")
            y = self.norm(x, place + "post_attention_layernorm")
            gate = y @ self.matrix(place + "mlp.gate_proj")
            both = gate / (1 + np.exp(-gate)) * (y @ self.matrix(place + "mlp.up_proj"))
            x = x + both @ self.matrix(place + "mlp.down_proj")
        return self.norm(x, "model.norm") @ self.matrix("lm_head")


references = cache(Reference)


@needs_onednn
@pytest.mark.parametrize("prompt", [1, 7, 40])
@pytest.mark.parametrize("setting", SETTINGS)
def test_every_step_is_that_of_the_whole_text(setting, prompt):
    reference = references(*SETTINGS[setting])
    tokens = [int(each) for each in np.random.default_rng(prompt).integers(0, 100, prompt + STEPS)]
    expected = reference.logits(tokens)
    llama = example().Llama(reference.built, reference.config, prompt + STEPS)
    found = [llama.step(tokens[:prompt]), *(llama.step([token]) for token in tokens[prompt:])]
    np.testing.assert_allclose(found, expected[prompt - 1 :], rtol=1e-3, atol=1e-3)


@needs_onednn
@pytest.mark.parametrize(
    ("coarse", "rounds"),
    [("int8", has_whole_numbers), ("bfloat16", processor.multiplies_bfloat16_faster)],
)
def test_activations_of_8_bits_are_coarser(coarse, rounds):
    """Those of bfloat16 have as many, in prompts of more than 16 tokens."""
    found, count = [], 2 * CAPACITY
    for activations in ("float32", coarse):
        reference = references(4, 32, activations)
        found.append(example().Llama(reference.built, reference.config, count).step(range(count)))
    error = np.abs(found[1] - found[0]).max() / np.abs(found[0]).max()
    assert error < 0.1
    assert (error > 1e-3) == rounds()


@needs_onednn
def test_a_full_memory_is_an_error_and_stays_as_it_is():
    reference = references(*SETTINGS["4 bits"])
    llama = example().Llama(reference.built, reference.config, CAPACITY)
    llama.step(list(range(10)))
    before = [rows.numpy() for rows in llama.cache.past()]
    with pytest.raises(ar.InputError, match="10 tokens and 7 more do not fit into a cache for 16"):
        llama.step(list(range(7)))
    assert llama.cache.length == 10
    assert all(map(np.array_equal, before, (rows.numpy() for rows in llama.cache.past())))


@needs_onednn
def test_memory_for_no_token_is_an_error():
    with pytest.raises(ar.InputError, match="a cache for 0 tokens with 4 kinds of rows holds nothing"):
        example().Llama(references(*SETTINGS["4 bits"]).built, config(), 0)


@needs_onednn
def test_the_memory_of_another_model_is_an_error_and_stays_as_it_is():
    other = replace(config(), pairs=1)
    llama = example().Llama(references(*SETTINGS["4 bits"]).built, other, CAPACITY)
    with pytest.raises((ValueError, RuntimeError), match="k_0"):
        llama.step([1])
    assert llama.cache.length == 0


def test_a_group_that_does_not_divide_is_an_error():
    with pytest.raises(ar.AnnotatedRegionError, match="has 64 rows, which is not a multiple of"):
        example().build(config(), example().random_weights(), 4, 48)


@needs_onednn
def test_after_the_second_step_there_are_no_plans_and_no_new_pages():
    """One plan serves every length. Memory that is new to the process would be page faults.

    Where memory is scarce, the system takes pages back now and then: not in each of six rounds.
    """
    reference, steps = references(*SETTINGS["4 bits"]), 50
    llama = example().Llama(reference.built, reference.config, 6 * steps + 10)
    for rows in llama.cache.memory:
        np.from_dlpack(rows)[...] = 0  # touched
    count = reference.built.get_function("dnnl_step_0__plan_count", query_imports=True)
    for tokens in ([1, 2, 3, 4, 5], [1], [2]):
        llama.step(tokens)
    plans, faults = count(), [resource.getrusage(resource.RUSAGE_SELF).ru_minflt]
    for _ in range(6):
        for token in range(steps):
            llama.step([token])
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
    assert count() == plans
    assert min(after - before for before, after in pairwise(faults)) < steps // 10


def callers_of_the_allocator(folder, bits):
    """For each of 20 tokens, how often which library calls the allocator in the function of a step."""
    here, counting = Path(__file__).parent, folder / "allocations.so"
    compiler = [cc.get_cc(), "-O1", "-fPIC", "-shared"]
    subprocess.run([*compiler, str(here / "allocations.cc"), "-o", str(counting), "-ldl"], check=True)
    path = [str(EXAMPLES), *filter(None, [os.environ.get("PYTHONPATH")])]
    command = [sys.executable, "-W", "ignore", str(here / "counted_steps.py"), str(counting)]
    finished = subprocess.run(
        [*command, json.dumps(asdict(config())), str(bits), "20"],
        env={**os.environ, "LD_PRELOAD": str(counting), "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    return [json.loads(line) for line in finished.stdout.splitlines()]


@needs_onednn
def test_a_token_takes_no_memory_of_the_heap(tmp_path):
    """But for TVM's virtual machine, the same number in each: neither the region nor oneDNN allocates.

    The loader allocates the thread-local variables of a worker when it takes its first share, in any token.
    """
    _, *later = callers_of_the_allocator(tmp_path, bits=4)
    assert len(later) == 19
    by_tvm = [callers.pop("libtvm_runtime.so") for callers in later]
    assert len(set(by_tvm)) == 1
    others = {name for callers in later for name in callers}
    assert {name for name in others if not name.startswith("ld-linux")} == set()
