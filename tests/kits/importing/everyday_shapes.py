"""ONNX models by lot with the extents of everyday networks: up to three products or windows and their chains.

Dense graphs have extents of a few elements; libraries take other code where channels are many, and where a
result has rows enough for all threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["everyday_model"]

CHANNELS = (1, 3, 8, 13, 16, 24, 26, 32, 48, 64, 72, 96, 128, 192, 256, 320, 384, 512, 768)
KERNELS = (1, 1, 2, 3, 3, 3, 4, 5, 7, 11)
MOST_WORK = 60_000_000
"""Products and sums of one op."""
EXTENTS = {1: (1, 7, 33, 100, 400), 2: (1, 4, 7, 10, 14, 16, 28, 56), 3: (2, 4, 7, 10)}
CURVES = ("Relu", "LeakyRelu", "Clip", "Sigmoid", "Silu", "HardSwish", "Tanh")


@dataclass
class _Draft:
    """A model in the making."""

    rng: np.random.Generator
    rank: int
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def pick(self, choices: Sequence[int]) -> int:
        return int(self.rng.choice(choices))

    def constant(self, values: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(values, name))
        return name

    def numbers(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal(shape).astype("float32")

    def given(self, shape: tuple[int, ...]) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.numbers(*shape)
        self.shapes[name] = shape
        return name

    def add(self, kind: str, operands: Sequence[str], shape: tuple[int, ...], **attrs: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(operands), [name], **attrs))
        self.shapes[name] = shape
        return name


def everyday_model(seed: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The model of a seed, and inputs for it."""
    draft = _Draft(np.random.default_rng(seed), 0)
    draft.rank = draft.pick((1, 2, 2, 2, 3))
    extents = tuple(draft.pick(EXTENTS[draft.rank]) for _ in range(draft.rank))
    value = draft.given((draft.pick((1, 1, 1, 2, 5)), draft.pick(CHANNELS), *extents))
    if draft.chance(0.5):
        value = draft.add("Relu", [value], draft.shapes[value])
    for _ in range(draft.pick((1, 1, 2, 2, 3))):
        value = _block(draft, value)
    result = helper.make_tensor_value_info(value, TensorProto.FLOAT, None)
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in draft.inputs.items()]
    graph = helper.make_graph(draft.nodes, f"everyday_{seed}", given, [result], draft.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), draft.inputs


def _block(draft: _Draft, value: str) -> str:
    make = (_convolution, _convolution, _transposed, _window, _product)[draft.pick(range(5))]
    made = make(draft, value) or value
    for _ in range(draft.pick((0, 1, 2, 3))):
        made = _followed(draft, made)
    same = draft.shapes[made][2:] == draft.shapes[value][2:]
    if same and draft.chance(0.2):
        shape = draft.shapes[made]
        joined = (shape[0], shape[1] + draft.shapes[value][1], *shape[2:])
        made = draft.add("Concat", [made, value], joined, axis=1)
    return made


def _followed(draft: _Draft, value: str) -> str:
    shape = draft.shapes[value]
    kind = draft.pick(range(4))
    if kind == 0:
        return _curve(draft, value, CURVES[draft.pick(range(len(CURVES)))])
    op = ("Add", "Mul", "Sub", "Max", "Min")[draft.pick((0, 0, 1, 1, 2, 3, 4))]
    if kind == 1:
        vector = draft.constant(draft.numbers(shape[1], *(1 for _ in shape[2:])))
        return draft.add(op, [value, vector], shape)
    if kind == 2:
        other = draft.add("Relu", [draft.given(shape)], shape)
        operands = [value, other] if draft.chance(0.5) else [other, value]
        return draft.add(op, operands, shape)
    return draft.add(op, [value, draft.constant(draft.numbers())], shape)


def _curve(draft: _Draft, value: str, curve: str) -> str:
    shape = draft.shapes[value]
    if curve == "Silu":
        return draft.add("Mul", [value, draft.add("Sigmoid", [value], shape)], shape)
    if curve == "Clip":
        low, high = (
            draft.constant(np.array(each, "float32")) for each in ((0, 6) if draft.chance(0.5) else (-1, 2))
        )
        return draft.add("Clip", [value, low, high], shape)
    return draft.add(curve, [value], shape)


def _groups(draft: _Draft, inner: int) -> tuple[int, int]:
    """The groups, and the channels behind a convolution."""
    if draft.chance(0.2):
        return inner, inner * draft.pick((1, 1, 1, 2))
    groups = draft.pick((1, 1, 1, 2, 4))
    return (1, draft.pick(CHANNELS)) if inner % groups else (groups, groups * draft.pick((4, 8, 13, 16, 32)))


def _kernel(draft: _Draft, axes: int) -> tuple[int, ...]:
    one = draft.pick(KERNELS)
    return tuple(draft.pick(KERNELS) if draft.chance(0.15) else one for _ in range(axes))


def _convolution(draft: _Draft, value: str) -> str | None:
    images, inner, *extents = draft.shapes[value]
    groups, outer = _groups(draft, inner)
    kernel, step = _kernel(draft, draft.rank), draft.pick((1, 1, 2, 3))
    dilation = draft.pick((1, 1, 1, 2))
    pads = [draft.pick(range(taps)) if draft.chance(0.3) else dilation * (taps - 1) // 2 for taps in kernel]
    made = [
        (extent + 2 * pad - dilation * (taps - 1) - 1) // step + 1
        for extent, pad, taps in zip(extents, pads, kernel, strict=True)
    ]
    work = images * outer * inner // groups * int(np.prod(kernel)) * int(np.prod([max(m, 0) for m in made]))
    if min(made) < 1 or work > MOST_WORK:
        return None
    attrs = {
        "strides": [step] * draft.rank,
        "dilations": [dilation] * draft.rank,
        "pads": pads * 2,
        "group": groups,
    }
    operands = _weighted(draft, value, (outer, inner // groups, *kernel), outer, groups)
    return draft.add("Conv", operands, (images, outer, *made), **attrs)


def _transposed(draft: _Draft, value: str) -> str | None:
    images, inner, *extents = draft.shapes[value]
    groups, outer = _groups(draft, inner)
    kernel, step = _kernel(draft, draft.rank), draft.pick((1, 2, 2, 3))
    dilation = draft.pick((1, 1, 1, 2))
    pads = [draft.pick(range(taps)) if draft.chance(0.3) else (taps - 1) // 2 for taps in kernel]
    made = [
        (extent - 1) * step + dilation * (taps - 1) + 1 - 2 * pad
        for extent, pad, taps in zip(extents, pads, kernel, strict=True)
    ]
    work = images * outer * inner // groups * int(np.prod(kernel)) * int(np.prod(extents))
    if min(made) < 1 or work > MOST_WORK or images * outer * int(np.prod(made)) > MOST_WORK // 10:
        return None
    attrs = {
        "strides": [step] * draft.rank,
        "dilations": [dilation] * draft.rank,
        "pads": pads * 2,
        "group": groups,
    }
    operands = _weighted(draft, value, (inner, outer // groups, *kernel), outer, groups)
    return draft.add("ConvTranspose", operands, (images, outer, *made), **attrs)


def _weighted(draft: _Draft, value: str, weights: tuple[int, ...], outer: int, groups: int) -> list[str]:
    """The operands of a convolution: data, weights of these extents, and perhaps a bias."""
    terms = draft.shapes[value][1] // groups * np.prod(weights[2:])
    operands = [value, draft.constant(draft.numbers(*weights) / np.float32(np.sqrt(terms)))]
    if draft.chance(0.7):
        operands.append(draft.constant(draft.numbers(outer)))
    return operands


def _window(draft: _Draft, value: str) -> str | None:
    images, channels, *extents = draft.shapes[value]
    size, step = draft.pick((2, 3, 3, 5)), draft.pick((1, 2, 2, 3))
    pad = draft.pick((0, 0, size // 2))
    made = [(extent + 2 * pad - size) // step + 1 for extent in extents]
    if min(made) < 1:
        return None
    rank = draft.rank
    attrs = {"kernel_shape": [size] * rank, "strides": [step] * rank, "pads": [pad] * (2 * rank)}
    shape = (images, channels, *made)
    if draft.chance(0.5):
        return draft.add("MaxPool", [value], shape, **attrs)
    return draft.add("AveragePool", [value], shape, count_include_pad=draft.pick((0, 1)), **attrs)


def _product(draft: _Draft, value: str) -> str | None:
    """A product over the channels, which are the last axis for it, as in transformers."""
    images, inner, *extents = draft.shapes[value]
    outer, rows = draft.pick(CHANNELS), int(np.prod(extents))
    if images * rows * inner * outer > MOST_WORK:
        return None
    order = [0, *range(2, draft.rank + 2), 1]
    last = draft.add("Transpose", [value], (images, *extents, inner), perm=order)
    weights = draft.constant(draft.numbers(inner, outer) / np.float32(np.sqrt(inner)))
    made = draft.add("MatMul", [last, weights], (images, *extents, outer))
    if draft.chance(0.7):
        made = draft.add("Add", [made, draft.constant(draft.numbers(outer))], draft.shapes[made])
    back = [0, draft.rank + 1, *range(1, draft.rank + 1)]
    return draft.add("Transpose", [made], (images, outer, *extents), perm=back)
