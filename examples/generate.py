"""Generates tokens with a Llama on oneDNN: weights of 4 or 8 bits, keys and values appended where they lie.

python generate.py --size 1B --tokens 64
python generate.py --size 1B --activations int8
python generate.py --model FOLDER --prompt 1 15043 3186

Without ``--model`` the weights are random, so that the tokens mean nothing and the times are true. A folder
holds ``config.json`` and ``*.safetensors`` of a Llama without biases, as transformers writes them. Prompt and
answer are token numbers.

One function computes a step, for a prompt as for a single token::

    tokens [s], rotary angles, mask, keys and values of earlier tokens [n, heads, part], ...
        -> logits of the last token [1, words], keys and values of the new tokens [s, heads, part], ...

An `ar.KeyValueCache` owns the memory of all keys and values. The function is built to append to it
(`ar.passes.AppendInPlace`): it takes the memory and the number of filled rows, reads these in place, and
writes the new ones behind them. No earlier row is copied, and one plan serves all single tokens.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar

Weights = Callable[[str, tuple[int, ...]], np.ndarray]
"""From the name of a weight, as transformers has it, and its shape to float32."""


@dataclass(frozen=True)
class Config:
    """The sizes of a Llama."""

    words: int
    width: int
    layers: int
    heads: int
    pairs: int
    hidden: int
    epsilon: float = 1e-5
    theta: float = 10000.0
    tied: bool = False

    @property
    def part(self) -> int:
        """The width of a head."""
        return self.width // self.heads


SIZES = {
    "0.5B": Config(32000, 1024, 24, 16, 4, 4608),
    "1B": Config(32000, 2048, 22, 32, 4, 5632),
    "3B": Config(32000, 3072, 28, 24, 8, 8192),
}


class Network:
    """Writes the step of a Llama as Relax ops."""

    def __init__(self, config: Config, weights: Weights) -> None:
        self.config = config
        self.weights = weights
        self.builder = relax.BlockBuilder()

    def module(self) -> tvm.IRModule:
        """The module with the function ``step``."""
        config = self.config
        new, past = tirx.Var("s", "int64"), tirx.Var("n", "int64")
        rows = [config.pairs, config.part]
        self.tokens = _parameter("tokens", [new], "int64")
        self.last = _parameter("last", [1], "int64")
        self.angles = [_parameter(name, [new, 1, config.part]) for name in ("cosines", "sines")]
        self.seen = past + new
        self.mask = _parameter("mask", [new, self.seen])
        self.past = [
            _parameter(f"{name}_{layer}", [past, *rows]) for layer in range(config.layers) for name in "kv"
        ]
        parameters = [self.tokens, self.last, *self.angles, self.mask, *self.past]
        with self.builder.function("step", parameters):
            with self.builder.dataflow():
                results = [self.builder.emit_output(each) for each in self.results(new)]
            self.builder.emit_func_output(relax.Tuple(results))
        return self.builder.finalize()

    def results(self, new: tirx.Var) -> Iterator[relax.Expr]:
        """The logits, then the new keys and values of each layer."""
        config, made = self.config, []
        table = self.weights("model.embed_tokens.weight", (config.words, config.width))
        x: relax.Expr = self.emit(op.take(relax.const(table.astype("float16")), self.tokens, axis=0))
        x = self.emit(op.astype(x, "float32"))
        for layer in range(config.layers):
            place = f"model.layers.{layer}."
            normed = self.norm(x, place + "input_layernorm")
            seen, keys, values = self.attention(normed, layer, new)
            x = self.emit(op.add(x, self.linear(seen, place + "self_attn.o_proj", config.width)))
            x = self.emit(
                op.add(x, self.feed_forward(self.norm(x, place + "post_attention_layernorm"), place))
            )
            made += [keys, values]
        x = self.norm(self.emit(op.take(x, self.last, axis=0)), "model.norm")
        head = "model.embed_tokens" if config.tied else "lm_head"
        yield self.linear(x, head, config.words)
        yield from made

    def emit(self, expr: relax.Expr) -> relax.Var:
        return self.builder.emit(expr)

    def linear(self, x: relax.Expr, name: str, width: int, depth: int | None = None) -> relax.Var:
        shape = (width, depth or self.config.width)
        weight = self.emit(op.permute_dims(relax.const(self.weights(f"{name}.weight", shape)), [1, 0]))
        return self.emit(op.matmul(x, weight))

    def norm(self, x: relax.Expr, name: str) -> relax.Var:
        scale = relax.const(self.weights(f"{name}.weight", (self.config.width,)))
        return self.emit(op.nn.rms_norm(x, scale, axes=[-1], epsilon=self.config.epsilon))

    def feed_forward(self, x: relax.Expr, place: str) -> relax.Var:
        gate = self.emit(op.nn.silu(self.linear(x, place + "mlp.gate_proj", self.config.hidden)))
        both = self.emit(op.multiply(gate, self.linear(x, place + "mlp.up_proj", self.config.hidden)))
        return self.linear(both, place + "mlp.down_proj", self.config.width, self.config.hidden)

    def turned(self, x: relax.Expr) -> relax.Var:
        """Rows of heads [s, heads, part], each turned by the angles of its position."""
        half = self.config.part // 2
        first = self.emit(op.strided_slice(x, [2], [0], [half]))
        second = self.emit(op.strided_slice(x, [2], [half], [2 * half]))
        crossed = self.emit(op.concat([self.emit(op.negative(second)), first], 2))
        straight, across = (
            self.emit(op.multiply(*each)) for each in zip((x, crossed), self.angles, strict=True)
        )
        return self.emit(op.add(straight, across))

    def attention(
        self, x: relax.Expr, layer: int, new: tirx.Var
    ) -> tuple[relax.Expr, relax.Expr, relax.Expr]:
        """Of the new tokens to the earlier ones and to themselves; their keys and values."""
        config, place = self.config, f"model.layers.{layer}.self_attn."
        heads, pairs, part = config.heads, config.pairs, config.part
        queries = self.turned(self.rows(x, place + "q_proj", new, heads))
        keys = self.turned(self.rows(x, place + "k_proj", new, pairs))
        values = self.rows(x, place + "v_proj", new, pairs)
        queries = self.emit(op.permute_dims(queries, [1, 0, 2]))
        queries = self.emit(op.reshape(queries, [1, heads, new, part]))
        past_keys, past_values = self.past[2 * layer : 2 * layer + 2]
        whole_keys, whole_values = (
            self.repeated(self.emit(op.concat(parts, 0)))
            for parts in ((past_keys, keys), (past_values, values))
        )
        scores = self.emit(op.matmul(queries, self.emit(op.permute_dims(whole_keys, [0, 1, 3, 2]))))
        scores = self.emit(op.multiply(scores, relax.const(np.float32(part**-0.5))))
        mask = self.emit(op.reshape(self.mask, [1, 1, new, self.seen]))
        shares = self.emit(op.nn.softmax(self.emit(op.add(scores, mask)), -1))
        found = self.emit(op.permute_dims(self.emit(op.matmul(shares, whole_values)), [0, 2, 1, 3]))
        return self.emit(op.reshape(found, [new, heads * part])), keys, values

    def repeated(self, x: relax.Expr) -> relax.Var:
        """Rows of keys or values [n, pairs, part] for each query head, [1, heads, n, part]."""
        config, seen = self.config, self.seen
        heads, pairs, part = config.heads, config.pairs, config.part
        x = self.emit(op.permute_dims(x, [1, 0, 2]))
        x = self.emit(op.reshape(x, [1, pairs, 1, seen, part]))
        x = self.emit(op.broadcast_to(x, [1, pairs, heads // pairs, seen, part]))
        return self.emit(op.reshape(x, [1, heads, seen, part]))

    def rows(self, x: relax.Expr, name: str, new: tirx.Var, heads: int) -> relax.Var:
        part = self.config.part
        return self.emit(op.reshape(self.linear(x, name, heads * part), [new, heads, part]))


def _parameter(name: str, shape: Sequence[relax.Expr | int], dtype: str = "float32") -> relax.Var:
    return relax.Var(name, relax.TensorType(shape, dtype))


class Llama:
    """A Llama in the middle of a text.

    Parameters
    ----------
    library
        What `build` gives, made ready by `jit`, or exported and loaded again.
    config
        The sizes.
    capacity
        How many tokens there is memory for.

    Raises
    ------
    InputError
        There is memory for no token.
    """

    def __init__(self, library: tvm.runtime.Module, config: Config, capacity: int) -> None:
        self.function = relax.VirtualMachine(library, tvm.cpu())["step"]
        self.cache = ar.KeyValueCache([(config.pairs, config.part)] * (2 * config.layers), capacity)
        angles = np.arange(self.cache.capacity)[:, None] * config.theta ** (
            -np.arange(0, config.part, 2) / config.part
        )
        angles = np.concatenate([angles, angles], axis=1)[:, None].astype("float32")
        self.cosines, self.sines = np.cos(angles), np.sin(angles)

    def step(self, tokens: Sequence[int]) -> np.ndarray:
        """Read tokens; returns the logits of what follows.

        Raises
        ------
        InputError
            There are no tokens, or more than there is memory for; nothing is changed then.
        """
        begin, end = self.cache.length, self.cache.length + len(tokens)
        given = [
            np.array(tokens, "int64"),
            np.array([len(tokens) - 1], "int64"),
            self.cosines[begin:end],
            self.sines[begin:end],
            self.cache.mask(len(tokens)),
        ]
        # Shared with numpy: no op is left to TVM, whose code would need aligned memory.
        logits = self.function(*map(tvm_ffi.from_dlpack, given), *self.cache.memory, self.cache.filled)
        self.cache.advance(len(tokens))
        found: np.ndarray = np.from_dlpack(logits)[0]
        return found

    def generate(self, prompt: Sequence[int], count: int) -> Iterator[int]:
        """The most likely tokens, one after the other."""
        token = int(self.step(prompt).argmax())
        yield token
        for _ in range(count - 1):
            token = int(self.step([token]).argmax())
            yield token


def build(
    config: Config, weights: Weights, bits: int | None, group: int, activations: str = "float32"
) -> ar.LinkedExecutable:
    """A Llama that is compiled, to be run or exported; `bits` of None leaves the weights as they are.

    `activations` is what numbers are rounded to where they meet weights of few bits: ``"float32"``,
    ``"int16"``, ``"int8"`` or ``"bfloat16"``, see ``packed_activations`` of the target.
    """
    module = Network(config, weights).module()
    if bits is not None:
        module = ar.passes.QuantizeWeights(bits, group)(module)
    pasts = [f"{name}_{layer}" for layer in range(config.layers) for name in "kv"]
    module = ar.passes.AppendInPlace("step", {name: 1 + index for index, name in enumerate(pasts)})(module)
    options = {"dnnl": {"packed_activations": activations}}
    return ar.build(ar.partition(module, ["dnnl"]), options=options)


def random_weights(seed: int = 0) -> Weights:
    """Weights that keep what goes through them of order one."""
    rng = np.random.default_rng(seed)

    def weight(_name: str, shape: tuple[int, ...]) -> np.ndarray:
        if len(shape) == 1:
            return np.ones(shape, "float32")
        numbers: np.ndarray = rng.standard_normal(shape, "float32")
        numbers *= np.float32(shape[1] ** -0.5)
        return numbers

    return weight


def stored_model(folder: Path) -> tuple[Config, Weights]:
    """A folder of transformers with a Llama."""
    safe_open = importlib.import_module("safetensors").safe_open  # needed for folders only
    given = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if given.get("model_type") != "llama" or given.get("attention_bias") or given.get("rope_scaling"):
        sys.exit(f"{folder} holds no Llama of the kind that this example knows")
    config = Config(
        given["vocab_size"],
        given["hidden_size"],
        given["num_hidden_layers"],
        given["num_attention_heads"],
        given.get("num_key_value_heads", given["num_attention_heads"]),
        given["intermediate_size"],
        given["rms_norm_eps"],
        given.get("rope_theta", 10000.0),
        given.get("tie_word_embeddings", False),
    )
    files = [safe_open(path, framework="numpy") for path in sorted(folder.glob("*.safetensors"))]
    places = {name: file for file in files for name in file.keys()}  # noqa: SIM118 - a file is no dict

    def weight(name: str, shape: tuple[int, ...]) -> np.ndarray:
        array: np.ndarray = places[name].get_tensor(name).astype("float32")
        if array.shape != shape:
            sys.exit(f"{name} has shape {array.shape}, and the configuration says {shape}")
        return array

    return config, weight


def main() -> None:
    """Build, generate, and tell the times."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=SIZES, default="0.5B", help="of a model of random weights")
    parser.add_argument("--model", type=Path, help="a folder with config.json and *.safetensors")
    parser.add_argument("--bits", type=int, choices=(4, 8), default=4, help="of a weight")
    parser.add_argument("--group", type=int, default=32, help="weights that share a scale")
    parser.add_argument(
        "--activations",
        choices=("float32", "int16", "int8", "bfloat16"),
        default="float32",
        help="what numbers are rounded to where they meet weights; fewer bits read a prompt faster",
    )
    parser.add_argument("--prompt", type=int, nargs="+", default=list(range(1, 33)), help="token numbers")
    parser.add_argument("--tokens", type=int, default=32, help="how many to generate")
    given = parser.parse_args()
    config, weights = stored_model(given.model) if given.model else (SIZES[given.size], random_weights())
    begin = time.perf_counter()
    library = build(config, weights, given.bits, given.group, given.activations).jit()
    llama = Llama(library, config, len(given.prompt) + given.tokens)
    print(f"built in {time.perf_counter() - begin:.0f} s", file=sys.stderr)
    begin, times = time.perf_counter(), []
    for token in llama.generate(given.prompt, given.tokens):
        times.append(time.perf_counter() - begin)
        print(token, end=" ", flush=True)
    print()
    print(f"first token after {times[0] * 1e3:.0f} ms", file=sys.stderr)
    if len(times) > 2:
        rate = (len(times) - 2) / (times[-1] - times[1])  # the first step of a shape makes its plan
        print(f"{rate:.1f} tokens a second", file=sys.stderr)


if __name__ == "__main__":
    main()
