"""A code generator as a user would write one: external functions of a few float32 ops become C++."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

import annotated_region as ar
from annotated_region.testing.registry import claim_ops

__all__ = ["NAME", "OPS", "build_options", "generate", "register"]

NAME = "toy"

_UNARY = {"relax.nn.relu": "std::max(a, 0.0f)", "relax.negative": "-a"}
_BINARY = {
    "relax.add": "a + b",
    "relax.subtract": "a - b",
    "relax.multiply": "a * b",
    "relax.maximum": "std::max(a, b)",
}
OPS = (*_UNARY, *_BINARY, "relax.concat", "relax.split", "relax.matmul")
"""What it can run."""


def build_options() -> ar.BuildOptions:
    folders = (tvm_ffi.libinfo.find_include_path(), tvm_ffi.libinfo.find_dlpack_include_path())
    return ar.BuildOptions(("-std=c++17", "-O1", *(f"-I{folder}" for folder in folders)))


def register(**description: Any) -> None:
    """Make the target known: a backend, a rule for each op, and the code generator."""
    ar.register_backend(NAME, build_options=build_options, **description)
    claim_ops(NAME, *OPS)
    tvm_ffi.register_global_func(f"relax.ext.{NAME}", generate, override=True)


def generate(
    functions: Sequence[relax.Function], _options: Mapping[str, Any], _names: Mapping[Any, str]
) -> list[Any]:
    """What TVM's ``RunCodegen``, and `ar.build`, call."""
    create = tvm.get_global_func("runtime.CSourceModuleCreate")
    symbols = [str(function.attrs["global_symbol"]) for function in functions]
    texts = [_Writer(symbol).text(function) for symbol, function in zip(symbols, functions, strict=True)]
    runtime = (Path(__file__).parent / "tensors.h").read_text(encoding="utf-8")
    return [create("\n".join([runtime, *texts]), "cc", symbols, [])]


class _Writer:
    """Writes one external function, and fails on what the form of such functions does not allow."""

    def __init__(self, symbol: str) -> None:
        self.symbol = symbol
        self.lines: list[str] = []
        self.names: dict[Any, str] = {}
        self.composites: dict[Any, relax.Function] = {}

    def text(self, function: relax.Function) -> str:
        kinds = ["s" if isinstance(param.ty, relax.ShapeType) else "t" for param in function.params]
        for index, (param, kind) in enumerate(zip(function.params, kinds, strict=True)):
            if kind == "t":
                assert isinstance(param.ty, relax.TensorType)
                self.names[param] = self.line("Tensor", f"toy::read(args[{index}])")
        results = function.body.body
        self.body(function)
        fields = list(results.fields) if isinstance(results, relax.Tuple) else [results]
        self.lines += [
            f"  toy::write(args[{index}], {self.value(field)});"
            for index, field in enumerate(fields, len(kinds))
        ]
        kinds += "t" * len(fields)
        return "\n".join(
            [
                f'extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_{self.symbol}(',
                "    void*, const TVMFFIAny* args, int32_t given, TVMFFIAny*) {",
                f'  if (!toy::fits("{"".join(kinds)}", args, given)) return -1;',
                *self.lines,
                "  return 0;",
                "}",
            ]
        )

    def line(self, kind: str, value: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"  const toy::{kind} {name} = {value};")
        return name

    def body(self, function: relax.Function) -> None:
        for block in function.body.blocks:
            for binding in block.bindings:
                if isinstance(binding.value, relax.Function):
                    assert "Composite" in binding.value.attrs
                    self.composites[binding.var] = binding.value
                else:
                    self.names[binding.var] = self.value(binding.value)

    def value(self, expr: relax.Expr) -> str:
        if isinstance(expr, tvm.ir.Var):
            return self.names[expr]
        if isinstance(expr, tvm.ir.GenericConst):
            return self.constant(expr)
        if isinstance(expr, relax.Tuple):
            return self.line("Tuple", f"{{{', '.join(map(self.value, expr.fields))}}}")
        if isinstance(expr, tvm.ir.TupleGetItem):
            return f"{self.value(expr.tuple_value)}[{expr.index}]"
        assert isinstance(expr, tvm.ir.Call)
        return self.call(expr)

    def constant(self, constant: tvm.ir.GenericConst) -> str:
        content = constant.value.numpy()
        extents = ", ".join(map(str, content.shape))
        values = ", ".join(f"{float(value).hex()}f" for value in content.ravel())
        return self.line("Tensor", f"{{{{{extents}}}, {{{values}}}}}")

    def call(self, call: relax.Call) -> str:
        if call.op in self.composites:
            return self.composite(self.composites[call.op], call.args)
        view = ar.OpView.of(call)
        assert view is not None
        operands = [self.value(arg) for arg in view.args]
        if view.name in _UNARY:
            return self.line(
                "Tensor", f"toy::each({operands[0]}, [](float a) {{ return {_UNARY[view.name]}; }})"
            )
        if view.name in _BINARY:
            f = f"[](float a, float b) {{ return {_BINARY[view.name]}; }}"
            return self.line("Tensor", f"toy::both({operands[0]}, {operands[1]}, {f})")
        if view.name == "relax.matmul":
            return self.line("Tensor", f"toy::matmul({', '.join(operands)})")
        if view.name == "relax.concat":
            return self.line("Tensor", f"toy::concat({operands[0]}, {view.attrs['axis']})")
        assert view.name == "relax.split"
        sections = view.attrs["indices_or_sections"]
        return self.line("Tuple", f"toy::split({operands[0]}, {sections}, {view.attrs['axis']})")

    def composite(self, function: relax.Function, args: Sequence[relax.Expr]) -> str:
        self.names.update(zip(function.params, map(self.value, args), strict=True))
        self.body(function)
        return self.value(function.body.body)
