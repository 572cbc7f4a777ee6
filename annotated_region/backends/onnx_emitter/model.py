"""An emitted function as an ONNX model: weights are inside, in a separate file, or passed at run time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import tvm
from tvm import relax

from annotated_region.backends.onnx_emitter.assembly import LARGEST_MESSAGE, array_of, assemble_file
from annotated_region.backends.onnx_emitter.dialect import Dialect
from annotated_region.backends.onnx_emitter.emission import Emission
from annotated_region.backends.onnx_emitter.graph import Graph, Operator, Port
from annotated_region.backends.onnx_emitter.packages import is_installed
from annotated_region.errors import BackendUnavailableError, CodegenError
from annotated_region.targets.translation import Declined
from annotated_region.tvm_adapter.nodes import Constant

if TYPE_CHECKING:
    import onnx

__all__ = ["EXTERNAL", "EmittedModel", "emit", "missing_onnx"]

EXTERNAL = "weights-are-passed-at-run-time"
"""The placeholder for the location of external weights."""

# ONNX's codes of the data types.
_CODES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9,
    "float16": 10, "float64": 11, "uint32": 12, "uint64": 13, "bfloat16": 16,
}  # fmt: skip


def missing_onnx() -> str | None:
    """Why models cannot be written on this machine, with a remedy; None if they can."""
    return None if is_installed("onnx") else "the package onnx is not installed; pip install onnx"


def _onnx() -> ModuleType:
    reason = missing_onnx()
    if reason:
        raise BackendUnavailableError(reason)
    return import_module("onnx")


@dataclass(frozen=True, slots=True)
class EmittedModel:
    """A function in ONNX.

    Attributes
    ----------
    graph
        Its operators, ports and small constants.
    weights
        The names of the large constants, in the order of the model.
    symbol
        The name of the function.
    """

    graph: Graph = field(repr=False)
    weights: tuple[str, ...]
    symbol: str

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The inputs, in the order of the function's parameters."""
        return tuple(self.graph.inputs)

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The outputs, in the order of the function's results."""
        return tuple(self.graph.outputs)

    @property
    def weight_bytes(self) -> int:
        """The total size of the weights."""
        return sum(_size(tensor) for tensor in self.graph.weights.values())

    def skeleton(self) -> onnx.ModelProto:
        """The ``onnx.ModelProto`` without its weights, which are marked as external data."""
        return self._model([self._external(name) for name in self.weights])

    def complete(self) -> onnx.ModelProto:
        """The ``onnx.ModelProto`` including its weights.

        Raises
        ------
        CodegenError
            It would exceed the 2 GiB limit of protobuf messages; use `save` instead.
        """
        if self.weight_bytes > LARGEST_MESSAGE:
            raise CodegenError(
                f"{self.symbol}: its weights of {self.weight_bytes} bytes do not fit into one ONNX message; "
                "save the model to a file, with the weights in another file beside it"
            )
        return self._model([_tensor(name, array_of(self.graph.weights[name])) for name in self.weights])

    def save(self, path: str | Path, largest_message: int = LARGEST_MESSAGE) -> None:
        """Check the model and write it to a file, with large weights in another file beside it.

        Parameters
        ----------
        path
            The path of the model; that of the weights has ``.data`` appended.
        largest_message
            The size in bytes from which the weights are written to a separate file.
        """
        onnx, file = _onnx(), Path(path)
        if self.weight_bytes <= largest_message:
            onnx.save_model(self.complete(), str(file))
        else:
            arrays = {name: array_of(self.graph.weights[name]) for name in self.weights}
            assemble_file(self.skeleton().SerializeToString(), arrays, file)
        onnx.checker.check_model(str(file))

    def text(self) -> str:
        """The model in ONNX's text format; only names and shapes of the weights."""
        return str(_onnx().printer.to_text(self.skeleton()))

    def check(self) -> None:
        """Check the model without its weights with ``onnx.checker``.

        Raises
        ------
        CodegenError
            The model is invalid.
        """
        onnx = _onnx()
        stand_ins = [self._port(name, self.graph.weights[name]) for name in self.weights]
        try:
            onnx.checker.check_model(self._model([], stand_ins), full_check=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
            raise CodegenError(f"{self.symbol}: the emitted ONNX model is invalid: {error}") from error

    def _port(self, name: str, tensor: tvm.runtime.Tensor) -> Port:
        return Port(name, self.graph.dtypes[name], tuple(int(extent) for extent in tensor.shape))

    def _external(self, name: str) -> onnx.TensorProto:
        onnx, tensor = _onnx(), self.graph.weights[name]
        proto = onnx.TensorProto(name=name, data_type=_CODES[self.graph.dtypes[name]])
        proto.dims.extend(int(extent) for extent in tensor.shape)
        proto.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", EXTERNAL), ("offset", 0), ("length", _size(tensor))):
            proto.external_data.add(key=key, value=str(value))
        return proto

    def _model(
        self, weights: Sequence[onnx.TensorProto], more_inputs: Sequence[Port] = ()
    ) -> onnx.ModelProto:
        helper, graph = _onnx().helper, self.graph
        opset = helper.make_opsetid("", graph.dialect.opset)
        made = helper.make_graph(
            [_node(each, number) for number, each in enumerate(graph.operators)],
            graph.name,
            [_value_info(port) for port in (*graph.inputs, *more_inputs)],
            [_value_info(port) for port in graph.outputs],
            [*(_tensor(name, array) for name, array in graph.constants.items()), *weights],
        )
        return helper.make_model(
            made,
            opset_imports=[opset],
            ir_version=helper.find_min_ir_version_for([opset]),
            producer_name="annotated-region",
        )


def emit(
    function: relax.Function, dialect: Dialect, constant_names: Mapping[Constant, str] | None = None
) -> EmittedModel:
    """Emit an external function as ONNX, including its composites.

    Parameters
    ----------
    function
        The function; its parameters become the inputs, its results the outputs.
    dialect
        The subset of ONNX to emit.
    constant_names
        Names of the constants; without them they are numbered.

    Raises
    ------
    CodegenError
        An op or expression cannot be emitted in this dialect.
    """
    symbol = str(function.attrs.get("global_symbol", "region"))
    graph = Graph(symbol, dialect)
    try:
        Emission(graph, constant_names or {}).run(function)
    except Declined as reason:
        raise CodegenError(
            f"{symbol}: target {dialect.target!r} cannot translate it: {reason}; "
            "its rules decline such ops, so leave them to another target or to the host"
        ) from reason
    graph.drop_unused()
    return EmittedModel(graph, tuple(graph.weights), symbol)


def emit_all(
    functions: Sequence[relax.Function],
    dialect: Dialect,
    constant_names: Mapping[Constant, str] | None = None,
) -> list[EmittedModel]:
    """The checked models of several external functions; parameters and errors are those of `emit`."""
    # A dict, because lookups in TVM's own map type are much slower.
    names = None if constant_names is None else dict(constant_names.items())
    models = [emit(function, dialect, names) for function in functions]
    for model in models:
        model.check()
    return models


def _size(tensor: tvm.runtime.Tensor) -> int:
    count = 1
    for extent in tensor.shape:
        count *= int(extent)
    return int(count * tvm.DataType(str(tensor.dtype)).bits // 8)


def _tensor(name: str, array: np.ndarray) -> onnx.TensorProto:
    proto = _onnx().TensorProto(name=name, data_type=_CODES[str(array.dtype)])
    proto.dims.extend(array.shape)
    proto.raw_data = np.ascontiguousarray(array).tobytes()
    return proto


def _value_info(port: Port) -> onnx.ValueInfoProto:
    return _onnx().helper.make_tensor_value_info(port.name, _CODES[port.dtype], list(port.shape))


def _node(operator: Operator, number: int) -> onnx.NodeProto:
    attrs = {name: _attribute(value) for name, value in operator.attrs.items() if value is not None}
    if operator.kind == "Cast":
        attrs["to"] = _CODES[str(operator.attrs["to"])]
    return _onnx().helper.make_node(
        operator.kind, operator.inputs, operator.outputs, f"{operator.kind}_{number}", **attrs
    )


def _attribute(value: object) -> object:
    return _tensor("value", value) if isinstance(value, np.ndarray) else value
