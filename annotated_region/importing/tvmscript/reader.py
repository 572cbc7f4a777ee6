r"""Reads untrusted TVMScript files: rejects text that could execute code before TVM sees it.

TVM's parser evaluates the expressions of a script as Python, builtins included, and evaluates strings in the
position of shapes. So the syntax tree of the text is checked against an allowlist:
the statements that TVM prints for Relax functions, calls to Relax ops and types by name, names that the
file itself binds, and strings too simple to compute anything. Anything else is rejected with its
line, including TensorIR functions (``T.prim_func``), whose language is too large for an allowlist.

The checked text and the parsed text must be identical:

1. The text consists of printable characters and ``\n``. Python, `str.splitlines` and editors disagree about
   other line terminators (``\x0b``, ``\x85``, U+2028, a lone ``\r``, ...), so these are rejected.
2. Lines that are exactly one of the imports that TVM prints are blanked, as text; every other import is
   rejected.
3. The remaining text is parsed as TVM parses it, the tree is checked, and the same text goes to TVM.

The parser gets an empty table of builtins, so no names are looked up in Python's builtins.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import tvm

from annotated_region.errors import ModelError
from annotated_region.importing.tvmscript.words import (
    IMPORTS,
    MODULE_WORDS,
    RELAX_WORDS,
    ROOTS,
    SCALAR_TYPES,
    SYNTAX,
    TIR_WORDS,
)
from annotated_region.tvm_adapter.ops import parser_namespaces

__all__ = ["module_from_tvmscript"]

# No brackets and no quotes: if TVM evaluates such text, it can only add and multiply numbers.
_PLAIN_TEXT = re.compile(r"[\w .,:;+\-*/%#=|<>!]*")
_LARGEST_NUMBER = 2**64
_OPTIONS_OF_FUNCTIONS = ("pure", "private")
# The value of this keyword names a function that runs during type inference.
_RUNS_A_FUNCTION = "derive_func"


def module_from_tvmscript(text: str, file_name: str) -> tvm.IRModule:
    """The module that a TVMScript text describes.

    Parameters
    ----------
    text
        The content of the file.
    file_name
        The name of the file in messages.

    Raises
    ------
    ModelError
        It is not TVMScript of a well-formed module, or could execute code.
    """
    text = _without_imports(_printable(text, file_name))
    try:
        tree = _parsed_as_tvm_does(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ModelError(f"{file_name} is not TVMScript: {str(error) or type(error).__name__}") from error
    _Guard(tree, file_name).check()
    if not any(isinstance(each, ast.ClassDef | ast.FunctionDef) for each in tree.body):
        raise ModelError(f"{file_name} has neither a module (@I.ir_module) nor a function (@R.function)")
    try:
        parsed = tvm.script.from_source(text, extra_vars=_names())
    except Exception as error:  # TVM's parser propagates errors of the evaluated expressions
        raise ModelError(f"{file_name} is not TVMScript that TVM can parse: {_first_lines(error)}") from error
    if isinstance(parsed, tvm.relax.Function):
        return tvm.IRModule({"main": parsed.with_attr("global_symbol", "main")})
    if not isinstance(parsed, tvm.IRModule):
        raise ModelError(f"{file_name} describes a {type(parsed).__name__}, not a module of Relax functions")
    return parsed


def _printable(text: str, file_name: str) -> str:
    r"""The text with ``\n`` at the end of each line."""
    text = text.replace("\r\n", "\n")
    for number, line in enumerate(text.split("\n"), start=1):
        for character in line:
            if not character.isprintable() and character != "\t":
                raise ModelError(
                    f"{file_name} is not read: line {number} holds the character U+{ord(character):04X}, "
                    "which is invisible when printed; remove it, or write it as an escape in a string"
                )
    return text


def _without_imports(text: str) -> str:
    """The text with its imports blanked, because TVM's parser rejects them; keeps line numbers."""
    lines = text.split("\n")
    return "\n".join("" if line.partition("#")[0].rstrip() in IMPORTS else line for line in lines)


def _parsed_as_tvm_does(text: str) -> ast.Module:
    """The tree of `tvm.script.parser.core.doc.parse`, which prefers the grammar of Python 3.8."""
    try:
        return ast.parse(text, feature_version=(3, 8))
    except SyntaxError:
        return ast.parse(text)


def _names() -> dict[str, object]:
    """The global names available to a script."""
    return parser_namespaces() | {"TypeVar": TypeVar, "__builtins__": {}}


def _first_lines(error: Exception, count: int = 3) -> str:
    return " ".join(line.strip() for line in str(error).strip().split("\n")[:count]) or type(error).__name__


def _kind_of(node: ast.AST) -> str:
    name = type(node).__name__
    return f"an {name}" if name[0] in "AEIOU" else f"a {name}"


class _Guard:
    """Checks a syntax tree against the allowlist."""

    def __init__(self, tree: ast.Module, file_name: str) -> None:
        self.tree = tree
        self.file_name = file_name
        nodes = list(ast.walk(tree))
        self.classes = {node.name for node in nodes if isinstance(node, ast.ClassDef)}
        # ``cls`` may only be bound to the module itself, as TVM prints it.
        fine = {
            id(node.targets[0])
            for node in nodes
            if isinstance(node, ast.Assign) and self._is_module_alias(node)
        }
        self.bound = Counter(name for node in nodes if id(node) not in fine for name in _names_bound_by(node))
        self.roots = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
        self.called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        self.decorators = set(_decorators(nodes))
        self.entered = {
            id(node.context_expr.func)
            for node in nodes
            if isinstance(node, ast.withitem) and isinstance(node.context_expr, ast.Call)
        }
        self.checks: dict[type[ast.AST], Callable[[Any], str | None]] = {
            ast.Module: self._file,
            ast.ClassDef: self._class,
            ast.FunctionDef: self._function,
            ast.Assign: self._assignment,
            ast.AnnAssign: self._assignment,
            ast.With: self._with,
            ast.Call: self._call,
            ast.Attribute: self._attribute,
            ast.Name: self._name,
            ast.Constant: self._constant,
            ast.BinOp: self._arithmetic,
        }

    def check(self) -> None:
        """Raise `ModelError` for the first construct that is not on the list."""
        for name, count in self.bound.items():
            if name in ROOTS or (name in self.classes and count > 1):
                self._refuse(self.tree, f"it rebinds the name {name!r}")
            if name.startswith("__"):
                self._refuse(self.tree, f"it rebinds the name {name!r}")
        for node in ast.walk(self.tree):
            if not isinstance(node, SYNTAX):
                self._refuse(node, f"{type(node).__name__} is not part of a Relax module")
            objection = self.checks.get(type(node), _no_objection)(node)
            if objection:
                self._refuse(node, objection)

    def _refuse(self, node: ast.AST, why: str) -> None:
        where = f"line {node.lineno}: " if hasattr(node, "lineno") else ""
        raise ModelError(
            f"{self.file_name} is not read, because TVM would execute code in it: {where}{why}. If you "
            "trust the file, read it in Python with tvm.script.from_source and call annotated_region yourself"
        )

    def _is_module_alias(self, node: ast.Assign) -> bool:
        return (
            _path(node.targets[0]) == ["cls"]
            and isinstance(node.value, ast.Name)
            and node.value.id in self.classes
        )

    def _file(self, node: ast.Module) -> str | None:
        for statement in node.body:
            match statement:
                case ast.ClassDef() | ast.FunctionDef() | ast.Pass() | ast.Expr(value=ast.Constant()):
                    continue
                case ast.Assign(targets=[ast.Name()], value=ast.Call(func=ast.Name(id="TypeVar"))):
                    continue
            return f"{_kind_of(statement)} is outside of modules and functions"
        return None

    def _class(self, node: ast.ClassDef) -> str | None:
        if (
            node.bases
            or node.keywords
            or [_path(each) for each in node.decorator_list] != [["I", "ir_module"]]
        ):
            return f"class {node.name} is more than an @I.ir_module"
        for statement in node.body:
            if not isinstance(statement, ast.FunctionDef | ast.Expr | ast.Pass):
                return f"{_kind_of(statement)} is between the functions of a module"
        return None

    def _function(self, node: ast.FunctionDef) -> str | None:
        given = node.args
        if len(node.decorator_list) != 1 or not _is_relax_decorator(node.decorator_list[0]):
            return f"function {node.name} is no @R.function"
        if (
            given.defaults
            or given.kw_defaults
            or given.vararg
            or given.kwarg
            or given.kwonlyargs
            or given.posonlyargs
        ):
            return f"function {node.name} has more than plain parameters"
        return None

    def _assignment(self, node: ast.Assign | ast.AnnAssign) -> str | None:
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
            if not all(isinstance(part, ast.Name) for part in parts):
                return "it assigns to something other than a name"
        return None

    def _with(self, node: ast.With) -> str | None:
        for item in node.items:
            call = item.context_expr
            if item.optional_vars or not isinstance(call, ast.Call) or _path(call.func) != ["R", "dataflow"]:
                return "a with statement other than R.dataflow()"
        return None

    def _call(self, node: ast.Call) -> str | None:
        names = [keyword.arg for keyword in node.keywords]
        if None in names:
            return "keywords that a value brings along"
        if _path(node.func) == ["R", "Callable"] and (len(node.args) > 3 or _RUNS_A_FUNCTION in names):
            return "a type that a named function infers"
        return None

    def _name(self, node: ast.Name) -> str | None:
        if node.id in ROOTS:
            known = id(node) in self.roots or (node.id == "TypeVar" and id(node) in self.called)
            return None if known or isinstance(node.ctx, ast.Store) else f"{node.id!r} is used alone"
        return None if node.id in self.bound else f"the file does not define {node.id!r}"

    def _attribute(self, node: ast.Attribute) -> str | None:
        path = _path(node)
        match path:
            case ["cls", name] if not name.startswith("_"):
                return None
            case ["I", "ir_module"] | ["R", "function"] if id(node) in self.decorators:
                return None
            case ["R", "dataflow"] if id(node) in self.entered:
                return None
            case ["R", name] if name in _NAMESPACES and id(node) in self.roots:
                return None
            case [root, *names] if _is_word(root, names):
                return None
        name = ".".join(path) if path else "an attribute of a value"
        return f"{name!r} is not in the list of harmless Relax ops, types and statements"

    def _constant(self, node: ast.Constant) -> str | None:
        match node.value:
            case str(text):
                plain = _PLAIN_TEXT.fullmatch(text) and not any(part in text for part in ("**", "<<", "__"))
                return None if plain else f"the text {text[:40]!r} might be evaluated"
            case bool() | float() | None:
                return None
            case int(number):
                return None if abs(number) < _LARGEST_NUMBER else "a number of more than 64 bits"
        return f"a constant of type {type(node.value).__name__}"

    def _arithmetic(self, node: ast.BinOp) -> str | None:
        for operand in (node.left, node.right):
            if isinstance(operand, ast.List | ast.Tuple | ast.Dict) or (
                isinstance(operand, ast.Constant) and not isinstance(operand.value, int | float)
            ):
                return "arithmetic on something other than numbers"
        return None


_NAMESPACES = frozenset(word.split(".")[0] for word in RELAX_WORDS if "." in word)


def _no_objection(_node: ast.AST) -> None:
    return None


def _is_word(root: str, names: list[str]) -> bool:
    """Whether ``<root>.<names>`` is on the lists of words."""
    word = ".".join(names)
    if root == "T":
        return word in TIR_WORDS or SCALAR_TYPES.fullmatch(word) is not None
    return word in {"I": MODULE_WORDS, "R": RELAX_WORDS}.get(root, frozenset())


def _path(node: ast.AST) -> list[str]:
    """``["R", "nn", "relu"]`` for ``R.nn.relu``; empty if the root is not a name."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else []


def _is_relax_decorator(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return _path(node) == ["R", "function"]
    options = {keyword.arg: keyword.value for keyword in node.keywords}
    plain = all(
        isinstance(value, ast.Constant) and isinstance(value.value, bool) for value in options.values()
    )
    return (
        _path(node.func) == ["R", "function"]
        and not node.args
        and plain
        and options.keys() <= {*_OPTIONS_OF_FUNCTIONS}
    )


def _decorators(nodes: list[ast.AST]) -> Iterator[int]:
    for node in nodes:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield from (id(each.func if isinstance(each, ast.Call) else each) for each in node.decorator_list)


def _names_bound_by(node: ast.AST) -> tuple[str, ...]:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
            return (name,)
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return (name,)
    return ()
