"""JSON documents of this project: each states its kind and schema, and is read as untrusted input.

    {"schema": 1, "kind": "report", ...}

Adding a field keeps the schema: readers ignore fields that they do not know. Removing a field or changing its
meaning requires a new schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from annotated_region.errors import DocumentError

__all__ = [
    "LONGEST_DOCUMENT",
    "SCHEMA",
    "JsonValue",
    "kind_of_document",
    "plain_value",
    "read_document",
    "written_document",
]

SCHEMA = 1
"""The schema version of written documents."""

LONGEST_DOCUMENT = 1 << 26
"""The largest document that is read, in characters; a report of 10 000 ops has about 10 million."""

_LARGEST = (1 << 63) - 1
_MOST = 1e100
_SHOWN = 40
_LONGEST_NUMBER = 32  # characters


def written_document(kind: str, content: Mapping[str, object], indent: int | None = None) -> str:
    """The text of a document.

    Raises
    ------
    DocumentError
        Something in it is not JSON, such as an integer of numpy in the details of a policy.
    """
    try:
        return json.dumps({"schema": SCHEMA, "kind": kind, **content}, indent=indent)
    except TypeError as error:
        raise DocumentError(f"the {kind} cannot be JSON: {error}; convert it to a plain value") from error


def plain_value(value: object) -> object:
    """A value in JSON: NaN, infinity and other numbers that `JsonValue.number` rejects become strings."""
    if isinstance(value, float) and not abs(value) <= _MOST:
        return repr(value)
    if isinstance(value, dict):
        return {name: plain_value(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(each) for each in value]
    return value


def read_document(text: str, kind: str) -> JsonValue:
    """Parse a document of the given kind.

    Time and memory are linear in the text, whose length is bounded.

    Raises
    ------
    DocumentError
        The text is too long, not JSON, of another kind, or of a schema that this version does not support.
    """
    what = f"the {kind}"
    document = _parsed(text, what)
    found = document.field("kind").text()
    if found != kind:
        raise DocumentError(f"this is a document of the kind {_brief(found)}, not {kind!r}")
    schema = document.field("schema").integer()
    if schema != SCHEMA:
        raise DocumentError(f"{what} has schema {schema}, and this version reads schema {SCHEMA}")
    return document


def kind_of_document(text: str) -> str:
    """The kind that a document states; no other field is read.

    Raises
    ------
    DocumentError
        The text is too long, not JSON, or states no kind.
    """
    return _parsed(text, "the document").field("kind").text()


def _parsed(text: str, what: str) -> JsonValue:
    if len(text) > LONGEST_DOCUMENT:
        raise DocumentError(f"{what} has {len(text)} characters; the limit is {LONGEST_DOCUMENT}")
    try:
        return JsonValue(json.loads(text), what)
    except RecursionError:
        raise DocumentError(f"{what} is nested too deep") from None
    except ValueError as error:
        raise DocumentError(f"{what} is not JSON: {error}") from None


@dataclass(frozen=True, slots=True)
class JsonValue:
    """A value of a document with its path; each accessor checks the type that it returns.

    Attributes
    ----------
    plain
        What `json.loads` returned for it.
    key
        Its name or index in `holder`; of a whole document, its name in messages.
    holder
        The value that contains it; None for a whole document.
    """

    plain: object
    key: str | int
    holder: JsonValue | None = None

    @property
    def where(self) -> str:
        """Its place in words, such as ``"the report: functions[0].name"``."""
        steps: list[str] = []
        value = self
        while value.holder is not None:
            steps.append(f"[{value.key}]" if isinstance(value.key, int) else f".{_shortened(value.key)}")
            value = value.holder
        path = "".join(reversed(steps)).removeprefix(".")
        return f"{value.key}: {ascii(path)[1:-1]}" if path else str(value.key)

    def refused(self, wanted: str) -> DocumentError:
        """The error for a value that is not `wanted`."""
        return DocumentError(f"{self.where} is {_brief(self.plain)}, and should be {wanted}")

    def text(self) -> str:
        """A string that can be encoded as UTF-8."""
        if not isinstance(self.plain, str):
            raise self.refused("a string")
        if not self.plain.isascii() and any("\ud800" <= character <= "\udfff" for character in self.plain):
            raise self.refused("a string without lone surrogates")
        return self.plain

    def optional_text(self) -> str | None:
        """A string, or null."""
        return None if self.plain is None else self.text()

    def integer(self) -> int:
        """An integer from 0 to 2**63 - 1."""
        if not isinstance(self.plain, int) or isinstance(self.plain, bool) or not 0 <= self.plain <= _LARGEST:
            raise self.refused("an integer from 0 to 2**63 - 1")
        return self.plain

    def optional_integer(self) -> int | None:
        """An integer as in `integer`, or null."""
        return None if self.plain is None else self.integer()

    def number(self) -> float:
        """A number small enough that sums of many stay finite."""
        if isinstance(self.plain, bool) or not isinstance(self.plain, int | float):
            raise self.refused("a number")
        if not -_MOST <= self.plain <= _MOST:
            raise self.refused(f"a number between {-_MOST:g} and {_MOST:g}")
        return float(self.plain)

    def any_number(self) -> float:
        """A number; NaN, infinity and larger ones are strings, as `plain_value` writes them."""
        if not isinstance(self.plain, str) or len(self.plain) > _LONGEST_NUMBER:
            return self.number()
        try:
            return float(self.plain)
        except ValueError:
            raise self.refused("a number") from None

    def boolean(self) -> bool:
        """A boolean."""
        if not isinstance(self.plain, bool):
            raise self.refused("true or false")
        return self.plain

    def items(self) -> Iterator[JsonValue]:
        """The items of a list."""
        if not isinstance(self.plain, list):
            raise self.refused("a list")
        for number, item in enumerate(self.plain):
            yield JsonValue(item, number, self)

    def texts(self) -> tuple[str, ...]:
        """A list of strings."""
        return tuple(item.text() for item in self.items())

    def named(self) -> Iterator[tuple[str, JsonValue]]:
        """All fields of an object, as pairs of a name and a value."""
        if not isinstance(self.plain, dict):
            raise self.refused("an object")
        for name, value in self.plain.items():
            yield JsonValue(name, "a name in it", self).text(), JsonValue(value, name, self)

    def field(self, name: str) -> JsonValue:
        """A field of an object."""
        if not isinstance(self.plain, dict):
            raise self.refused("an object")
        if name not in self.plain:
            raise DocumentError(f"{self.where} has no field {name!r}")
        return JsonValue(self.plain[name], name, self)

    def has(self, name: str) -> bool:
        """Whether an object has a field."""
        return isinstance(self.plain, dict) and name in self.plain

    def rest(self, known: frozenset[str]) -> dict[str, object]:
        """The fields of an object that are not in `known`, as plain data."""
        return {name: value.plain for name, value in self.named() if name not in known}


def _brief(value: object) -> str:
    match value:
        case str():
            return ascii(_shortened(value))
        case dict():
            return "an object"
        case list():
            return "a list"
    return _shortened(json.dumps(value))


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
