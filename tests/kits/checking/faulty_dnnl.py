"""Plants faults in what the generator of dnnl makes: in the nodes of an op, before they are fused.

    options={"dnnl": planted(Fault("scale", "lv12"))}

The option is one of the tests: a generator that stands in front of the real one takes it off.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any
from unittest.mock import patch

import tvm
import tvm_ffi
from tvm import relax

from annotated_region.backends.dnnl import codegen
from annotated_region.backends.dnnl.graph import Dim, Graph, Kind, TensorId
from annotated_region.backends.dnnl.importer import Convert, Importer
from annotated_region.backends.dnnl.parameters import (
    NO_PARAMETERS,
    Arithmetic,
    Begins,
    Concat,
    Convolution,
    Curve,
    Padding,
    Parameters,
    linear,
)
from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.nodes import Constant
from kits.checking.faults import OVERFLOWING, SATURATED, Fault
from kits.checking.op_kernels import call_names

__all__ = ["NODE_FAULTS", "planted", "planting"]

OPTION = "planted"
_GENERATOR = "relax.ext.dnnl"


def planted(fault: Fault) -> dict[str, object]:
    """The options that plant one of `NODE_FAULTS`."""
    return {OPTION: json.dumps(asdict(fault))}


@contextmanager
def planting() -> Iterator[None]:
    """Inside the ``with`` block dnnl knows the option of `planted`."""
    real = tvm.get_global_func(_GENERATOR)

    def generate(
        functions: Sequence[relax.Function], options: Mapping[str, Any], names: Mapping[Constant, str]
    ) -> Any:
        given = {str(key): value for key, value in options.items()}
        said = given.pop(OPTION, None)
        if said is None:
            return real(functions, given, names)
        fault = Fault(**json.loads(str(said)))
        with patch.object(codegen, "CONVERTERS", _spoiled(fault, functions)):
            return codegen.generate(functions, given, names)

    tvm_ffi.register_global_func(_GENERATOR, generate, override=True)
    try:
        yield
    finally:
        tvm_ffi.register_global_func(_GENERATOR, real, override=True)


def _spoiled(fault: Fault, functions: Sequence[relax.Function]) -> dict[str, Convert]:
    """The converters, wrong at the op of the fault in those functions that have what it needs."""
    names = [each for each in map(call_names, functions) if fault.is_in(list(each.values()))]

    def spoiled(convert: Convert) -> Convert:
        def converted(importer: Importer, op: OpView) -> TensorId | tuple[TensorId | None, ...]:
            result = convert(importer, op)
            if all(each.get(op.call) != fault.op for each in names):
                return result
            assert isinstance(result, int), "a fault is planted in ops of one result"
            return NODE_FAULTS[fault.kind](importer.graph, result, fault)

        return converted

    return {name: spoiled(convert) for name, convert in codegen.CONVERTERS.items()}


def _added(
    graph: Graph, kind: Kind, value: TensorId, parameters: Parameters, shape: Sequence[Dim] | None = None
) -> TensorId:
    return graph.add(kind, (value,), graph.shape(value) if shape is None else shape, parameters)


def _scale(graph: Graph, value: TensorId, _fault: Fault) -> TensorId:
    return _added(graph, Kind.ELTWISE, value, linear(1.3))


def _saturating(graph: Graph, value: TensorId, fault: Fault) -> TensorId:
    bound = SATURATED * fault.largest
    return _added(graph, Kind.ELTWISE, value, Curve("eltwise_clip", -bound, bound))


def _overflow(graph: Graph, value: TensorId, fault: Fault) -> TensorId:
    """``x + exp(huge * max(x - bound, 0)) - 1``, which is x up to the bound and infinity beyond."""
    beyond = _added(graph, Kind.ELTWISE, value, linear(1.0, -OVERFLOWING * fault.largest))
    beyond = _added(graph, Kind.ELTWISE, beyond, Curve("eltwise_relu"))
    huge = _added(graph, Kind.ELTWISE, beyond, linear(1e6 / fault.largest))
    grown = _added(
        graph, Kind.ELTWISE, _added(graph, Kind.EXPONENTIAL, huge, NO_PARAMETERS), linear(1.0, -1.0)
    )
    return graph.add(Kind.BINARY, (value, grown), graph.shape(value), Arithmetic("binary_add"))


def _stride(graph: Graph, value: TensorId, _fault: Fault) -> TensorId:
    """A convolution looks beside its place; of other ops every row begins one value too late."""
    made = next((number for number, node in enumerate(graph.nodes) if node.output == value), None)
    node = None if made is None else graph.nodes[made]
    if made is not None and node is not None and isinstance(node.parameters, Convolution):
        before, after = node.parameters.before, node.parameters.after
        beside = replace(
            node.parameters, before=(*before[:-1], before[-1] + 1), after=(*after[:-1], after[-1] - 1)
        )
        graph.nodes[made] = replace(node, parameters=beside)
        return value
    shape = graph.shape(value)
    last = len(shape) - 1
    tail, head = _slice(graph, value, 1, shape[last] - 1), _slice(graph, value, 0, 1)
    return graph.add(Kind.CONCAT, (tail, head), shape, Concat(last))


def _mask(graph: Graph, value: TensorId, _fault: Fault) -> TensorId:
    shape = graph.shape(value)
    seen = _slice(graph, value, 0, shape[-1] - 1)
    return _added(graph, Kind.PAD, seen, Padding((0,) * len(shape), 0.0), shape)


def _slice(graph: Graph, value: TensorId, begin: int, count: int) -> TensorId:
    """Some columns."""
    shape = graph.shape(value)
    begins = Begins((*(0 for _ in shape[:-1]), begin), (1,) * len(shape))
    return _added(graph, Kind.SLICE, value, begins, (*shape[:-1], count))


NODE_FAULTS: Mapping[str, Callable[[Graph, TensorId, Fault], TensorId]] = {
    "scale": _scale,
    "saturating": _saturating,
    "overflow": _overflow,
    "stride": _stride,
    "mask": _mask,
}
"""By kind, what makes the result of an op wrong; returns the wrong result."""
