"""The house: imports point down only, every file has a caption, the top-level links lead into the package."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "annotated_region"
FILES = sorted(PACKAGE.rglob("*.py"))


def floor_of(path):
    """0 for the core, 1 for passes, 2 for backends, 3 for what looks at all of them."""
    parts = path.relative_to(PACKAGE).parts
    if parts[0] in ("__init__.py", "__main__.py", "command_line", "testing"):
        return 3
    return {"passes": 1, "backends": 2}.get(parts[0], 0)


def imported_modules(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def module_floor(module):
    parts = module.split(".")
    if parts[0] != "annotated_region":
        return 0
    if len(parts) == 1 or parts[1] in ("command_line", "testing", "__main__"):
        return 3 if len(parts) > 1 else 0
    return {"passes": 1, "backends": 2}.get(parts[1], 0)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path):
    too_high = [module for module in imported_modules(path) if module_floor(module) > floor_of(path)]
    assert not too_high


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_the_first_docstring_line_is_a_caption(path):
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring
    caption = docstring.splitlines()[0]
    assert caption.endswith((".", ":"))


@pytest.mark.parametrize("name", ["passes", "backends"])
def test_the_top_level_links_lead_into_the_package(name):
    link = ROOT / name
    assert link.is_symlink()
    assert link.resolve() == PACKAGE / name


def test_nothing_imports_through_the_links():
    for folder in (PACKAGE, ROOT / "tests", ROOT / "examples", ROOT / "benchmarks"):
        for path in folder.rglob("*.py"):
            modules = set(imported_modules(path))
            assert not {module for module in modules if module.split(".")[0] in ("passes", "backends")}, path
