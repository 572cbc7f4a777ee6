"""Reads the interface of the runtime: structs as ctypes and enumerators, so that tables need no compiler.

The text is small and regular: structs of numbers, enumerators, lists and pointers, some with a default. It is
what units are compiled with, so that a field that is added there is known here.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from annotated_region.backends.dnnl.runtime_units import interface_text

__all__ = ["Field", "Layout", "Struct"]

NUMBERS: dict[str, type] = {
    "int": ctypes.c_int,
    "int64_t": ctypes.c_int64,
    "float": ctypes.c_float,
    "bool": ctypes.c_bool,
}
EVALUATE = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_int64))


class ListImage(ctypes.Structure):
    """``List<T>``, whatever T is."""

    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_int))


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct: its name, its type as written, and the text of its default, if it has one."""

    name: str
    type: str
    default: str | None


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct: its fields, and how they lie in memory."""

    fields: tuple[Field, ...]
    image: type[ctypes.Structure]


class Layout:
    """The structs and enumerators of a header.

    Attributes
    ----------
    structs
        By name.
    enumerators
        The number of ``Kind::matmul``, and of ``dnnl_eltwise_relu``.
    """

    def __init__(self, tables: str, types: str) -> None:
        """Read the text of the runtime's interface and of oneDNN's ``dnnl_types.h``."""
        text = re.sub(r"//[^\n]*", "", tables)
        self.enumerators = dict(_plain_enumerators(types))
        self._enums: set[str] = set()
        for name, body in re.findall(r"enum class (\w+)[^{;]*\{([^}]*)\}", text):
            self._enums.add(name)
            members = [member.strip() for member in body.split(",") if member.strip()]
            self.enumerators.update((f"{name}::{member}", index) for index, member in enumerate(members))
        self.structs: dict[str, Struct] = {}
        for name, body in re.findall(r"\nstruct (\w+) \{(.*?)\n\};", text, re.DOTALL):
            if name != "List":
                self.structs[name] = self._struct(name, body)

    def _struct(self, name: str, body: str) -> Struct:
        fields = tuple(_field(line.strip()) for line in body.split(";") if line.strip())
        image = type(
            name, (ctypes.Structure,), {"_fields_": [(f.name, self.type_of(f.type)) for f in fields]}
        )
        return Struct(fields, image)

    def type_of(self, name: str) -> type:
        """The ctypes type of a type as written in the header."""
        if name in self.structs:
            return self.structs[name].image
        if name in self._enums or name == "dnnl_alg_kind_t":
            return ctypes.c_int
        if name.startswith("List<"):
            return ListImage
        if name == "evaluate":
            return EVALUATE
        return NUMBERS.get(name, ctypes.c_void_p)

    @staticmethod
    def of(runtime: Path, headers: Path) -> Layout:
        """Of the runtime's folder and the folder with oneDNN's headers."""
        types = (headers / "oneapi/dnnl/dnnl_types.h").read_text(encoding="utf-8")
        return Layout(interface_text(runtime), types)


def _field(text: str) -> Field:
    if "(*" in text:
        return Field(re.findall(r"\(\*(\w+)\)", text)[0], "evaluate", None)
    declared, _, default = (part.strip() for part in text.partition("="))
    type_, name = declared.rsplit(" ", 1)
    return Field(name, type_, default or None)


def _plain_enumerators(text: str) -> Mapping[str, int]:
    """The members of the C enums of a header, counted on from the last number that is written."""
    found: dict[str, int] = {}
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    for body in re.findall(r"enum \{([^}]*)\}", text) + re.findall(r"enum \w+ \{([^}]*)\}", text):
        value = -1
        for member in (part.strip() for part in body.split(",")):
            name, _, given = (part.strip() for part in member.partition("="))
            if not name:
                continue
            value = _number(given, found) if given else value + 1
            found[name] = value
    return found


def _number(text: str, found: Mapping[str, int]) -> int:
    try:
        return int(text.rstrip("uUlL"), 0)
    except ValueError:
        return found.get(text, 0)
