"""The house: floors of rooms, imports that point down only, captions, top-level links, a core without TVM."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import networkx
import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "annotated_region"
FILES = sorted(PACKAGE.rglob("*.py"))

MODULES = {
    ".".join(("annotated_region", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(
        ".__init__"
    ): path
    for path in FILES
}

FACADE = "__init__"
FLOORS = (
    # The ground: what every room may need.
    ("errors",),
    (
        "_loading",
        "_version",
        "arguments",
        "arrays",
        "collector",
        "cutting",
        "expr_map",
        "files",
        "first_use",
        "graphs",
        "ids",
        "notes",
        "printable",
        "serial",
        "supported_versions",
    ),
    (
        "checked",
        "documents",
        "tvm_adapter",
        "error_classes",
        "op_types",
        "origins",
        "progress",
        "cache",
        "certificates",
        "surroundings",
        "grouping",
        "placement",
    ),
    ("annotations", "cache_contents", "host_targets", "recurrent_loops"),
    ("registration",),
    # Functions of Relax, and what is known of them.
    ("dataflow",),
    ("functions",),
    ("op_info",),
    ("importing", "inputs"),
    ("regions", "targets", "layouts", "extraction"),
    ("compilation", "layout_plan", "cost_units"),
    # What decides, and what tells of it.
    ("costs",),
    ("policies", "findings", "quantizing"),
    ("locking",),
    ("drawing",),
    ("reports",),
    # What users call.
    ("passes",),
    ("measuring",),
    ("backends",),
    ("advising", "bundling", "checking", "decoding", "incremental", "profiling"),
    (FACADE,),
    ("testing",),
    ("command_line",),
    ("__main__",),
)
"""The rooms, floor by floor; a room imports from lower floors only. ``docs/design.md`` draws them."""

FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}

CORE = ("arguments", "certificates", "costs", "documents", "errors", "graphs", "grouping", "ids", "placement")
"""The rooms that need no TVM."""


def room_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def import_statements(path):
    tree = ast.parse(path.read_text())
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def imported_modules(path):
    for node in import_statements(path):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def imported_rooms(path):
    """The rooms that a file imports, its own left out; names of the package itself are the facade's."""
    found = set()
    for node in import_statements(path):
        if isinstance(node, ast.ImportFrom) and node.module == "annotated_region":
            found |= {alias.name if alias.name in FLOOR_OF else FACADE for alias in node.names}
    for module in imported_modules(path):
        first, *rest = module.split(".")
        if first == "annotated_region" and rest:
            found.add(rest[0])
    if any(
        alias.name == "annotated_region"
        for node in import_statements(path)
        if isinstance(node, ast.Import)
        for alias in node.names
    ):
        found.add(FACADE)
    return found - {room_of(path)}


def test_each_room_stands_on_one_floor():
    rooms = {room_of(path) for path in FILES}
    assert sorted(room for rooms_of_floor in FLOORS for room in rooms_of_floor) == sorted(rooms)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path):
    floor = FLOOR_OF[room_of(path)]
    assert not [room for room in imported_rooms(path) if FLOOR_OF[room] >= floor]


def modules_that_it_imports(path):
    """The modules of the package that a file imports; a package stands for its ``__init__``."""
    for node in import_statements(path):
        if isinstance(node, ast.ImportFrom):
            yield from (
                f"{node.module}.{alias.name}" if f"{node.module}.{alias.name}" in MODULES else node.module
                for alias in node.names
            )
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_no_files_import_each_other_in_a_circle():
    imports = networkx.DiGraph(
        (name, other)
        for name, path in MODULES.items()
        for other in modules_that_it_imports(path)
        if other in MODULES
    )
    assert list(networkx.simple_cycles(imports)) == []


def test_layout_planning_is_a_package_of_its_own():
    """Two passes take it, which `partition` does not run."""
    users = {str(path.relative_to(PACKAGE)) for path in FILES if "layout_plan" in imported_rooms(path)}
    assert users == {"passes/plan_layout.py", "passes/transform_layout.py"}
    pipeline = set(imported_modules(PACKAGE / "passes" / "pipeline.py"))
    assert not {f"annotated_region.passes.{name}" for name in ("plan_layout", "transform_layout")} & pipeline


def test_the_core_imports_without_tvm():
    # The facade is left out, because it is where TVM comes in.
    code = f"""
import importlib, importlib.abc, pkgutil, sys, types

class Refusing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("tvm", "tvm_ffi"):
            raise ModuleNotFoundError(name + " is refused")

sys.meta_path.insert(0, Refusing())
package = sys.modules["annotated_region"] = types.ModuleType("annotated_region")
package.__path__ = [{str(PACKAGE)!r}]
for room in {CORE!r}:
    module = importlib.import_module("annotated_region." + room)
    for inner in pkgutil.walk_packages(getattr(module, "__path__", ()), module.__name__ + "."):
        importlib.import_module(inner.name)
print(sum(name.startswith("annotated_region.") for name in sys.modules))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert int(found.stdout) > 40


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


def test_what_tests_share_is_in_the_kits():
    """Beside tests stand programs only, so that `tests` alone is on the path."""
    others = [
        path
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if not path.name.startswith("test_") and not {"kits", "corpus"} & set(path.parts)
    ]
    helpers = [path for path in others if '__name__ == "__main__"' not in path.read_text()]
    assert [str(path.relative_to(ROOT)) for path in helpers] == ["tests/conftest.py"]
