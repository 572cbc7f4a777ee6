"""Reads the constant tables of a region as the code generator writes them, into memory that C++ can use.

The text of a region is a small part of C++: namespaces, constant arrays of numbers and rows, and one function
that computes extents. Reading it takes a millisecond, compiling it a second.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kits.hunt.table_layout import EVALUATE, Layout

__all__ = ["Tables", "read_tables"]

TOKEN = re.compile(r'//[^\n]*|"[^"]*"|-?0x[0-9a-f.]+p[+-]?\d+f?|-?infinity|-?\d[\d.]*f?|[A-Za-z_][\w:]*|\S')
SPECIFIERS = ("const", "static", "constexpr", "inline")
Expression = Callable[[Sequence[int]], int]
OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}


@dataclass(slots=True)
class Tables:
    """The tables of one region.

    Attributes
    ----------
    graph
        The outermost ``GraphTable``.
    kept
        What it points to.
    """

    graph: ctypes.Structure
    kept: list[Any] = field(default_factory=list)

    @property
    def address(self) -> int:
        """Where the ``GraphTable`` lies, for as long as this object lives."""
        return ctypes.addressof(self.graph)


def read_tables(text: str, layout: Layout) -> Tables:
    """The tables in the text that ``emit_region`` gives for a region without embedded constants."""
    reader = _Reader(layout, [token for token in TOKEN.findall(text) if not token.startswith("//")])
    reader.run()
    return Tables(reader.graph, reader.kept)


class _Reader:
    """Goes through the tokens once; declarations are known by name in their namespace."""

    def __init__(self, layout: Layout, tokens: Sequence[str]) -> None:
        self.layout = layout
        self.tokens = tokens
        self.at = 0
        self.scope: list[str] = []
        self.known: dict[tuple[str, ...], Any] = {}
        self.kept: list[Any] = []
        self.graph: Any = None

    def run(self) -> None:
        while self.at < len(self.tokens) and self.tokens[self.at] != "ANNOTATED_REGION_EXPORT":
            self.declaration()

    def take(self, *wanted: str) -> str:
        token = self.tokens[self.at]
        assert not wanted or token in wanted, f"{token!r} where {wanted} is due"
        self.at += 1
        return token

    def declaration(self) -> None:
        if self.tokens[self.at] in SPECIFIERS:
            self.at += 1
        elif self.tokens[self.at] == "namespace":
            self.at += 1
            self.scope.append("" if self.tokens[self.at] == "{" else self.take())
            self.take("{")
        elif self.tokens[self.at] == "}":
            self.scope.pop()
            self.at += 1
        elif self.tokens[self.at] == "void":
            self.evaluation()
        else:
            self.constant()

    def constant(self) -> None:
        type_, name = self.take(), self.take()
        if self.tokens[self.at] == "[":
            self.take("[")
            self.take("]")
            self.take("=")
            rows = list(self.braced())
            element: Any = self.layout.type_of(type_)
            array = (element * len(rows))()
            for index, row in enumerate(rows):
                array[index] = self.value(type_, row)
            self.declare(name, array)
        else:
            self.take("=")
            self.graph = self.value(type_, list(self.braced()))
            self.declare(name, self.graph)
        self.take(";")

    def declare(self, name: str, value: Any) -> None:
        self.kept.append(value)
        self.known[(*self.scope, name)] = value

    def braced(self) -> Iterator[Any]:
        """The entries between braces, each a token or a list of such entries."""
        self.take("{")
        while self.tokens[self.at] != "}":
            if self.tokens[self.at] == "{":
                yield list(self.braced())
            elif self.tokens[self.at] == "&":
                self.at += 1
                yield self.take()
            else:
                yield self.take()
            if self.take(",", "}") == "}":
                return
        self.take("}")

    def value(self, type_: str, entry: Any) -> Any:
        """An entry as a type of the header has it."""
        if type_ in self.layout.structs:
            return self.row(type_, entry)
        if type_.startswith("List<"):
            image = self.layout.type_of(type_)()
            if entry:
                image.data, image.size = ctypes.addressof(self.found(entry[0])), int(entry[1])
            return image
        if type_ == "evaluate":
            return self.found(entry)
        if type_ == "float":
            return float.fromhex(entry.rstrip("f")) if "x" in entry else float(entry.rstrip("f"))
        if entry in ("nullptr", "true", "false"):
            return {"nullptr": None, "true": True, "false": False}[entry]
        if entry.startswith('"'):
            text = ctypes.create_string_buffer(entry[1:-1].encode())
            self.kept.append(text)
            return ctypes.addressof(text)
        if entry in self.layout.enumerators:
            return self.layout.enumerators[entry]
        return int(entry) if entry.lstrip("-").isdigit() else ctypes.addressof(self.found(entry))

    def row(self, type_: str, entries: Sequence[Any]) -> ctypes.Structure:
        """A struct; fields that are left out have their defaults."""
        struct = self.layout.structs[type_]
        image = struct.image()
        for index, each in enumerate(struct.fields):
            if index < len(entries):
                setattr(image, each.name, self.value(each.type, entries[index]))
            elif each.default is not None:
                default: Any = [] if each.default == "{}" else each.default
                setattr(image, each.name, self.value(each.type, default))
        return image

    def found(self, name: str) -> Any:
        """What a name means here: the innermost namespace that has it decides."""
        path = tuple(name.split("::"))
        for depth in range(len(self.scope), -1, -1):
            if (*self.scope[:depth], *path) in self.known:
                return self.known[(*self.scope[:depth], *path)]
        raise AssertionError(f"{name} is not declared")

    def evaluation(self) -> None:
        """The function that computes extents, as a function of Python."""
        self.take("void")
        name = self.take()
        while self.take() != "{":
            pass
        expressions: list[Expression] = []
        while self.tokens[self.at] != "}":
            for token in ("e", "[", str(len(expressions)), "]", "="):
                self.take(token)
            expressions.append(self.expression())
            self.take(";")
        self.take("}")

        def evaluate(variables: Any, values: Any) -> None:
            for index, expression in enumerate(expressions):
                values[index] = expression(variables)

        self.declare(name, EVALUATE(evaluate))

    def expression(self) -> Expression:
        token = self.take()
        if token == "(":
            left = self.expression()
            operate = OPERATORS[self.take()]
            right = self.expression()
            self.take(")")
            return lambda v: operate(left(v), right(v))
        if token in ("larger", "smaller"):
            choose = max if token == "larger" else min
            self.take("(")
            left = self.expression()
            self.take(",")
            right = self.expression()
            self.take(")")
            return lambda v: choose(left(v), right(v))
        if token == "int64_t":
            self.take("{")
            number = int(self.take())
            self.take("}")
            return lambda v: number
        self.take("[")
        slot = int(self.take())
        self.take("]")
        return lambda v: v[slot]
