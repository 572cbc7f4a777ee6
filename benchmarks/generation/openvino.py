"""OpenVINO: a stateful Llama of compressed weights, which is what the pipelines of OpenVINO GenAI run.

The settings are the plugin's own for such models: activations in 8 bits by groups, keys and values in 8 bits.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from generation.shapes import GROUP, SHAPES, Engine, Shape, random_bytes

__all__ = ["load", "write"]

FILE = "model.xml"
HIDDEN = np.float32(-1e30)


class _OpenVino:
    def __init__(self, request: Any) -> None:
        self.request = request
        self.length = 0

    def prefill(self, tokens: Sequence[int]) -> int:
        self.request.reset_state()
        self.length = 0
        return self._read(tokens)

    def decode(self, token: int) -> int:
        return self._read([token])

    def _read(self, tokens: Sequence[int]) -> int:
        begin, end = self.length, self.length + len(tokens)
        positions = np.arange(begin, end)
        mask = np.where(np.arange(end)[None] <= positions[:, None], np.float32(0), HIDDEN)
        given = {
            "tokens": np.array([tokens], "int64"),
            "positions": positions[None],
            "mask": mask[None, None],
            "beam": np.zeros(1, "int32"),
            "last": np.array([len(tokens) - 1], "int64"),
        }
        self.length = end
        return int(next(iter(self.request.infer(given).values())).argmax())


def write(folder: Path, size: str, bits: int) -> None:
    """Write the model as OpenVINO stores it."""
    graph = _Graph(SHAPES[size], bits)
    importlib.import_module("openvino").save_model(graph.model(), str(folder / FILE), compress_to_fp16=False)


def load(folder: Path, _size: str, _bits: int) -> Engine:
    """A compiled model with the threads that `OMP_NUM_THREADS` says."""
    openvino = importlib.import_module("openvino")
    settings = {
        "INFERENCE_NUM_THREADS": int(os.environ.get("OMP_NUM_THREADS", "2")),
        "PERFORMANCE_HINT": "LATENCY",
    }
    model = openvino.Core().compile_model(str(folder / FILE), "CPU", settings)
    return _OpenVino(model.create_infer_request())


class _Graph:
    def __init__(self, shape: Shape, bits: int) -> None:
        self.openvino = importlib.import_module("openvino")
        self.ops = importlib.import_module("openvino.opset13")
        self.shape = shape
        self.bits = bits
        self.sinks: list[Any] = []
        self.held: list[np.ndarray] = []  # the model reads them where they are

    def model(self) -> Any:
        ops, shape = self.ops, self.shape
        self.tokens = ops.parameter([-1, -1], np.int64, name="tokens")
        self.positions = ops.parameter([-1, -1], np.int64, name="positions")
        self.mask = ops.parameter([-1, 1, -1, -1], np.float32, name="mask")
        self.beam = ops.parameter([-1], np.int32, name="beam")
        self.last = ops.parameter([1], np.int64, name="last")
        parameters = [self.tokens, self.positions, self.mask, self.beam, self.last]
        table = (
            np.random.default_rng(0).standard_normal((shape.words, shape.width), "float32").astype("float16")
        )
        x = ops.gather(ops.convert(ops.constant(table), "f32"), self.tokens, 0)
        self.turns = self.angles()
        for layer in range(shape.layers):
            x = ops.add(x, self.attention(self.norm(x), layer))
            normed = self.norm(x)
            gate = ops.swish(self.linear(normed, shape.hidden, shape.width))
            both = ops.multiply(gate, self.linear(normed, shape.hidden, shape.width))
            x = ops.add(x, self.linear(both, shape.width, shape.hidden))
        logits = self.linear(ops.gather(self.norm(x), self.last, 1), shape.words, shape.width)
        return self.openvino.Model([logits.output(0)], self.sinks, parameters, "llama")

    def angles(self) -> tuple[Any, Any]:
        """Cosines and sines [batch, 1, tokens, part]."""
        ops, part = self.ops, self.shape.part
        steps = (10000.0 ** (-np.arange(0, part, 2) / part)).astype("float32")
        places = ops.unsqueeze(ops.convert(self.positions, "f32"), [-1])
        half = ops.multiply(places, steps[None, None])
        whole = ops.unsqueeze(ops.concat([half, half], -1), [1])
        return ops.cos(whole), ops.sin(whole)

    def attention(self, x: Any, layer: int) -> Any:
        ops, shape = self.ops, self.shape
        queries = self.turned(self.heads(x, shape.heads))
        keys = self.appended(self.turned(self.heads(x, shape.pairs)), f"key_{layer}")
        values = self.appended(self.heads(x, shape.pairs), f"value_{layer}")
        found = ops.scaled_dot_product_attention(
            queries, self.repeated(keys), self.repeated(values), self.mask, causal=False
        )
        found = ops.reshape(ops.transpose(found, [0, 2, 1, 3]), [0, 0, shape.width], True)
        return self.linear(found, shape.width, shape.width)

    def heads(self, x: Any, count: int) -> Any:
        rows = self.linear(x, count * self.shape.part, self.shape.width)
        rows = self.ops.reshape(rows, [0, 0, count, self.shape.part], True)
        return self.ops.transpose(rows, [0, 2, 1, 3])

    def turned(self, x: Any) -> Any:
        ops, half = self.ops, self.shape.part // 2
        first, second = (ops.slice(x, [begin], [end], [1], [3]) for begin, end in ((0, half), (half, 2**31)))
        crossed = ops.concat([ops.multiply(second, np.full((1, 1, 1, 1), -1, "float32")), first], -1)
        return ops.add(ops.multiply(x, self.turns[0]), ops.multiply(crossed, self.turns[1]))

    def appended(self, new: Any, name: str) -> Any:
        ops, shape = self.ops, self.shape
        batch = ops.gather(ops.shape_of(self.tokens), [0], 0)
        extents = ops.concat([batch, np.array([shape.pairs, 0, shape.part], "int64")], 0)
        start = ops.broadcast(np.float32(0), extents)
        sizes = self.openvino.PartialShape([-1, shape.pairs, -1, shape.part])
        kept = self.openvino.op.util.VariableInfo()
        kept.data_shape, kept.data_type, kept.variable_id = sizes, self.openvino.Type.f32, name
        variable = self.openvino.op.util.Variable(kept)
        past = ops.gather(ops.read_value(start, variable), self.beam, 0)
        whole = ops.concat([past, new], 2)
        self.sinks.append(ops.assign(whole, variable))
        return whole

    def repeated(self, x: Any) -> Any:
        """Keys or values for each head, in the form that the plugin knows."""
        ops, shape = self.ops, self.shape
        extents = ops.shape_of(x)
        parts = [ops.gather(extents, [axis], 0) for axis in range(4)]
        each = np.array([shape.heads // shape.pairs], "int64")
        wide = ops.concat([parts[0], parts[1], each, parts[2], parts[3]], 0)
        repeated = ops.broadcast(ops.unsqueeze(x, [2]), wide, "BIDIRECTIONAL")
        return ops.reshape(repeated, [0, shape.heads, -1, shape.part], True)

    def norm(self, x: Any) -> Any:
        ops = self.ops
        mean = ops.reduce_mean(ops.power(x, np.float32(2)), [-1], True)
        inverse = ops.divide(np.float32(1), ops.sqrt(ops.add(mean, np.float32(1e-5))))
        return ops.multiply(np.ones((1, 1, self.shape.width), "float32"), ops.multiply(x, inverse))

    def linear(self, x: Any, columns: int, depth: int) -> Any:
        ops, groups = self.ops, depth // GROUP
        kind = self.openvino.Type.i4 if self.bits == 4 else self.openvino.Type.i8
        packed = random_bytes(len(self.held), columns * depth * self.bits // 8)
        if self.bits == 8:
            packed = packed.view("int8")
        self.held.append(packed)
        extents = [columns, groups, GROUP]
        words = self.openvino.op.Constant(self.openvino.Tensor(packed, self.openvino.Shape(extents), kind))
        scales = np.full((columns, groups, 1), 0.2 / 2**self.bits, "float16")
        floats = ops.multiply(ops.convert(words, "f16"), ops.constant(scales))
        weight = ops.convert(ops.reshape(floats, [columns, depth], False), "f32")
        return ops.matmul(x, weight, False, True)
