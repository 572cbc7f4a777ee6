"""Whether the results of a model hang on roundings: one that is rounded otherwise is not wrong.

Such are a `Floor` beside a whole number, an `ArgMax` of equal sums, and the difference of nearly equal ones.
Each float that a node reads or computes is multiplied by a number near 1, and the results have to stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from kits.importing.drawn_nodes.answers import answers_of

__all__ = ["is_steady"]

NOISE = {"float64": 1e-9, "float32": 1e-6, "float16": 2.0**-10}
ALLOWED = {"float64": 5e-8, "float32": 1e-5, "float16": 2.0**-11}
"""Of each number by itself and of the largest: half of what a target may be apart."""
TRIALS = 2


def is_steady(
    model: onnx.ModelProto, feeds: Mapping[str, np.ndarray], expected: Sequence[np.ndarray]
) -> bool:
    """Whether other roundings lead to the same results; all numbers on the way have to be finite."""
    values = _values(model, feeds)
    if values is None or not all(
        np.isfinite(each).all() for each in values.values() if each.dtype.kind == "f"
    ):
        return False
    rng = np.random.default_rng(0)
    for _ in range(TRIALS):
        shaken = {name: _near(array, rng) for name, array in feeds.items()}
        found = answers_of(_shaken(model, values, rng), shaken)
        if found is None or not all(map(_is_near, found, expected)):
            return False
    return True


def _values(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
    """What each node computes, by name."""
    names = [name for node in model.graph.node for name in node.output if name]
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    del changed.graph.output[:]
    changed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    found = answers_of(changed, feeds)
    return None if found is None else dict(zip(names, found, strict=True))


def _shaken(
    model: onnx.ModelProto, values: Mapping[str, np.ndarray], rng: np.random.Generator
) -> onnx.ModelProto:
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for constant in changed.graph.initializer:
        constant.CopyFrom(numpy_helper.from_array(_near(numpy_helper.to_array(constant), rng), constant.name))
    del changed.graph.node[:]
    for node in model.graph.node:
        own = onnx.NodeProto()
        own.CopyFrom(node)
        changed.graph.node.append(own)
        at = len(changed.graph.node) - 1
        for place, name in enumerate(node.output):
            if not name or str(values[name].dtype) not in NOISE:
                continue
            array = values[name]
            factor = _near(np.ones(array.shape, array.dtype), rng)
            constant = numpy_helper.from_array(factor, f"{name}_factor")
            changed.graph.initializer.append(constant)
            changed.graph.node[at].output[place] = f"{name}_exact"
            changed.graph.node.append(helper.make_node("Mul", [f"{name}_exact", f"{name}_factor"], [name]))
    return changed


def _near(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The numbers times some near 1, if they are floats."""
    noise = NOISE.get(str(array.dtype), 0.0)
    return np.asarray(array * (1 + noise * rng.standard_normal(array.shape)), array.dtype) if noise else array


def _is_near(found: np.ndarray, wanted: np.ndarray) -> bool:
    if found.shape != wanted.shape or str(wanted.dtype) not in ALLOWED:
        return bool(np.array_equal(found, wanted))
    scale, allowed = np.abs(wanted).max(initial=0.0), ALLOWED[str(wanted.dtype)]
    return bool(np.allclose(found, wanted, allowed, allowed * min(float(scale), 1.0)))
