"""The engines by the names of their targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TypeAlias

import numpy as np
import tvm

from kits.dense_graphs.generation import generated
from kits.dense_graphs.recipe import Recipe, of_type

__all__ = ["TARGETS", "Build", "Engine", "LeftOutError", "build_of", "recipe_of"]

Engine: TypeAlias = Callable[[Sequence[np.ndarray]], list[np.ndarray]]
Build: TypeAlias = Callable[[tvm.IRModule, int], Mapping[str, Engine]]
"""The forms of a graph that a target runs, by name; the number is the graph's seed."""

HALVES = {
    "dnnl_float16": "float16",
    "dnnl_bfloat16": "bfloat16",
    "onnxruntime_float16": "float16",
    "openvino_float16": "float16",
}
"""Targets whose graphs' floats have half the bits."""

TARGETS = ("dnnl", "onnxruntime", "openvino", "tensorrt", "passes", *HALVES)


class LeftOutError(Exception):
    """A form of a graph cannot be made, for a reason that is known and not ours; it is counted."""


def recipe_of(target: str, seed: int) -> Recipe:
    """The graph of a seed for a target; dnnl gets none of the ops that it has nothing for."""
    recipe = generated(seed, extras=not target.startswith("dnnl"))
    return of_type(recipe, HALVES[target]) if target in HALVES else recipe


def build_of(target: str) -> Build:
    """What builds graphs for a target; makes ready what takes longer than a graph may."""
    target = target if target not in HALVES else target.rpartition("_")[0]
    if target == "passes":
        build: Build = import_module("kits.hunt.passes_engine").build
        return build
    if target == "dnnl":
        import_module("kits.hunt.table_interpreter").interpreter()
        make = import_module("kits.hunt.dnnl_engine").build
    elif target == "openvino":
        make = import_module("kits.hunt.openvino_engine").build_openvino
    else:
        make = getattr(import_module("kits.hunt.onnx_engine"), f"build_{target}")
    return lambda mod, _seed: {target: make(mod)}
