"""Names of TVM that are private, or younger than two releases, appear only in `tvm_adapter`."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "annotated_region"
ADAPTER = PACKAGE / "tvm_adapter"
ROOMS = [path for path in sorted(PACKAGE.rglob("*.py")) if ADAPTER not in path.parents]

# Of the names that the package uses, those that TVM 0.25 or 0.26 lacks, where each was looked up.
YOUNG = {
    "tvm.ir.Call",
    "tvm.ir.Expr",
    "tvm.ir.GenericConst",
    "tvm.ir.StringImm",
    "tvm.ir.TensorLoad",
    "tvm.ir.TupleGetItem",
    "tvm.ir.Var",
    "tvm.relax.analysis.tir_vars_in_type",
    "tvm.relax.dpl.TypePattern",
    "tvm.relax.prim_value",
    "tvm.s_tir.SBlock",
    "tvm.s_tir.SBlockRealize",
    "tvm.sym.Analyzer",
    "tvm.tirx.BufferType",
    "tvm.tirx.Expr",
    "tvm_ffi.structural_walk",
}
# Public by spelling, but what they hold changes as the parser and the reflection of TVM do.
INTERNAL = ("tvm.script.parser", "tvm.relax.script", "tvm.support.cc.create_shared.")
REFLECTION = "relax.transform."


def imported_names(tree):
    """What each local name stands for, if it was imported from TVM."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            names.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    return {name: full for name, full in names.items() if full.split(".")[0] in ("tvm", "tvm_ffi")}


def used_names(tree):
    """The full name of each import of TVM's, and of each chain of attributes that starts at one."""
    imported = imported_names(tree)
    yield from imported.values()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        chain = []
        start = node
        while isinstance(start, ast.Attribute):
            chain.append(start.attr)
            start = start.value
        if chain and isinstance(start, ast.Name) and start.id in imported:
            yield ".".join([imported[start.id], *reversed(chain)])


def made_by_name(tree):
    """Global functions of TVM's that are not code generators, and nodes made by a reflected name."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
            continue
        called, name = ast.unparse(node.func), str(node.args[0].value)
        looked_up = called.endswith("get_global_func") and not name.startswith("relax.ext.")
        if looked_up or (called.endswith("ir.make_node") and name.startswith(REFLECTION)):
            yield name


def belongs_in_the_adapter(name):
    parts = name.split(".")
    private = any(part.startswith("_") and part != "__version__" for part in parts)
    young = any(name == each or name.startswith(f"{each}.") for each in YOUNG)
    return parts[0] in ("tvm", "tvm_ffi") and (private or young or name.startswith(INTERNAL))


def offences(text):
    tree = ast.parse(text)
    reflected = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return sorted(
        {name for name in used_names(tree) if belongs_in_the_adapter(name)}
        | set(made_by_name(tree))
        | {name for name in reflected if name.startswith("__tvm")}
    )


@pytest.mark.parametrize("path", ROOMS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_private_names_of_tvm_appear_only_in_tvm_adapter(path):
    assert not offences(path.read_text())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import tvm\ntvm.ir._ffi_api.RegisterOp('x', '')", "tvm.ir._ffi_api.RegisterOp"),
        ("from tvm.relax.expr import _update_type", "tvm.relax.expr._update_type"),
        ("import tvm\nisinstance(1, tvm.ir.GenericConst)", "tvm.ir.GenericConst"),
        ("from tvm import tirx\ndef f(x: tirx.Expr): ...", "tvm.tirx.Expr"),
        ("from tvm.sym import Analyzer as A\nA().simplify(1)", "tvm.sym.Analyzer"),
        ("import tvm.relax.script.parser", "tvm.relax.script.parser"),
        ("import tvm\ntvm.get_global_func('runtime.CSourceModuleCreate')", "runtime.CSourceModuleCreate"),
        ("import tvm\ntvm.ir.make_node('relax.transform.X')", "relax.transform.X"),
        ("kind.__tvm_ffi_type_info__", "__tvm_ffi_type_info__"),
    ],
)
def test_the_scan_finds_each_way_of_naming_them(text, found):
    assert found in offences(text)


def test_what_is_public_and_old_is_not_found():
    text = "import tvm\nfrom tvm import relax\nrelax.Var, tvm.__version__, tvm.get_global_func('relax.ext.x')"
    assert not offences(text)


def test_the_adapter_is_small():
    assert sum(len(path.read_text().splitlines()) for path in ADAPTER.rglob("*.py")) <= 470


def test_the_adapter_stays_small():
    """What a new release of TVM can break is read in one sitting."""
    assert sum(len(path.read_text().splitlines()) for path in ADAPTER.rglob("*.py")) <= 400
