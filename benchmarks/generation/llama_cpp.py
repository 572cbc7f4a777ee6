"""llama.cpp by way of llama-cpp-python: a GGUF file of random weights, Q4_0 or Q8_0."""

from __future__ import annotations

import ctypes
import importlib
import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from generation.shapes import CAPACITY, SHAPES, Engine, random_bytes

__all__ = ["load", "write"]

FILE = "model.gguf"
BLOCK = 32  # weights of a block, which begins with a scale of float16


class _LlamaCpp:
    def __init__(self, bindings: Any, context: Any, words: int) -> None:
        self.bindings = bindings
        self.context = context
        self.words = words

    def prefill(self, tokens: Sequence[int]) -> int:
        self.bindings.llama_memory_clear(self.bindings.llama_get_memory(self.context), True)
        return self._read(tokens)

    def decode(self, token: int) -> int:
        return self._read([token])

    def _read(self, tokens: Sequence[int]) -> int:
        numbers = (self.bindings.llama_token * len(tokens))(*tokens)
        status = self.bindings.llama_decode(
            self.context, self.bindings.llama_batch_get_one(numbers, len(tokens))
        )
        if status != 0:
            raise RuntimeError(f"llama.cpp ended with status {status}")
        logits = self.bindings.llama_get_logits_ith(self.context, -1)
        return int(np.ctypeslib.as_array(logits, (self.words,)).argmax())


def load(folder: Path, size: str, _bits: int) -> Engine:
    """A context with the threads that `OMP_NUM_THREADS` says."""
    bindings = importlib.import_module("llama_cpp.llama_cpp")
    shape = SHAPES[size]
    silent = bindings.llama_log_callback(lambda _level, _text, _data: None)
    bindings.llama_log_set(silent, ctypes.c_void_p(0))
    bindings.llama_backend_init()
    path = str(folder / FILE).encode()
    model = bindings.llama_model_load_from_file(path, bindings.llama_model_default_params())
    settings = bindings.llama_context_default_params()
    settings.n_ctx = CAPACITY
    settings.n_batch = settings.n_ubatch = 512
    settings.n_threads = settings.n_threads_batch = int(os.environ.get("OMP_NUM_THREADS", "2"))
    context = bindings.llama_init_from_model(model, settings)
    if not context:
        raise RuntimeError("llama.cpp does not take the model")
    engine = _LlamaCpp(bindings, context, shape.words)
    engine.silent = silent  # type: ignore[attr-defined]  # called for as long as the bindings is loaded
    return engine


def write(folder: Path, size: str, bits: int) -> None:
    """Write the GGUF file."""
    shape = SHAPES[size]
    gguf = importlib.import_module("gguf")
    kind = gguf.GGMLQuantizationType.Q4_0 if bits == 4 else gguf.GGMLQuantizationType.Q8_0
    writer = gguf.GGUFWriter(str(folder / FILE), "llama")
    writer.add_context_length(CAPACITY)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.hidden)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.pairs)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(shape.part)
    writer.add_vocab_size(shape.words)
    writer.add_tokenizer_model("no_vocab")

    def norm(name: str) -> None:
        writer.add_tensor(name, np.ones(shape.width, "float32"))

    seeds = itertools.count()

    def matrix(name: str, rows: int, depth: int) -> None:
        blocks = random_bytes(next(seeds), rows * depth // BLOCK, 2 + BLOCK * bits // 8)
        blocks[:, :2] = np.full(1, 0.2 / 2**bits, "float16").view("uint8")
        writer.add_tensor(name, blocks.reshape(rows, -1), raw_dtype=kind)

    matrix("token_embd.weight", shape.words, shape.width)
    norm("output_norm.weight")
    matrix("output.weight", shape.words, shape.width)
    for layer in range(shape.layers):
        place = f"blk.{layer}."
        norm(place + "attn_norm.weight")
        norm(place + "ffn_norm.weight")
        for name, heads in (("q", shape.heads), ("k", shape.pairs), ("v", shape.pairs)):
            matrix(f"{place}attn_{name}.weight", heads * shape.part, shape.width)
        matrix(place + "attn_output.weight", shape.width, shape.width)
        matrix(place + "ffn_gate.weight", shape.hidden, shape.width)
        matrix(place + "ffn_up.weight", shape.hidden, shape.width)
        matrix(place + "ffn_down.weight", shape.width, shape.hidden)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
