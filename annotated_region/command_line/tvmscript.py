"""Reads TVMScript files that nobody vouches for: what could run code is refused before TVM sees the text.

TVM's parser evaluates the expressions of a script as Python, builtins included, and evaluates text inside
strings where a shape or an annotation stands. So the text is held against a short list first: the syntax
that TVM prints for Relax functions, calls to Relax ops and types, names that the file itself binds, and
strings too plain to compute anything. Everything else is refused with its line, TensorIR functions
(``T.prim_func``) included: their language is too large for such a list.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import tvm
from tvm.script import relax as script_namespace

from annotated_region.errors import ModelError

__all__ = ["module_from_tvmscript"]

_SYNTAX: tuple[type[ast.AST], ...] = (
    ast.Module, ast.ClassDef, ast.FunctionDef, ast.arguments, ast.arg, ast.Assign, ast.AnnAssign, ast.With,
    ast.withitem, ast.If, ast.Return, ast.Expr, ast.Pass, ast.Call, ast.keyword, ast.Attribute, ast.Name,
    ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.Subscript, ast.Slice, ast.BinOp, ast.UnaryOp,
    ast.Compare, ast.Import, ast.ImportFrom, ast.alias, ast.Load, ast.Store, ast.Add, ast.Sub, ast.Mult,
    ast.Div, ast.FloorDiv, ast.Mod, ast.USub, ast.UAdd, ast.Not, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt,
    ast.GtE,
)  # fmt: skip
_IMPORTS = (
    "from __future__ import annotations",
    "from typing import TypeVar",
    "from tvm.script import ir as I",
    "from tvm.script import relax as R",
    "from tvm.script import tirx as T",
)
_ROOTS = frozenset({"I", "R", "T", "cls", "TypeVar"})
_OF_MODULES = frozenset({"ir_module", "module_attrs", "module_global_infos", "vdevice", "dummy_global_info"})
_NAMESPACES = frozenset({"annotation", "builtin", "ccl", "grad", "image", "memory", "nn", "vision", "vm"})
# They take Python functions, or text that becomes code.
_CALL_BACK = frozenset({"call_py_func", "emit_te", "macro", "rewriter"})
_HOMES = (
    "tvm.relax.op",
    "tvm.relax.script",
    "tvm.relax.expr",
    "tvm.script.parser",
    "annotated_region.regions.annotations",
)
_SCALARS = re.compile(r"(bool|u?int\d+|b?float\d+)")
# No brackets and no quotes: where TVM evaluates such text, it can add and multiply numbers, and no more.
_PLAIN_TEXT = re.compile(r"[\w\s.,:;+\-*/%#=|<>!]*")


def module_from_tvmscript(text: str, file_name: str) -> tvm.IRModule:
    """The module that a TVMScript text describes.

    Parameters
    ----------
    text
        The content of the file.
    file_name
        What messages call it.

    Raises
    ------
    ModelError
        It is no TVMScript, describes no well-formed module, or holds what might run code.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ModelError(f"{file_name} is no TVMScript: {error}") from error
    _Guard(tree, file_name).check()
    try:
        parsed = tvm.script.from_source(_without_imports(text, tree))
    except Exception as error:  # TVM's parser raises whatever the evaluated expressions raise
        raise ModelError(f"{file_name} is no TVMScript that TVM can read: {_first_lines(error)}") from error
    if isinstance(parsed, tvm.relax.Function):
        return tvm.IRModule({"main": parsed.with_attr("global_symbol", "main")})
    if not isinstance(parsed, tvm.IRModule):
        raise ModelError(f"{file_name} describes a {type(parsed).__name__}, not a module of Relax functions")
    return parsed


def _first_lines(error: Exception, count: int = 3) -> str:
    return " ".join(line.strip() for line in str(error).strip().splitlines()[:count]) or type(error).__name__


def _without_imports(text: str, tree: ast.Module) -> str:
    """The text with its imports blanked, because TVM's parser takes none; lines keep their numbers."""
    lines = text.splitlines()
    for statement in tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            lines[statement.lineno - 1] = ""
    return "\n".join(lines) + "\n"


class _Guard:
    """Holds a syntax tree against the list of what may stand in it."""

    def __init__(self, tree: ast.Module, file_name: str) -> None:
        self.tree = tree
        self.file_name = file_name
        self.classes = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        # ``cls`` may be bound to the module itself, as TVM prints it, and to nothing else.
        modules = {f"cls = {name}" for name in self.classes}
        assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
        fine = {id(node.targets[0]) for node in assigned if ast.unparse(node) in modules}
        names = (node for node in ast.walk(tree) if id(node) not in fine)
        self.bound = Counter(name for node in names for name in _names_bound_by(node))
        self.roots = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        self.called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        self.checks: dict[type[ast.AST], Callable[[Any], str | None]] = {
            ast.Import: self._import,
            ast.ImportFrom: self._import,
            ast.ClassDef: self._class,
            ast.FunctionDef: self._function,
            ast.Attribute: self._attribute,
            ast.Name: self._name,
            ast.Constant: self._constant,
            ast.BinOp: self._arithmetic,
        }

    def check(self) -> None:
        """Raise `ModelError` at the first thing that is not on the list."""
        for name, count in self.bound.items():
            if name in _ROOTS or (name in self.classes and count > 1):
                self._refuse(self.tree, f"it binds the name {name!r} anew")
        for node in ast.walk(self.tree):
            if not isinstance(node, _SYNTAX):
                self._refuse(node, f"{type(node).__name__} is no part of a Relax module")
            objection = self.checks.get(type(node), _no_objection)(node)
            if objection:
                self._refuse(node, objection)

    def _refuse(self, node: ast.AST, why: str) -> None:
        where = f"line {node.lineno}: " if hasattr(node, "lineno") else ""
        raise ModelError(
            f"{self.file_name} is not read, because TVM would run what stands in it: {where}{why}. If you "
            "trust the file, read it in Python with tvm.script.from_source and call annotated_region yourself"
        )

    def _import(self, node: ast.stmt) -> str | None:
        alone = node.lineno == node.end_lineno and node.col_offset == 0 and ast.unparse(node) in _IMPORTS
        return None if alone and self._alone_on_its_line(node) else f"import {ast.unparse(node)!r}"

    def _alone_on_its_line(self, node: ast.stmt) -> bool:
        return not any(
            other is not node and isinstance(other, ast.stmt) and other.lineno == node.lineno
            for other in ast.walk(self.tree)
        )

    def _class(self, node: ast.ClassDef) -> str | None:
        decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
        if node.bases or node.keywords or decorators != ["I.ir_module"]:
            return f"class {node.name} is more than an @I.ir_module"
        return None

    def _function(self, node: ast.FunctionDef) -> str | None:
        decorators = [decorator.split("(")[0] for decorator in map(ast.unparse, node.decorator_list)]
        given = node.args
        if decorators != ["R.function"]:
            return f"function {node.name} is no @R.function"
        if given.defaults or given.kw_defaults or given.vararg or given.kwarg or given.kwonlyargs:
            return f"function {node.name} has more than plain parameters"
        return None

    def _name(self, node: ast.Name) -> str | None:
        if node.id in _ROOTS:
            known = id(node) in self.roots or (node.id == "TypeVar" and id(node) in self.called)
            return None if known or isinstance(node.ctx, ast.Store) else f"{node.id!r} stands alone"
        return None if node.id in self.bound else f"the file does not say what {node.id!r} is"

    def _attribute(self, node: ast.Attribute) -> str | None:
        path = ast.unparse(node).split(".")
        match path:
            case ["cls", name] if not name.startswith("_"):
                return None
            case ["I", name] if name in _OF_MODULES:
                return None
            case ["T", name] if _SCALARS.fullmatch(name):
                return None
            case ["R", name] if name in _NAMESPACES and id(node) in self.roots:
                return None
            case ["R", *names] if _is_harmless(names):
                return None
        return f"{ast.unparse(node)!r} is no Relax op, type or statement that is known to be harmless"

    def _constant(self, node: ast.Constant) -> str | None:
        if isinstance(node.value, str):
            plain = _PLAIN_TEXT.fullmatch(node.value) and "**" not in node.value and "<<" not in node.value
            return None if plain else f"the text {node.value[:40]!r} might be evaluated"
        return None

    def _arithmetic(self, node: ast.BinOp) -> str | None:
        for operand in (node.left, node.right):
            if isinstance(operand, ast.List | ast.Tuple | ast.Dict) or (
                isinstance(operand, ast.Constant) and not isinstance(operand.value, int | float)
            ):
                return "arithmetic with what is no number"
        return None


def _no_objection(_node: ast.AST) -> None:
    return None


def _names_bound_by(node: ast.AST) -> tuple[str, ...]:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
            return (name,)
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return (name,)
    return ()


def _is_harmless(names: list[str]) -> bool:
    """Whether ``R.<names>`` makes Relax: an op, a type or a statement that TVM or this package defines."""
    *spaces, last = names
    if len(spaces) > 1 or not set(spaces) <= _NAMESPACES or last.startswith("_") or last in _CALL_BACK:
        return False
    found: Any = script_namespace
    for name in names:
        found = getattr(found, name, None)
    home = getattr(found, "__module__", None) or type(found).__module__
    return callable(found) and isinstance(home, str) and home.startswith(_HOMES)
