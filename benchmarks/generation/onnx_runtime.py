"""ONNX Runtime: a graph of MatMulNBits and GroupQueryAttention, as onnxruntime-genai's model builder makes.

Products take activations in 8 bits (`accuracy_level=4`, the builder's default for processors). Keys and
values stay in one memory, which is bound as the past and as the present.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from generation.shapes import CAPACITY, GROUP, SHAPES, Engine, Shape, random_bytes, rotary_angles

__all__ = ["load", "write"]

FILE = "model.onnx"
LARGEST_MESSAGE = (1 << 31) - 1
CONTRIBUTED = "com.microsoft"


class _OnnxRuntime:
    def __init__(self, session: Any, past: dict[str, Any]) -> None:
        self.session = session
        self.past = past
        self.length = 0

    def prefill(self, tokens: Sequence[int]) -> int:
        self.length = 0
        return self._read(tokens)

    def decode(self, token: int) -> int:
        return self._read([token])

    def _read(self, tokens: Sequence[int]) -> int:
        self.length += len(tokens)
        binding = self.session.io_binding()
        binding.bind_output("logits")
        binding.bind_cpu_input("tokens", np.array([tokens], "int64"))
        binding.bind_cpu_input("last", np.array([len(tokens) - 1], "int64"))
        binding.bind_cpu_input("before", np.array([self.length - 1], "int32"))
        binding.bind_cpu_input("total", np.array(self.length, "int32"))
        for name, memory in self.past.items():
            binding.bind_ortvalue_input(f"past_{name}", memory)
            binding.bind_ortvalue_output(f"present_{name}", memory)
        self.session.run_with_iobinding(binding)
        return int(binding.copy_outputs_to_cpu()[0].argmax())


def write(folder: Path, size: str, bits: int) -> None:
    """Write the model, with the weights in a file beside it only where they do not fit into one message.

    ONNX Runtime takes twice as long for a token if weights are in another file.
    """
    model = _Graph(SHAPES[size], bits).model()
    is_large = model.ByteSize() > LARGEST_MESSAGE
    importlib.import_module("onnx").save(model, folder / FILE, save_as_external_data=is_large)


def load(folder: Path, size: str, _bits: int) -> Engine:
    """A session with the threads that `OMP_NUM_THREADS` says."""
    runtime = importlib.import_module("onnxruntime")
    shape = SHAPES[size]
    options = runtime.SessionOptions()
    options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", "2"))
    session = runtime.InferenceSession(str(folder / FILE), options, providers=["CPUExecutionProvider"])
    memory = np.zeros((1, shape.pairs, CAPACITY, shape.part), "float32")
    names = [f"{kind}_{layer}" for layer in range(shape.layers) for kind in ("key", "value")]
    return _OnnxRuntime(session, {name: runtime.OrtValue.ortvalue_from_numpy(memory) for name in names})


class _Graph:
    def __init__(self, shape: Shape, bits: int) -> None:
        self.onnx = importlib.import_module("onnx")
        self.shape = shape
        self.bits = bits
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def model(self) -> Any:
        helper, types = self.onnx.helper, self.onnx.TensorProto
        shape = self.shape
        numbers = [("tokens", types.INT64, [1, "s"]), ("last", types.INT64, [1])]
        numbers += [("before", types.INT32, [1]), ("total", types.INT32, [])]
        rows = [1, shape.pairs, CAPACITY, shape.part]
        past = [
            (f"{kind}_{layer}", types.FLOAT, rows)
            for layer in range(shape.layers)
            for kind in ("key", "value")
        ]
        logits = self.network()
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "llama",
            [value(*each) for each in numbers] + [value(f"past_{name}", *rest) for name, *rest in past],
            [value(logits, types.FLOAT, None)] + [value(f"present_{name}", *rest) for name, *rest in past],
            self.constants,
        )
        versions = [helper.make_opsetid("", 17), helper.make_opsetid(CONTRIBUTED, 1)]
        return helper.make_model(graph, opset_imports=versions, ir_version=10)

    def network(self) -> str:
        shape = self.shape
        table = (
            np.random.default_rng(0).standard_normal((shape.words, shape.width), "float32").astype("float16")
        )
        x = self.node("Cast", self.node("Gather", self.constant("table", table), "tokens"), to=1)
        self.constant("cosines", np.cos(rotary_angles(shape)))
        self.constant("sines", np.sin(rotary_angles(shape)))
        for layer in range(shape.layers):
            x = self.node("Add", x, self.attention(self.norm(x), layer))
            normed = self.norm(x)
            gate = self.linear(normed, shape.hidden, shape.width)
            gate = self.node("Mul", gate, self.node("Sigmoid", gate))
            both = self.node("Mul", gate, self.linear(normed, shape.hidden, shape.width))
            x = self.node("Add", x, self.linear(both, shape.width, shape.hidden))
        last = self.node("Gather", self.norm(x), "last", axis=1)
        return self.linear(last, shape.words, shape.width, "logits")

    def attention(self, x: str, layer: int) -> str:
        shape = self.shape
        joined = self.linear(x, (shape.heads + 2 * shape.pairs) * shape.part, shape.width)
        past = [f"past_key_{layer}", f"past_value_{layer}"]
        found = f"seen_{layer}"
        self.nodes.append(
            self.onnx.helper.make_node(
                "GroupQueryAttention",
                [joined, "", "", *past, "before", "total", "cosines", "sines"],
                [found, f"present_key_{layer}", f"present_value_{layer}"],
                domain=CONTRIBUTED,
                num_heads=shape.heads,
                kv_num_heads=shape.pairs,
                do_rotary=1,
            )
        )
        return self.linear(found, shape.width, shape.width)

    def norm(self, x: str) -> str:
        ones = np.ones(self.shape.width, "float32")
        scale = self.constant(f"scale_{len(self.constants)}", ones)
        return self.node("SimplifiedLayerNormalization", x, scale, axis=-1, epsilon=1e-5)

    def linear(self, x: str, columns: int, depth: int, result: str = "") -> str:
        groups = depth // GROUP
        place = f"weight_{len(self.constants)}"
        seed = len(self.constants)
        words = self.constant(place, random_bytes(seed, columns, groups, GROUP * self.bits // 8))
        scales = np.full(columns * groups, 0.2 / 2**self.bits, "float32")
        attributes = {"K": depth, "N": columns, "bits": self.bits, "block_size": GROUP, "accuracy_level": 4}
        inputs = (x, words, self.constant(f"{place}_scales", scales))
        return self.node("MatMulNBits", *inputs, result=result, domain=CONTRIBUTED, **attributes)

    def constant(self, name: str, array: np.ndarray) -> str:
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def node(self, kind: str, *inputs: str, result: str = "", **attributes: Any) -> str:
        result = result or f"value_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [result], **attributes))
        return result
