"""Mutates ONNX models: bytes of the file, and parts of the graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import onnx

from kits.importing.node_cases import cases_by_name

__all__ = ["inputs_left_out", "mutated_model", "operator_models", "seed_models"]

_DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
_LARGEST_SEED = 50_000
NUMBERS = (0, 1, -1, 2, 3, 7, 255, 2**31 - 1, 2**31, -(2**31), 2**32, 2**62, 2**63 - 1, -(2**63))
NAMES = (
    "",
    "x",
    "y",
    "\x1b[31m\x07",
    "a" * 500,
    "../../etc/passwd",
    "\u2028",
    "R",
    "main",
    "$(id)",
    "</svg>",
)


@cache
def seed_models() -> tuple[bytes, ...]:
    """Small models that PyTorch exported, as the onnx package ships them."""
    files = sorted(_DATA.glob("pytorch-*/*/model.onnx")) + sorted(_DATA.glob("simple/*/model.onnx"))
    contents = (file.read_bytes() for file in files)
    return tuple(content for content in contents if len(content) < _LARGEST_SEED)


@cache
def operator_models() -> dict[str, onnx.ModelProto]:
    """A model of one node for each operator that the onnx package has a test of."""
    models: dict[str, onnx.ModelProto] = {}
    for case in cases_by_name().values():
        if len(case.model.graph.node) == 1:
            models.setdefault(case.model.graph.node[0].op_type, case.model)
    return models


def inputs_left_out(model: onnx.ModelProto, random: Random) -> onnx.ModelProto:
    """The model with some inputs of its node left out, put twice, or put in another order."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    node = changed.graph.node[0]
    inputs = list(node.input) or [""]
    for _ in range(random.randint(1, 2)):
        place = random.randrange(len(inputs) or 1)
        match random.randrange(5):
            case 0 | 1 if inputs:
                inputs[place] = ""
            case 2:
                inputs = inputs[:place]
            case 3:
                inputs.insert(place, "")
            case _:
                random.shuffle(inputs)
    node.input[:] = inputs
    if random.random() < 0.3 and node.attribute:
        del node.attribute[random.randrange(len(node.attribute))]
    return changed


def mutated_model(content: bytes, random: Random) -> bytes:
    """A model with a few things changed."""
    if random.random() < 0.3:
        return _mutated_bytes(content, random)
    model = onnx.load_model_from_string(content)
    for _ in range(random.randint(1, 4)):
        random.choice(_CHANGES)(model.graph, random)
    changed: bytes = model.SerializeToString()
    return changed


def _mutated_bytes(content: bytes, random: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(random.randint(1, 8)):
        place = random.randrange(len(changed) or 1)
        match random.randrange(5):
            case 0 if changed:
                changed[place] ^= 1 << random.randrange(8)
            case 1:
                del changed[place : place + random.randint(1, 16)]
            case 2:
                changed[place:place] = random.randbytes(random.randint(1, 8))
            case 3:
                changed[place:place] = changed[place : place + random.randint(1, 64)]
            case _:
                changed[place : place + 1] = bytes([random.choice((0, 0x7F, 0x80, 0xFF))])
    return bytes(changed)


def _any(items: Any, random: Random) -> Any:
    return random.choice(items) if len(items) else None


def _node_dropped(graph: onnx.GraphProto, random: Random) -> None:
    if len(graph.node):
        del graph.node[random.randrange(len(graph.node))]


def _node_doubled(graph: onnx.GraphProto, random: Random) -> None:
    node = _any(graph.node, random)
    if node is not None:
        graph.node.add().CopyFrom(node)


def _other_operator(graph: onnx.GraphProto, random: Random) -> None:
    node = _any(graph.node, random)
    if node is not None:
        node.op_type = random.choice(sorted({schema.name for schema in onnx.defs.get_all_schemas()}))


def _other_inputs(graph: onnx.GraphProto, random: Random) -> None:
    node = _any(graph.node, random)
    if node is None:
        return
    names = ["", *node.input, *(name for each in graph.node for name in (*each.input, *each.output))]
    inputs = [random.choice(names) if random.random() < 0.5 else name for name in node.input]
    node.input[:] = inputs[: random.randint(0, len(inputs))] if random.random() < 0.3 else inputs


def _other_attribute(graph: onnx.GraphProto, random: Random) -> None:
    node = _any(graph.node, random)
    attribute = _any(node.attribute, random) if node is not None else None
    if attribute is None:
        return
    match random.randrange(6):
        case 0:
            node.attribute.remove(attribute)
        case 1:
            attribute.name = random.choice(NAMES) + attribute.name[:2]
        case 2:
            attribute.i = random.choice(NUMBERS)
        case 3:
            attribute.ints[:] = [random.choice(NUMBERS) for _ in range(random.randint(0, 5))]
        case 4:
            attribute.f = random.choice((0.0, -1.0, float("nan"), float("inf"), 1e38))
        case _:
            attribute.type = random.randrange(14)


def _other_extents(graph: onnx.GraphProto, random: Random) -> None:
    value = _any([*graph.input, *graph.output, *graph.value_info], random)
    if value is None:
        return
    value.type.tensor_type.elem_type = random.choice([value.type.tensor_type.elem_type] * 3 + list(range(24)))
    for dim in value.type.tensor_type.shape.dim:
        if random.random() < 0.4:
            dim.dim_value = random.choice(NUMBERS)


def _other_weights(graph: onnx.GraphProto, random: Random) -> None:
    weight = _any(graph.initializer, random)
    if weight is None:
        return
    match random.randrange(4):
        case 0:
            weight.dims[:] = [random.choice(NUMBERS) for _ in weight.dims]
        case 1:
            weight.raw_data = random.randbytes(random.randrange(64))
        case 2:
            weight.data_type = random.randrange(24)
        case _:
            weight.data_location = onnx.TensorProto.EXTERNAL
            for key, value in (
                ("location", random.choice(("/etc/passwd", "../x", "x", ""))),
                ("offset", "-1"),
            ):
                weight.external_data.add(key=key, value=value)


def _other_names(graph: onnx.GraphProto, random: Random) -> None:
    new = random.choice(NAMES)
    node = _any(graph.node, random)
    match random.randrange(4):
        case 0 if len(graph.input):
            graph.input[random.randrange(len(graph.input))].name = new
        case 1 if node is not None and len(node.output):
            node.output[random.randrange(len(node.output))] = new
        case 2 if node is not None:
            node.name = new
        case _:
            graph.name = new


_CHANGES: tuple[Callable[[onnx.GraphProto, Random], None], ...] = (
    _node_dropped,
    _node_doubled,
    _other_operator,
    _other_inputs,
    _other_inputs,
    _other_attribute,
    _other_attribute,
    _other_extents,
    _other_weights,
    _other_names,
)
