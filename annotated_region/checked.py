"""checked: validates the arguments of a public function or class against its annotations, at each call.

The annotations are the only statement of what each parameter accepts. Elements of containers are validated
too, where that has no side effect: iterators and lazy sequences are accepted unread.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, KeysView, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, wraps
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Final, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from annotated_region.arguments import brief_repr, require_methods
from annotated_region.errors import NoModuleError, UsageError

__all__ = ["checked", "checked_class", "require_fields"]

Given = ParamSpec("Given")
Answer = TypeVar("Answer")
Kind = TypeVar("Kind", bound=type)

_INSTEAD: Final[Mapping[str, str]] = {
    "annotations": "a dict of patterns by their names",
    "bans": 'a dict, such as {"relax.nn.softmax": ["tensorrt"]}',
    "budget_bytes": 'a dict of numbers of bytes, such as {"npu": 8 << 20}',
    "calibration_inputs": "the inputs of some runs, one list or dict of arrays for each",
    "claims": 'a dict of lists, such as {"dnnl": [var]}',
    "codegen_options": 'a dict, such as {"precision": "bf16"}',
    "devices": 'a dict, such as {"dnnl": CPU}, where CPU is a Device',
    "extents": 'a dict, such as {"n": 128}',
    "inputs": "arrays, in a list or in a dict by the names of the parameters",
    "keep": 'a list of names, such as ["lv3"]',
    "lock": "an ar.Lock or the path of one",
    "min_work": 'a dict, such as {"dnnl": 5}',
    "model": "a cost model, such as MeasuredCost() or RooflineCost()",
    "options": 'a dict, such as {"dnnl": {"precision": "bf16"}}',
    "pins": 'a dict, such as {"lv3": "dnnl"}',
    "policy": 'a policy, such as Priority(["dnnl"]) or LeastCost(MeasuredCost())',
    "targets": 'the names of targets, such as ["tensorrt", "dnnl"]',
}
"""What to pass instead, by parameter name, where an example is clearer than a class."""

_WORDS: Final[Mapping[object, str]] = {
    NoneType: "None",
    bool: "True or False",
    int: "an integer",
    float: "a number",
    str: "a string",
    Path: "a path",
    Callable: "a function",
    Mapping: "a dict",
    Sequence: "a list",
    Collection: "a list",
    Iterable: "a list",
    tuple: "a tuple",
}
"""What to pass instead, by class."""

_CLASSES: Final[Mapping[str, str]] = {
    "DFPattern": "a pattern of tvm.relax.dpl",
    "Function": 'a relax.Function, such as mod["main"]',
    "LinkedExecutable": "what annotated_region.build returns",
    "PrimFunc": "a PrimFunc, such as LegalizeOps makes",
    "Target": 'a target of TVM for the host, such as "llvm"',
    "Var": "a variable of the function",
}
"""What to pass instead, by class name, for classes that may not be loaded yet."""


def checked(function: Callable[Given, Answer]) -> Callable[Given, Answer]:
    """Decorator: raise `UsageError`, with what to pass instead, for an argument that misfits its annotation.

    A parameter is not checked if its annotation names something that is imported for type checkers only.
    """

    @wraps(function)
    def call(*args: Given.args, **kwargs: Given.kwargs) -> Answer:
        known = _parameters(function)
        for name, value in (*known.named(args), *kwargs.items()):
            if name in known.hints:
                _require(value, known.hints[name], name)
        return function(*args, **kwargs)

    return call


def checked_class(kind: Kind) -> Kind:
    """Class decorator: `checked` for the constructor."""
    kind.__init__ = checked(kind.__init__)  # type: ignore[misc]
    return kind


def require_fields(made: object) -> None:
    """Check the fields of a dataclass against their annotations, for classes that run other checks first.

    Raises
    ------
    UsageError
        A field does not fit its annotation.
    """
    for name, hint in _parameters(type(made).__init__).hints.items():
        _require(getattr(made, name), hint, name)


@dataclass(frozen=True, slots=True)
class _Parameters:
    """The parameters of a function.

    Attributes
    ----------
    positional
        The names of the parameters that may be passed by position.
    rest
        The name of the ``*args`` parameter, if there is one.
    hints
        The resolved annotation of each parameter.
    """

    positional: Sequence[str]
    rest: str | None
    hints: Mapping[str, Any]

    def named(self, args: Sequence[object]) -> Iterator[tuple[str, object]]:
        """The positional arguments, paired with parameter names."""
        yield from zip(self.positional, args, strict=False)
        if self.rest:
            yield from ((self.rest, value) for value in args[len(self.positional) :])


@cache
def _parameters(function: Callable[..., object]) -> _Parameters:
    known = vars(sys.modules[function.__module__])
    parameters = inspect.signature(function).parameters.values()
    hints = {}
    for each in parameters:
        if each.annotation is not each.empty and each.kind is not each.VAR_KEYWORD:
            holder = SimpleNamespace(__annotations__={each.name: each.annotation})
            try:
                hints.update(get_type_hints(holder, known))
            except (NameError, AttributeError):
                continue  # its class is imported for type checkers only
    positional = [each.name for each in parameters if each.kind < each.VAR_POSITIONAL]
    rest = [each.name for each in parameters if each.kind is each.VAR_POSITIONAL]
    return _Parameters(positional, rest[0] if rest else None, hints)


def _require(value: object, hint: object, name: str) -> None:
    found = _misfit(value, hint, f"the argument {name}")
    if found is None:
        return
    subject, given, wanted = found
    instead = _INSTEAD.get(name) or " or ".join(dict.fromkeys(_words(each) for each in _options(wanted)))
    for protocol in filter(_is_protocol, _options(hint)):
        require_methods(given, _methods(protocol), subject, instead)
    kind = (
        NoModuleError
        if any(getattr(each, "__name__", "") == "IRModule" for each in _options(hint))
        else UsageError
    )
    raise kind(f"{subject} is {brief_repr(given)}; pass {instead}")


def _misfit(value: object, hint: object, subject: str) -> tuple[str, object, object] | None:
    """The first mismatch: its place in words, the value, and the accepted hint. None if everything fits."""
    outside = [each for each in _options(hint) if _is_of(value, each)]
    if not outside:
        return subject, value, hint
    inside = [_misfit_inside(value, each, subject) for each in outside]
    return None if None in inside else inside[0]


def _misfit_inside(value: object, hint: object, subject: str) -> tuple[str, object, object] | None:
    parts = get_args(hint)
    if isinstance(value, Mapping) and len(parts) == 2:
        return _first(
            found
            for key, held in value.items()
            for found in (
                _misfit(key, parts[0], f"a key of {subject}"),
                _misfit(held, parts[1], f"the entry {brief_repr(key)} of {subject}"),
            )
        )
    if isinstance(value, list | tuple | set | frozenset) and parts[1:] in ((), (...,)):
        return _first(_misfit(held, part, f"an entry of {subject}") for part in parts[:1] for held in value)
    return None


def _first(
    found: Iterable[tuple[str, object, object] | None],
) -> tuple[str, object, object] | None:
    return next((each for each in found if each is not None), None)


def _options(hint: object) -> tuple[object, ...]:
    """The members of a union; a tuple of one for any other hint."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _is_of(value: object, hint: object) -> bool:
    kind: Any = get_origin(hint) or getattr(hint, "__supertype__", hint)
    if kind in (Any, object) or isinstance(kind, TypeVar):
        return True
    if _is_protocol(kind):
        methods = (getattr(value, name, None) for name in _methods(kind))
        return not isinstance(value, type) and all(map(callable, methods))
    if kind is Literal:
        return isinstance(value, Hashable) and value in get_args(hint)
    return callable(value) if kind is Callable else _is_instance(value, kind)


def _is_instance(value: object, kind: type) -> bool:
    """Whether a value is an instance of a class, or is accepted in place of one."""
    if _is_of_numpy(kind, "ndarray"):
        return isinstance(value, Real | list | tuple) or any(hasattr(value, name) for name in _OF_ARRAYS)
    if isinstance(value, str | bytes | Mapping) and kind in (Sequence, Collection, Iterable):
        return False  # a str is a sequence of str, but is never meant as one
    if kind is bool:
        return isinstance(value, bool) or _is_of_numpy(type(value), "bool", "bool_")
    is_truth = isinstance(value, bool) and kind in (int, float)
    return isinstance(value, _ALIKE.get(kind, kind)) and not is_truth


def _is_of_numpy(kind: object, *names: str) -> bool:
    """Whether a class is one of these numpy classes; by name, because ``--help`` must not load numpy."""
    return getattr(kind, "__module__", "") == "numpy" and getattr(kind, "__name__", "") in names


def _is_protocol(kind: object) -> bool:
    return isinstance(kind, type) and bool(getattr(kind, "_is_protocol", False))


def _methods(protocol: object) -> list[str]:
    return [name for name, held in vars(protocol).items() if callable(held) and not name.startswith("_")]


_OF_ARRAYS = "__array__", "__dlpack__"

_ALIKE: Final[Mapping[object, Any]] = {
    int: Integral,
    float: Real,
    Path: os.PathLike,
    Sequence: (Sequence, KeysView),
}
"""Classes accepted in place of an annotated class."""


def _words(hint: object) -> str:
    kind = get_origin(hint) or hint
    if kind is Literal:
        return f"one of {', '.join(map(repr, get_args(hint)))}"
    name = getattr(kind, "__name__", str(kind))
    return _WORDS.get(kind) or _CLASSES.get(name) or f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"
