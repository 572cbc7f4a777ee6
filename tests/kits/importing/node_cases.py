"""The test cases that the onnx package brings: models of one node or a few, with their answers."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case import node
from onnx.backend.test.case.test_case import TestCase

__all__ = ["FORMS", "KINDS", "NodeCase", "cases_by_name", "in_form", "node_cases"]

FORMS = ("inputs", "constants", "symbolic")
"""How a model gets what its node reads: as inputs of the graph, all but the first as initializers, or lists
as initializers and the rest with a symbol for the batch.
"""

KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted")
"""The first kind is computed by the onnx package, the others are files of it."""

MODULES = (
    "attention", "batch_normalization", "bitshift", "cast", "constantofshape", "convtranspose", "dropout",
    "identity", "isinf", "layernormalization", "mod", "nonmaxsuppression", "pow", "reducemax", "reshape",
    "roialign", "shape", "spacetodepth",
)  # fmt: skip
"""The operators whose cases the tests use, by the names of the package's modules."""

_DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"


@dataclass(frozen=True, slots=True)
class NodeCase:
    """A model, and what it computes of each of its sets of inputs.

    Attributes
    ----------
    name
        As the onnx package calls it.
    model
        The model.
    calls
        Inputs and expected results: arrays, lists of arrays for sequences, None for what is not there.
    """

    name: str
    model: onnx.ModelProto
    calls: tuple[tuple[tuple[Any, ...], tuple[Any, ...]], ...]


def node_cases(kind: str) -> list[NodeCase]:
    """All cases of a kind."""
    if kind != "node":
        return [_from_folder(folder) for folder in sorted((_DATA / kind).iterdir()) if folder.is_dir()]
    with _overflows_allowed():
        cases = node.collect_testcases(None)
    return list(map(_computed, cases))


@cache
def cases_by_name() -> dict[str, NodeCase]:
    """The cases of `MODULES`, once a process: those of all operators take the package ten seconds."""
    with _overflows_allowed():
        for name in MODULES:
            importlib.import_module(f"{node.__name__}.{name}")
    return {case.name: _computed(case) for case in node._NodeTestCases}


@contextmanager
def _overflows_allowed() -> Iterator[None]:
    """The package computes what the operators should give, overflows included."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _computed(case: TestCase) -> NodeCase:
    calls = tuple((_values(given), _values(made)) for given, made in case.data_sets)
    return NodeCase(case.name, case.model, calls)


def in_form(case: NodeCase, form: str) -> NodeCase | None:
    """The case with inputs as the form says; None if that changes nothing, or cannot be said."""
    if form == "inputs":
        return case
    own = {tensor.name for tensor in case.model.graph.initializer}
    inputs = [value for value in case.model.graph.input if value.name not in own]
    given = case.calls[0][0]
    is_plain = all(isinstance(value, np.ndarray) and value.dtype != object for value in given)
    if not inputs or len(case.calls) != 1 or not is_plain:
        return None
    kept = [
        (value, array)
        for place, (value, array) in enumerate(zip(inputs, given, strict=True))
        if not place or (form == "symbolic" and array.ndim > 1)
    ]
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    model.ir_version = max(model.ir_version, 4)  # before, initializers had to be inputs, too
    del model.graph.input[:]
    model.graph.input.extend(value for value, _ in kept)
    names = {value.name for value, _ in kept}
    for info, value in zip(inputs, given, strict=True):
        if info.name not in names:
            model.graph.initializer.append(numpy_helper.from_array(value, info.name))
    if form == "symbolic" and not _named_batches(model.graph):
        return None
    changed = replace(case, model=model, calls=((tuple(array for _, array in kept), case.calls[0][1]),))
    return changed if form == "symbolic" or len(inputs) > 1 else None


def _named_batches(graph: onnx.GraphProto) -> bool:
    """Give the first extent of the first input a name, wherever it stands first; whether it has one."""
    extents = [each.type.tensor_type.shape.dim[:1] for each in graph.input]
    first = extents[0][0].dim_value if extents[0] else 0
    for extent in (each[0] for each in extents if each and first and each[0].dim_value == first):
        extent.dim_param = "n"
    for result in graph.output:
        result.type.tensor_type.ClearField("shape")
    return first > 0


def _values(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(_value(each) for each in values)


def _value(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, np.generic):
        return np.asarray(value)
    return list(_values(value)) if isinstance(value, list) else value


def _from_folder(folder: Path) -> NodeCase:
    model = onnx.load(folder / "model.onnx")
    own = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in own]
    calls = [
        (tuple(_stored(data, "input", inputs)), tuple(_stored(data, "output", model.graph.output)))
        for data in sorted(folder.glob("test_data_set_*"))
    ]
    return NodeCase(folder.name, model, tuple(calls))


def _stored(folder: Path, stem: str, infos: Sequence[onnx.ValueInfoProto]) -> Iterator[Any]:
    for number, info in enumerate(infos):
        content = (folder / f"{stem}_{number}.pb").read_bytes()
        if info.type.HasField("sequence_type"):
            sequence = onnx.SequenceProto.FromString(content)
            yield list(numpy_helper.to_list(sequence))
        else:
            yield numpy_helper.to_array(onnx.TensorProto.FromString(content))
