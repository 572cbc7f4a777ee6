"""Any in signatures: only for JSON, libraries without types, and values that are passed through."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "annotated_region"
FILES = [
    *sorted(PACKAGE.rglob("*.py")),
    ROOT / "annotated_region_pytest.py",
    ROOT / "annotated_region_tvm.py",
]

# To be lowered with the count, never raised.
MOST = 25


def annotations(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    given = function.args
    named = (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg)
    yield from (each.annotation for each in named if each is not None and each.annotation is not None)
    if function.returns is not None:
        yield function.returns


def is_any(node: ast.AST) -> bool:
    name = getattr(node, "id", None) if isinstance(node, ast.Name) else getattr(node, "attr", None)
    return name == "Any"


def said_in(tree: ast.AST) -> Iterator[int]:
    """The line of each Any in a signature; text that stands for a type is read as well."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for annotation in annotations(function):
            for node in ast.walk(annotation):
                is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
                inner = ast.walk(ast.parse(node.value)) if is_text else [node]
                yield from (annotation.lineno for each in inner if is_any(each))


def other_names_of_any(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and is_any(node.value):
            yield node.lineno


def test_signatures_say_any_no_more_often_than_before():
    found = [
        f"{file.relative_to(ROOT)}:{line}" for file in FILES for line in said_in(ast.parse(file.read_text()))
    ]
    assert len(found) <= MOST, "\n".join(found)


def test_nothing_is_another_name_of_any():
    assert not [
        f"{file.relative_to(ROOT)}:{line}"
        for file in FILES
        for line in other_names_of_any(ast.parse(file.read_text()))
    ]


def test_the_count_sees_every_place():
    text = (
        "def f(a: Any, *b: 'list[Any]', c: dict[str, Any] = 1, **d: typing.Any) -> Callable[[Any], int]: ..."
    )
    assert len(list(said_in(ast.parse(text)))) == 5
    assert list(other_names_of_any(ast.parse("Dim = Any\nTree: TypeAlias = Any"))) == [1, 2]
