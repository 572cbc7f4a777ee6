"""The place of a region in the imported model, for its name: the common path of its ops."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise, takewhile

from annotated_region.dataflow.graph import DataflowGraph
from annotated_region.ids import NodeId
from annotated_region.origins import recorded_origin

__all__ = ["common_place", "place_of"]

_LONGEST = 48
# The suffix that an importer adds to a PyTorch module path: "layer1.0.conv1 (model.py:12)".
_LINE = re.compile(r" \([^()]*:\d+\)$")


def place_of(graph: DataflowGraph, nodes: Iterable[NodeId]) -> str:
    """The place of a region; empty if its ops have no common path, or no importer named them."""
    bound = [graph.nodes[node] for node in nodes]
    origins = [recorded_origin(node.value) or recorded_origin(node.var) for node in bound]
    return common_place([origin for origin in origins if origin is not None])


def common_place(origins: Iterable[str]) -> str:
    """The longest common path of some origins, as a C identifier of at most 48 characters.

    Paths are those of ONNX nodes (``/layer3/attention/MatMul``) and PyTorch modules (``layer3.attention``).
    Names that are not paths are ignored. A long path is truncated at the front, because its end is the most
    specific.
    """
    paths = [path for path in map(_path, dict.fromkeys(origins)) if len(path) > 1]
    if not paths:
        return ""
    shared = takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False))
    words = re.sub(r"[\W_]+", "_", "_".join(_spelled([parts[0] for parts in shared])), flags=re.ASCII)
    return words[-_LONGEST:].strip("_")


def _path(origin: str) -> list[str]:
    """The components of a path; at most one if it is not a path."""
    plain = _LINE.sub("", origin)
    return [part for part in plain.split("/" if "/" in plain else ".") if part]


def _spelled(parts: Sequence[str]) -> list[str]:
    """Path components without those that the next one repeats, as in PyTorch's ``layer1/layer1.0/conv1``."""
    repeated = {part for part, after in pairwise(parts) if after.startswith(f"{part}.")}
    return [part for part in parts if part not in repeated]
