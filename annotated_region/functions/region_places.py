"""Where in the imported model a region lies, as a part of a name: the path that its ops have in common."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise, takewhile

from annotated_region.dataflow.graph import DataflowGraph
from annotated_region.ids import NodeId
from annotated_region.origins import recorded_origin

__all__ = ["common_place", "place_of"]

_LONGEST = 48
# What an importer adds behind the path of a PyTorch module: "layer1.0.conv1 (model.py:12)".
_LINE = re.compile(r" \([^()]*:\d+\)$")


def place_of(graph: DataflowGraph, nodes: Iterable[NodeId]) -> str:
    """The place of a region; empty where its ops have none in common, or no importer named them."""
    bound = [graph.nodes[node] for node in nodes]
    origins = [recorded_origin(node.value) or recorded_origin(node.var) for node in bound]
    return common_place([origin for origin in origins if origin is not None])


def common_place(origins: Iterable[str]) -> str:
    """The longest path that origins have in common, as a C identifier of at most 48 characters.

    Paths are those of ONNX nodes (``/layer3/attention/MatMul``) and PyTorch modules (``layer3.attention``).
    Names that are no paths say nothing. Of a long path the end is kept, which tells most.
    """
    paths = [path for path in map(_path, dict.fromkeys(origins)) if len(path) > 1]
    if not paths:
        return ""
    shared = takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False))
    words = re.sub(r"[\W_]+", "_", "_".join(_spelled([parts[0] for parts in shared])), flags=re.ASCII)
    return words[-_LONGEST:].strip("_")


def _path(origin: str) -> list[str]:
    """The parts of a path; one part or none if it is no path."""
    plain = _LINE.sub("", origin)
    return [part for part in plain.split("/" if "/" in plain else ".") if part]


def _spelled(parts: Sequence[str]) -> list[str]:
    """Parts without those that the next one repeats, as PyTorch writes them: ``layer1/layer1.0/conv1``."""
    repeated = {part for part, after in pairwise(parts) if after.startswith(f"{part}.")}
    return [part for part in parts if part not in repeated]
