"""The stubs of TVM name nothing that the installed TVM does not have."""

from __future__ import annotations

import ast
import importlib
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STUBS = ROOT / "stubs"
# Set on instances alone, or declared by each subclass.
UNSEEN = {
    "tvm.relax.frontend.onnx.onnx_frontend.ONNXGraphImporter._inputs",
    "tvm.relax.frontend.onnx.onnx_frontend.ONNXGraphImporter._nodes",
    "tvm.relax.frontend.onnx.onnx_frontend.ONNXGraphImporter.bb",
    "tvm.relax.frontend.onnx.onnx_frontend.ONNXGraphImporter.opset",
    "tvm.relax.frontend.torch.exported_program_translator.ExportedProgramImporter.block_builder",
    "tvm.relax.frontend.torch.exported_program_translator.ExportedProgramImporter.convert_map",
    "tvm.relax.frontend.torch.exported_program_translator.ExportedProgramImporter.env",
    "tvm.relax.expr.Binding.value",
    "tvm.runtime.Executable.mod",
    "tvm.runtime.vm.VirtualMachine.module",
}
# Importers of what may not be installed.
OPTIONAL = {
    "tvm.relax.frontend.onnx": "onnx",
    "tvm.relax.frontend.onnx.onnx_frontend": "onnx",
    "tvm.relax.frontend.torch": "torch",
    "tvm.relax.frontend.torch.exported_program_translator": "torch",
}


def module_of(stub: Path) -> str:
    parts = stub.relative_to(STUBS).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(stub): stub for stub in sorted(STUBS.rglob("*.pyi"))}


def declared(body: list[ast.stmt]) -> Iterator[tuple[str, list[ast.stmt]]]:
    """The names that a body declares, each with the body of its own."""
    for statement in body:
        match statement:
            case ast.ClassDef(name=name, body=inner):
                yield name, inner
            case ast.FunctionDef(name=name):
                yield name, []
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name, []
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name, []
            case ast.ImportFrom(names=names):
                yield from ((alias.asname, []) for alias in names if alias.asname)


def missing(where: object, body: list[ast.stmt], path: str) -> Iterator[str]:
    for name, inner in declared(body):
        full = f"{path}.{name}"
        # A private class is an alias of the stub's own.
        if name == "__getattr__" or re.match("_[A-Z]", name) or full in UNSEEN:
            continue
        if not hasattr(where, name):
            yield full
        elif inner:
            yield from missing(getattr(where, name), inner, full)


@pytest.mark.parametrize("name", MODULES)
def test_stubs_name_what_tvm_has(name: str):
    if name in OPTIONAL:
        pytest.importorskip(OPTIONAL[name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = importlib.import_module(name)
    body = ast.parse(MODULES[name].read_text()).body
    assert not list(missing(module, body, name))
