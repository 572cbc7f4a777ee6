"""OpInfo: the operation that lowered code computes, with its attributes and arguments.

An `OpInfo` gives the role and the source of each argument. In the PrimFunc of a single op, a source is a
parameter or a number that was compiled in; in a fused PrimFunc it may also be the result of an earlier op:

    fused_conv2d_add_relu(x, w, b, out)        conv2d   data <- parameter 0, weight <- parameter 1
                                               add      x1 <- result 0, x2 <- parameter 2
                                               relu     x <- result 1

A `Composition` is a list of infos and the outputs of the function. Both serialize to JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

from annotated_region.checked import checked
from annotated_region.errors import OpInfoError
from annotated_region.op_info.kinds import OpKind, kind_of

__all__ = [
    "ArgRole",
    "Composition",
    "DerivedExtent",
    "Extent",
    "ExtentOf",
    "Number",
    "OpInfo",
    "Parameter",
    "Result",
    "Shape",
    "Source",
    "Sources",
    "Value",
]


@dataclass(frozen=True, slots=True)
class Parameter:
    """Parameter `index` of the PrimFunc."""

    index: int


@dataclass(frozen=True, slots=True)
class Result:
    """The result of op number `op` of the composition; its field `field` if the result is a tuple."""

    op: int
    field: int | None = None


@dataclass(frozen=True, slots=True)
class Number:
    """A constant tensor of rank 0 that lowering compiled into the PrimFunc."""

    value: float | int | bool
    dtype: str


@dataclass(frozen=True, slots=True)
class ExtentOf:
    """The extent of an axis of parameter `parameter` of the PrimFunc, which may be one of its outputs."""

    parameter: int
    axis: int


@dataclass(frozen=True, slots=True)
class DerivedExtent:
    """An integer computed from extents: `operator` is one of `OPERATORS`."""

    operator: str
    operands: tuple[Extent, Extent]


@dataclass(frozen=True, slots=True)
class Shape:
    """A shape, such as the second argument of ``reshape``."""

    extents: tuple[Extent, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """A primitive value, such as the bounds of ``clip``; without a dtype, a string."""

    value: float | int | bool | str
    dtype: str | None


@dataclass(frozen=True, slots=True)
class Sources:
    """A tuple argument, such as the operands of ``concat``."""

    fields: tuple[Source, ...]


Extent: TypeAlias = int | Parameter | ExtentOf | DerivedExtent
"""A number, or one that is known when the PrimFunc is called; a `Parameter` is an integer then."""

Source = Parameter | Result | Number | Shape | Value | Sources | ExtentOf | DerivedExtent

OPERATORS = ("add", "subtract", "multiply", "floor_divide", "floor_mod", "minimum", "maximum")
"""The operators of a `DerivedExtent`."""


@dataclass(frozen=True, slots=True)
class ArgRole:
    """One argument of an op: its role and its source."""

    role: str
    source: Source


@dataclass(frozen=True, slots=True)
class OpInfo:
    """One operation inside a PrimFunc.

    Attributes
    ----------
    name
        The Relax name of the op, such as ``"relax.nn.conv2d"``.
    kind
        The kind of computation.
    attrs
        Its attributes as Python values: numbers, strings, None, tuples of these.
    arg_roles
        Its arguments in order.
    """

    name: str
    kind: OpKind
    attrs: Mapping[str, Any] = field(hash=False)
    arg_roles: tuple[ArgRole, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "attrs", MappingProxyType(dict(self.attrs)))

    @property
    def reads_extents(self) -> bool:
        """Whether an argument is computed from the extents of parameters."""
        return any(_reads_extents(argument.source) for argument in self.arg_roles)

    def to_dict(self) -> dict[str, object]:
        """The info as plain data, fit for JSON."""
        return {
            "name": self.name,
            "kind": self.kind.value,
            "attrs": _plain(dict(self.attrs)),
            "arg_roles": [[argument.role, _source_to_plain(argument.source)] for argument in self.arg_roles],
        }

    @staticmethod
    @checked
    def from_dict(data: Mapping[str, Any]) -> OpInfo:
        """The inverse of `to_dict`.

        Raises
        ------
        OpInfoError
            `data` is not what `to_dict` gives.
        """
        try:
            roles = tuple(ArgRole(role, _source_from_plain(source)) for role, source in data["arg_roles"])
            attrs = {key: _frozen(value) for key, value in data["attrs"].items()}
            return OpInfo(data["name"], OpKind(data.get("kind", kind_of(data["name"]))), attrs, roles)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise OpInfoError(f"this is not op info: {data!r}; write it with OpInfo.to_dict") from error


@dataclass(frozen=True, slots=True)
class Composition:
    """The ops of one PrimFunc in execution order, and the source of each output."""

    ops: tuple[OpInfo, ...]
    outputs: tuple[Result, ...]

    def to_json(self) -> str:
        """One line of JSON."""
        outputs = [_source_to_plain(output) for output in self.outputs]
        return json.dumps({"ops": [info.to_dict() for info in self.ops], "outputs": outputs})

    @staticmethod
    def from_json(text: str) -> Composition:
        """The inverse of `to_json`.

        Raises
        ------
        OpInfoError
            `text` is not what `to_json` gives.
        """
        try:
            data = json.loads(text)
            outputs = tuple(Result(**output["result"]) for output in data["outputs"])
            return Composition(tuple(OpInfo.from_dict(info) for info in data["ops"]), outputs)
        except (ValueError, KeyError, TypeError) as error:
            raise OpInfoError(f"this is not op info: {text!r}; write it with Composition.to_json") from error


def _reads_extents(source: Source) -> bool:
    match source:
        case Sources(fields):
            return any(map(_reads_extents, fields))
        case Shape(extents):
            return not all(isinstance(extent, int) for extent in extents)
    return isinstance(source, ExtentOf | DerivedExtent)


_SOURCES: dict[str, type[Parameter | Result | Number | Value | ExtentOf]] = {
    "parameter": Parameter,
    "result": Result,
    "number": Number,
    "value": Value,
    "extentof": ExtentOf,
}


def _source_to_plain(source: Source) -> dict[str, object]:
    match source:
        case Sources(fields):
            return {"tuple": [_source_to_plain(part) for part in fields]}
        case Shape(extents):
            return {"shape": {"extents": list(map(_extent_to_plain, extents))}}
        case DerivedExtent(operator, operands):
            return {"derived": {"operator": operator, "operands": list(map(_extent_to_plain, operands))}}
    content = {name: _plain(getattr(source, name)) for name in source.__slots__}
    return {type(source).__name__.lower(): content}


def _extent_to_plain(extent: Extent) -> object:
    return extent if isinstance(extent, int) else _source_to_plain(extent)


def _source_from_plain(data: Mapping[str, Any]) -> Source:
    ((name, content),) = data.items()
    match name:
        case "tuple":
            return Sources(tuple(_source_from_plain(part) for part in content))
        case "shape":
            return Shape(tuple(map(_extent_from_plain, content["extents"])))
        case "derived":
            left, right = map(_extent_from_plain, content["operands"])
            if content["operator"] not in OPERATORS:
                raise ValueError(content["operator"])
            return DerivedExtent(content["operator"], (left, right))
    return _SOURCES[name](**{key: _frozen(value) for key, value in content.items()})


def _extent_from_plain(data: object) -> Extent:
    if isinstance(data, int):
        return data
    source = _source_from_plain(data) if isinstance(data, dict) else None
    if not isinstance(source, Parameter | ExtentOf | DerivedExtent):
        raise TypeError(data)
    return source


def _plain(value: object) -> object:
    """`value` with JSON's own containers."""
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise OpInfoError(f"{value!r} of type {type(value).__name__} has no JSON form")


def _frozen(value: object) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
