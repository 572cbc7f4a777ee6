"""A backend from nothing: float32 ops element by element become one C++ loop a region.

Rules and a pattern say what it claims, `generate` translates regions, and `register` tells annotated-region;
the entry point in ``pyproject.toml`` has it called wherever the package is installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import tvm
import tvm_ffi
from tvm import relax
from tvm.relax.dpl import is_op, wildcard

import annotated_region as ar

__all__ = ["DEVICE", "NAME", "register"]

NAME = "my_backend"
OPS = {
    "relax.add": "{0} + {1}",
    "relax.multiply": "{0} * {1}",
    "relax.nn.relu": "{0} > 0 ? {0} : 0",
}
DEVICE = ar.Device(flops=4e9, bandwidth=1e10)
"""What it can do, for `ar.RooflineCost({NAME: DEVICE})`: one plain loop on one core."""


def rule(op: ar.OpView) -> bool | str:
    """Whether `generate` can translate an op; the text is what `explain` shows."""
    types = [op.out_tensor, *(op.arg_tensor(index) for index in range(len(op.args)))]
    if any(str(ty.dtype) != "float32" for ty in types):
        return "only float32"
    shape = types[0].shape
    if any(ty.shape is None or not tvm_ffi.structural_equal(ty.shape, shape) for ty in types):
        return "operands of other shapes"
    if not isinstance(shape, relax.ShapeExpr) or not all(
        isinstance(extent, tvm.tirx.IntImm) for extent in shape.values
    ):
        return "a shape that is not known before it runs"
    return True


def check(match: Any) -> bool | str:
    """Whether both ops of a match of the pattern can be translated; answers as a rule does."""
    views = (ar.OpView.of(call) for call in (match.annotated_expr["add"], match.matched_expr))
    return next((answer for view in views if view and (answer := rule(view)) is not True), True)


def generate(
    functions: Sequence[relax.Function], options: Mapping[str, Any], _constants: Mapping[Any, str]
) -> list[tvm.runtime.Module]:
    """The C++ of some regions; `options` comes from ``ar.build(..., options={NAME: {...}})``."""
    symbols = [str(function.attrs["global_symbol"]) for function in functions]
    pragma = '#pragma GCC optimize("fast-math")\n' if options.get("fast") else ""
    loops = [loop(symbol, function) for symbol, function in zip(symbols, functions, strict=True)]
    text = pragma + "#include <tvm/ffi/tvm_ffi.h>\n" + "\n".join(loops)
    return [tvm.get_global_func("runtime.CSourceModuleCreate")(text, "cc", symbols, [])]


def loop(symbol: str, function: relax.Function) -> str:
    """One region: parameters are the inputs, then come the outputs, and everything has the same shape."""
    result = function.body.body
    results: list[Any] = list(result.fields) if isinstance(result, relax.Tuple) else [result]
    views = [f"in{i}" for i in range(len(function.params))] + [f"out{i}" for i in range(len(results))]
    names: dict[relax.Expr, str] = {
        param: f"static_cast<const float*>(in{i}.data_ptr())[i]" for i, param in enumerate(function.params)
    }
    lines = body(function, names)
    lines += [f"static_cast<float*>(out{i}.data_ptr())[i] = {names[var]};" for i, var in enumerate(results)]
    size = prod(int(extent) for extent in results[0].ty.shape)
    params = ", ".join(f"tvm::ffi::TensorView {view}" for view in views)
    return (
        f"static void {symbol}_loop({params}) {{\n  for (int64_t i = 0; i < {size}; ++i) {{\n    "
        + "\n    ".join(lines)
        + f"\n  }}\n}}\nTVM_FFI_DLL_EXPORT_TYPED_FUNC({symbol}, {symbol}_loop)"
    )


def body(function: relax.Function, names: dict[relax.Expr, str]) -> list[str]:
    """A line for each op, and what it is called in `names`; composites are functions called inside."""
    lines: list[str] = []
    inner: dict[relax.Expr, relax.Function] = {}
    for binding in (binding for block in function.body.blocks for binding in block.bindings):
        var, value = binding.var, binding.value
        callee: Any = value.op if isinstance(value, relax.Call) else None
        if isinstance(value, relax.Function):
            inner[var] = value
        elif not isinstance(value, relax.Call):
            names[var] = names[value]
        elif callee in inner:
            composite = inner[callee]
            names.update((param, names[arg]) for param, arg in zip(composite.params, value.args, strict=True))
            lines += body(composite, names)
            names[var] = names[composite.body.body]
        else:
            names[var] = f"v{len(names)}"
            operation = OPS[callee.name].format(*(names[arg] for arg in value.args))
            lines.append(f"const float {names[var]} = {operation};")
    return lines


def build_options() -> ar.BuildOptions:
    """Where the compiler finds TVM's headers."""
    folders = (tvm_ffi.libinfo.find_include_path(), tvm_ffi.libinfo.find_dlpack_include_path())
    return ar.BuildOptions(("-std=c++17", "-O2", *(f"-I{folder}" for folder in folders)))


def register() -> None:
    """Make the target known; the entry point calls this."""
    ar.register_backend(NAME, build_options=build_options, bind_constants=False, regions="connected")
    for op in OPS:
        ar.register_rule(NAME, op)(rule)
    add = is_op("relax.add")(wildcard(), wildcard())
    ar.register_pattern(NAME, f"{NAME}.add_relu", is_op("relax.nn.relu")(add), check, {"add": add})
    tvm_ffi.register_global_func(f"relax.ext.{NAME}", generate, override=True)
