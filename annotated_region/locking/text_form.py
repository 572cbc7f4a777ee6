"""The text format of a lock: one line per target, function and op, so that git can merge it.

    annotated-region lock 1
    target dnnl onednn-cpu-gomp-2023.2.0
    function main cost 0.00012 bound 0.00011
    op /layer1/conv/Conv relax.nn.conv2d 5a0c2f11.90b8e3d4 dnnl/0 dnnl.conv2d_relu#3fa2c1
    op /layer1/relu/Relu relax.nn.relu 0c11d2aa.7712f00e dnnl/0 dnnl.conv2d_relu#3fa2c1
    op /head/TopK relax.topk 77aa01bc.d00f1e22 host "declined by dnnl: no rule for relax.topk"

Words are separated by spaces. A word with characters other than letters, digits and a few signs is an ASCII
JSON string. A line that begins with ``#`` is a comment. The parser accepts untrusted text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from annotated_region.costs.model import HOST
from annotated_region.errors import DocumentError
from annotated_region.locking.locked_ops import LockedFunction, LockedOp

__all__ = ["LONGEST_LOCK", "read_text", "text_of"]

LONGEST_LOCK: Final = 1 << 26
"""The maximum size of a lock in bytes; a lock of 10 000 ops has about one million."""

_TITLE = "annotated-region lock 1"
_PLAIN = re.compile(r"[\w./:+()\[\]*%@,-][\w./:+()\[\]*%@,#-]*", re.ASCII)
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s"]+')
_PRINT = re.compile(r"([0-9a-f]{8})\.([0-9a-f]{8})", re.ASCII)
_PLACE = re.compile(r"([^/]+)/([0-9]{1,9})", re.ASCII)
_COMPOSITE = re.compile(r".+#[0-9a-f]{6}", re.ASCII | re.DOTALL)
_LONGEST_REASON = 300
_SHOWN = 60

Targets = Mapping[str, str]


def text_of(targets: Targets, functions: Sequence[LockedFunction]) -> str:
    """The text of a lock; deterministic across machines."""
    return "".join(f"{line}\n" for line in _lines(targets, functions))


def _lines(targets: Targets, functions: Sequence[LockedFunction]) -> Iterator[str]:
    yield _TITLE
    for target, version in targets.items():
        yield f"target {_word(target)} {_word(version)}"
    for function in functions:
        yield ""
        yield " ".join(["function", _word(function.name), *_costs(function)])
        for op in function.ops:
            yield " ".join(_words(op))


def _costs(function: LockedFunction) -> Iterator[str]:
    if function.cost is not None:
        yield f"cost {function.cost!r}"
    if function.lower_bound is not None:
        yield f"bound {function.lower_bound!r}"


def _words(op: LockedOp) -> Iterator[str]:
    yield from ("op", _word(op.key), _word(op.op), f"{op.local}.{op.around}", _word(op.where))
    if op.composite:
        yield _word(op.composite)
    if op.reason:
        # A reason may quote the answer of a foreign rule; it is truncated.
        yield json.dumps(op.reason[:_LONGEST_REASON])


def _word(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


def read_text(text: str) -> tuple[dict[str, str], tuple[LockedFunction, ...]]:
    """The targets and the functions of a lock. Linear in the text.

    Raises
    ------
    DocumentError
        The text is not a lock, or is inconsistent; the message names the line.
    """
    if len(text) > LONGEST_LOCK:
        raise DocumentError(f"the lock is longer than the limit of {LONGEST_LOCK} characters")
    lines = text.split("\n")
    if lines[0].strip() != _TITLE:
        raise DocumentError(f"this version cannot read the lock: its first line is not {_TITLE!r}")
    reader = _LockReader()
    for number, line in enumerate(lines[1:], start=2):
        reader.read(_Line(number, line.strip()))
    return reader.targets, tuple(draft.function() for draft in reader.drafts.values())


@dataclass(frozen=True, slots=True)
class _Line:
    """A line, and its number, counted from 1."""

    number: int
    text: str

    def error(self, what: str) -> DocumentError:
        return DocumentError(f"the lock, line {self.number}: {what}")

    def words(self) -> list[str]:
        """The words of the line; quoted words are parsed as JSON strings."""
        found, end = [], 0
        for match in _WORD.finditer(self.text):
            if self.text[end : match.start()].strip() or (end and match.start() == end):
                break
            found.append(self.word(match.group()))
            end = match.end()
        if self.text[end:].strip():
            raise self.error(f"invalid syntax at {self.text[end:][:_SHOWN]!a}")
        return found

    def word(self, text: str) -> str:
        if not text.startswith('"'):
            return text
        try:
            said = json.loads(text)
        except ValueError:
            raise self.error(f"{text[:_SHOWN]!a} is not a JSON string") from None
        if not isinstance(said, str) or any("\ud800" <= character <= "\udfff" for character in said):
            raise self.error(f"{text[:_SHOWN]!a} cannot be encoded in UTF-8")
        return said


@dataclass(slots=True)
class _FunctionLines:
    """A function under construction while its lines are parsed."""

    name: str
    cost: float | None
    lower_bound: float | None
    ops: dict[str, LockedOp] = field(default_factory=dict)
    line_of: dict[str, int] = field(default_factory=dict)
    owner: dict[int, str] = field(default_factory=dict)

    def function(self) -> LockedFunction:
        return LockedFunction(self.name, tuple(self.ops.values()), self.cost, self.lower_bound)

    def add(self, op: LockedOp, line: _Line) -> None:
        if op.key in self.ops:
            raise line.error(
                f"the op {_quoted(op.key)} is also in line {self.line_of[op.key]}; keep one of the two"
            )
        owner = op.place if op.region is None else self.owner.setdefault(op.region, op.place)
        if owner != op.place:
            raise line.error(
                f"region {op.region} belongs to {_quoted(owner)} in an earlier line; give that of "
                f"{_quoted(op.place)} another number"
            )
        self.ops[op.key] = op
        self.line_of[op.key] = line.number


class _LockReader:
    """Parses a lock line by line."""

    def __init__(self) -> None:
        self.targets: dict[str, str] = {}
        self.drafts: dict[str, _FunctionLines] = {}
        self.draft: _FunctionLines | None = None

    def read(self, line: _Line) -> None:
        if not line.text or line.text.startswith("#"):
            return
        if line.text.startswith(("<<<<<<<", "=======", ">>>>>>>", "|||||||")):
            raise line.error("a merge conflict is not resolved; keep one of the two sides")
        match line.words():
            case ["target", name, version]:
                self.targets[name] = version
            case ["function", name, *costs] if name not in self.drafts:
                self.draft = self.drafts[name] = _draft(name, costs, line)
            case ["function", name, *_]:
                raise line.error(f"the function {_quoted(name)} is already in the lock")
            case ["op", key, op, prints, where, *rest] if self.draft is not None and len(rest) <= 2:
                self.draft.add(_op((key, op, prints, where), rest, line), line)
            case ["op", _, _, _, _, *rest] if len(rest) <= 2:
                raise line.error("an op is before the first function")
            case _:
                raise line.error(
                    f"{line.text[:_SHOWN]!a} is neither a target, nor a function, nor an op with its "
                    "name, what it computes, fingerprints and place"
                )


def _draft(name: str, costs: Sequence[str], line: _Line) -> _FunctionLines:
    match costs:
        case []:
            return _FunctionLines(name, None, None)
        case ["cost", cost]:
            return _FunctionLines(name, _seconds(cost, line), None)
        case ["cost", cost, "bound", bound]:
            return _FunctionLines(name, _seconds(cost, line), _seconds(bound, line))
    raise line.error("the name of a function may only be followed by 'cost' and 'bound' with their seconds")


def _seconds(text: str, line: _Line) -> float:
    try:
        seconds = float(text) if len(text) < _SHOWN else -1.0
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 1e15:
        raise line.error(f"{_quoted(text)} is not a number of seconds")
    return seconds


def _op(head: tuple[str, str, str, str], rest: Sequence[str], line: _Line) -> LockedOp:
    key, op, prints, where = head
    found = _PRINT.fullmatch(prints)
    if found is None:
        raise line.error(f"{_quoted(prints)} is not a pair of fingerprints of eight hexadecimal digits each")
    local, around = found.groups()
    if where == HOST:
        if len(rest) > 1:
            raise line.error("'host' must be followed by one string, the reason")
        return LockedOp(key, op, local, around, HOST, None, "", *rest)
    place = _PLACE.fullmatch(where)
    if place is None or place[1] == HOST:
        raise line.error(
            f"{_quoted(where)} is not a place; write 'host', or a target and region like 'dnnl/0'"
        )
    if len(rest) > 1 or any(not _COMPOSITE.fullmatch(each) for each in rest):
        raise line.error("a region may only be followed by a composite, as in 'dnnl.conv2d_relu#3fa2c1'")
    return LockedOp(key, op, local, around, place[1], int(place[2]), *rest)


def _quoted(text: str) -> str:
    return ascii(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
