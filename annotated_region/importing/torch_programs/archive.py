"""Checks a `.pt2` archive against an allowlist, and rewrites it without parts that PyTorch would execute.

``torch.export.load`` trusts its file. It unpickles weights, constants and example inputs on demand
(``weights_only`` is False, or becomes False if True fails), loads compiled libraries, evaluates extents as
Python (``sympy.sympify``), looks functions up by name and calls them, imports modules that a container
names, and compiles guards. So PyTorch only sees a rewritten archive, which

1.  consists of known members: no compiled code, no pickles, one graph;
2.  has weights and constants as raw bytes, at the declared locations;
3.  calls only operators of ATen and arithmetic, with plain data as arguments;
4.  has extents that are arithmetic expressions of symbols;
5.  has no guards (they are handed on as text), no example inputs, and of each node's metadata only module
    names and source lines.

This module does not import PyTorch.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from annotated_region.errors import ModelError

__all__ = ["PlainArchive", "plain_archive"]

_GRAPH = re.compile(r"models/(\w+)\.json")
_RAW = re.compile(r"data/(weights/weight|constants/tensor)_\d+")
_HEADERS = ("archive_format", "archive_version", "byteorder", ".data/version")
_LEFT_OUT = re.compile(r"\.data/serialization_id|data/sample_inputs/\w+\.pt|extra/.*")
_MOST_MEMBERS = 100_000

_OPERATOR = re.compile(
    r"torch\.ops\.(aten|quantized_decomposed)\.\w+\.\w+|torch\.sym_(float|int|max|min|not)"
    r"|_operator\.(add|eq|floordiv|ge|getitem|gt|le|lt|mod|mul|ne|neg|pos|sub|truediv)"
)
# The output of sympy.srepr, Mul(Integer(2), Symbol('s7', positive=True, integer=True)), or plain formulas.
_TOKEN = re.compile(
    r"\s*(?:(?P<word>[A-Za-z_]\w*)|'[su]\d{1,9}'|\d{1,19}(?:\.\d{1,19})?|[-+/(),]|\*(?!\*)|[<>=]=?)\s*"
)
_SYMBOL = re.compile(r"[su]\d{1,9}")
_FUNCTIONS = frozenset(
    {
        *("Add", "CeilDiv", "CeilToInt", "CleanDiv", "Eq", "Equality", "FloorDiv", "FloorToInt", "Ge", "Gt"),
        *(
            "GreaterThan",
            "IntTrueDiv",
            "Integer",
            "Le",
            "LessThan",
            "Lt",
            "Max",
            "Min",
            "Mod",
            "ModularIndexing",
        ),
        *("Mul", "Ne", "PythonMod", "Rational", "StrictGreaterThan", "StrictLessThan", "Symbol", "ToFloat"),
        *("TruncToInt", "Unequality", "False", "True", "integer", "nonnegative", "positive"),
    }
)
_LONGEST_EXPRESSION = 100_000
_CONTAINERS = ("builtins.dict", "builtins.list", "builtins.tuple", "collections.OrderedDict")
_ARGUMENTS = frozenset(
    f"as_{name}"
    for name in (
        *("bool", "bools", "device", "expr", "float", "floats", "int", "int_lists", "ints", "layout", "name"),
        *("memory_format", "none", "optional_tensor", "optional_tensors", "scalar_type", "string", "strings"),
        *("sym_bool", "sym_bools", "sym_float", "sym_floats", "sym_int", "sym_ints", "tensor", "tensors"),
    )
)
_OBJECTS = ("custom_obj", "token")
_METADATA = ("nn_module_stack", "stack_trace")
_DEEPEST = 64


@dataclass(frozen=True, slots=True)
class PlainArchive:
    """An archive without parts that PyTorch would execute.

    Attributes
    ----------
    content
        The archive.
    guards
        The guards of its program, as they stood in the file: any text.
    """

    content: bytes
    guards: tuple[str, ...]


def plain_archive(content: bytes, name: str) -> PlainArchive:
    """The archive without parts that PyTorch would execute while loading it.

    Parameters
    ----------
    content
        The file.
    name
        The name of the file in messages.

    Raises
    ------
    ModelError
        It is not an archive of ``torch.export.save``, or contains more than plain data.
    """
    try:
        members = _members(content)
        return _written(members)
    except _Refused as error:
        raise ModelError(
            f"{name} is not read, because PyTorch might execute code in it: {error}. If you trust the "
            "file, load it in Python with torch.export.load and call annotated_region yourself"
        ) from error
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError, KeyError) as error:
        raise ModelError(f"{name} is not a torch.export archive: {error}") from error


class _Refused(Exception):  # noqa: N818 - never leaves this file
    """The reason for rejecting an archive."""


def _members(content: bytes) -> dict[str, bytes]:
    """The members by their path below the archive's single folder, without dropped ones."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        listed = archive.infolist()
        if len(listed) > _MOST_MEMBERS:
            raise _Refused(f"it has {len(listed)} members")
        if len({info.filename.partition("/")[0] for info in listed}) != 1:
            raise _Refused("its members are not in a single folder")
        members: dict[str, bytes] = {}
        for info in listed:
            path = info.filename.partition("/")[2]
            if info.compress_type != zipfile.ZIP_STORED or path in members:
                raise _Refused(f"{path!r} is compressed or occurs twice")
            if not _LEFT_OUT.fullmatch(path):
                members[path] = archive.read(info)
    return members


def _written(members: Mapping[str, bytes]) -> PlainArchive:
    """A new archive of the checked members; being rewritten, it cannot be parsed differently by
    two readers.
    """
    graphs = [found for found in map(_GRAPH.fullmatch, members) if found]
    if len(graphs) != 1:
        raise _Refused(f"it has {len(graphs)} graphs; only archives of one program are supported")
    path, model = graphs[0][0], graphs[0][1]
    configs = [f"data/{kind}/{model}_{kind}_config.json" for kind in ("weights", "constants")]
    for member in members:
        if member not in {*_HEADERS, *configs, path} and not _RAW.fullmatch(member):
            raise _Refused(f"{member!r} is neither a graph nor a raw tensor")
    for config in configs:
        _require_raw(json.loads(members[config]), config.rpartition("/")[0], members)
    program = json.loads(members[path])
    guards = program.get("guards_code") if isinstance(program, dict) else None
    texts = tuple(each for each in guards if isinstance(each, str)) if isinstance(guards, list) else ()
    _clean(program)
    # An empty file means no example inputs, and is not unpickled.
    written = {**members, path: json.dumps(program).encode(), f"data/sample_inputs/{model}.pt": b""}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for member, data in written.items():
            archive.writestr(f"{model}/{member}", data)
    return PlainArchive(content.getvalue(), texts)


def _require_raw(config: object, folder: str, members: Mapping[str, bytes]) -> None:
    """Reject pickled tensors, and tensors outside the given folder."""
    for described in _mappings(config):
        if "path_name" not in described and "use_pickle" not in described:
            continue
        path = f"{folder}/{described['path_name']}"
        if described["use_pickle"] is not False or not _RAW.fullmatch(path) or path not in members:
            raise _Refused(f"the tensor in {path!r} is not raw data")
    _clean(config)


def _clean(value: object) -> None:
    """Reject anything but plain data, and clear unneeded parts in place."""
    for mapping in _mappings(value):
        for key, part in mapping.items():
            problem = _problem(key, part)
            if problem:
                raise _Refused(problem)
        metadata = mapping.get("metadata")
        if isinstance(metadata, dict):
            mapping["metadata"] = {key: str(metadata[key]) for key in _METADATA if key in metadata}
        if "guards_code" in mapping:
            mapping["guards_code"] = []


def _mappings(value: object, depth: int = 0) -> Iterator[dict[str, object]]:
    """All mappings nested in a value, including itself."""
    if depth > _DEEPEST:
        raise _Refused(f"it has more than {_DEEPEST} nested lists")
    if isinstance(value, dict):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _mappings(part, depth + 1)


def _problem(key: str, part: object) -> str | None:
    """The reason why the part of a program under this key is not plain data; None if it is."""
    if (key.startswith("as_") and key not in _ARGUMENTS) or key in _OBJECTS:
        return f"an argument of the kind {key!r}"
    if key == "treespec_namedtuple_fields" and part:
        return "named tuples"
    check = _CHECKS.get(key)
    if check is None or part is None:
        return None
    if key == "range_constraints" and isinstance(part, dict):
        part = ",".join(part)
    return check(part) if isinstance(part, str) else f"{key!r} has an unknown form"


def _problem_of_target(text: str) -> str | None:
    return None if _OPERATOR.fullmatch(text) else f"{text!r} is not an ATen operator"


def _problem_of_structure(text: str) -> str | None:
    return next(filter(None, map(_problem_of_container, _mappings(json.loads(text)))), None)


def _problem_of_expression(text: str) -> str | None:
    """The reason why an extent is not an expression of symbols, numbers, arithmetic and known functions."""
    position = 0
    while position < min(len(text), _LONGEST_EXPRESSION):
        found = _TOKEN.match(text, position)
        word = found and found["word"]
        if not found or (word and word not in _FUNCTIONS and not _SYMBOL.fullmatch(word)):
            break
        position = found.end()
    return None if position == len(text) else f"the extent {text[:100]!r}"


def _problem_of_container(spec: dict[str, object]) -> str | None:
    """The reason why a tree of inputs or outputs has more than lists, tuples and dicts with plain keys."""
    if "type" not in spec:
        return "a structure without a type"
    if spec["type"] is not None and spec["type"] not in _CONTAINERS:
        return f"a structure of type {spec['type']!r}"
    context = spec.get("context")
    keys = json.loads(context) if isinstance(context, str) else context
    is_plain = keys is None or (isinstance(keys, list) and all(isinstance(key, str | int) for key in keys))
    return None if is_plain else "a structure with keys that are not strings"


_CHECKS: dict[str, Callable[[str], str | None]] = {
    "expr_str": _problem_of_expression,
    "in_spec": _problem_of_structure,
    "out_spec": _problem_of_structure,
    "range_constraints": _problem_of_expression,
    "target": _problem_of_target,
}
