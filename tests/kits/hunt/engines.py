"""The engines by the names of their targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TypeAlias

import numpy as np
import tvm

from kits.dense_graphs.generation import generated
from kits.dense_graphs.recipe import Recipe, of_type
from kits.dense_graphs.values import AS_FLOAT32, UNIT, Roundings

__all__ = ["TARGETS", "Build", "Engine", "LeftOutError", "build_of", "recipe_of"]

Engine: TypeAlias = Callable[[Sequence[np.ndarray]], list[np.ndarray]]

Forms: TypeAlias = Callable[[tvm.IRModule, int], Mapping[str, Engine]]
"""The forms of a graph that a target runs, by name; the number is the graph's seed."""


@dataclass(frozen=True, slots=True)
class Build:
    """What makes a target's engines of a graph.

    Attributes
    ----------
    forms
        Makes them.
    roundings
        What they round beside the results of their ops.
    """

    forms: Forms
    roundings: Roundings = AS_FLOAT32

    def __call__(self, mod: tvm.IRModule, seed: int) -> Mapping[str, Engine]:
        """The engines of a graph with a seed, by the names of their forms."""
        return self.forms(mod, seed)


HALVES = {
    "dnnl_float16": "float16",
    "dnnl_bfloat16": "bfloat16",
    "onnxruntime_float16": "float16",
    "openvino_float16": "float16",
}
"""Targets whose graphs' floats have half the bits."""

PACKED = {
    "dnnl_packed_int16": ({"packed_activations": "int16"}, Roundings(operands=2.0**-15)),
    "dnnl_packed_int8": ({"packed_activations": "int8"}, Roundings(operands=2.0**-7)),
    "dnnl_packed_bfloat16": ({"packed_activations": "bfloat16"}, Roundings(operands=2.0**-8)),
}
"""Targets whose graphs have packed weights: their options, and what they round."""

TARGETS = ("dnnl", "onnxruntime", "openvino", "tensorrt", "passes", "host", *HALVES, *PACKED)


class LeftOutError(Exception):
    """A form of a graph cannot be made, for a reason that is known and not ours; it is counted."""


def recipe_of(target: str, seed: int) -> Recipe:
    """The graph of a seed for a target; dnnl gets none of the ops that it has nothing for."""
    recipe = generated(seed, extras=not target.startswith("dnnl"), packs=target in PACKED)
    return of_type(recipe, HALVES[target]) if target in HALVES else recipe


def build_of(target: str) -> Build:
    """What builds graphs for a target; makes ready what takes longer than a graph may."""
    target = target if target not in HALVES else target.rpartition("_")[0]
    if target == "passes":
        return Build(import_module("kits.hunt.passes_engine").build)
    roundings = AS_FLOAT32
    if target == "dnnl" or target in PACKED:
        import_module("kits.hunt.table_interpreter").interpreter()
        options, roundings = PACKED.get(target, ({}, roundings))
        make = partial(import_module("kits.hunt.dnnl_engine").build, options=options)
    elif target == "host":
        make = import_module("kits.hunt.host_engine").build
    elif target == "openvino":
        make = import_module("kits.hunt.openvino_engine").build_openvino
        roundings = Roundings(levels=UNIT)  # places of numbers in a range of 256 levels, which begins below 0
    else:
        make = getattr(import_module("kits.hunt.onnx_engine"), f"build_{target}")
    return Build(lambda mod, _seed: {target: make(mod)}, roundings)
