"""TVM's nine pattern tables, eighteen models to try them on, and what TVM's own passes make of both."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import tvm
from tvm import relax
from tvm.relax.backend import get_patterns_with_prefix
from tvm.relax.frontend.onnx import from_onnx
from tvm.relax.transform import FuseOpsByPattern, FusionPattern, MergeCompositeFunctions

import annotated_region as ar
from annotated_region.testing.light_models import LIGHT_MODELS, light_module
from kits.family_models import family_model
from kits.family_sizes import FAMILIES
from kits.relax_models import relax_model

__all__ = [
    "FEW_MODELS",
    "MODELS",
    "TABLES",
    "calls_of_generated",
    "composites_in_regions",
    "fused_by_tvm",
    "merged_by_tvm",
    "ops_in_regions",
    "ops_of_composites",
    "prepared",
    "table_of",
]

TABLES = {
    "cublas": "cuda.cublas",
    "cudnn": "cuda.cudnn",
    "cutlass": "cuda.cutlass",
    "hipblas": "rocm.hipblas",
    "nnapi": "contrib.nnapi",
    "coreml": "metal.coreml",
    "openclml": "adreno.clml",
    "example_npu": "contrib.example_npu",
    "tensorrt": "contrib.tensorrt",
}
"""By the prefix of its patterns, the module of TVM's backends that registers a table."""

MODELS: Mapping[str, Callable[[], tvm.IRModule]] = {
    **{name: partial(light_module, name) for name in LIGHT_MODELS},
    **{name: lambda name=name: from_onnx(family_model(name, "small")) for name in FAMILIES},
    **{f"relax_{name}": partial(relax_model, name, "small") for name in ("bert", "gpt2", "llama")},
}
"""Nine light ONNX models, six families as PyTorch exports them, three of them as TVM's modules."""

FEW_MODELS = ("squeezenet", "shufflenet", "mobilenet_v2", "bert", "relax_llama")
"""What the suite runs; all eighteen take minutes."""

Table = Sequence[FusionPattern]


def table_of(target: str) -> Table:
    """The table of a target, in TVM's order."""
    importlib.import_module(f"tvm.relax.backend.{TABLES[target]}")
    table: Table = get_patterns_with_prefix(target)
    return table


def prepared(name: str) -> tvm.IRModule:
    """A model, prepared, with its one function called main."""
    mod = ar.passes.PrepareForInference()(MODELS[name]())
    [(_name, func)] = [each for each in mod.functions.items() if isinstance(each[1], relax.Function)]
    return tvm.IRModule({"main": func.with_attr("global_symbol", "main")})


def fused_by_tvm(
    mod: tvm.IRModule, table: Table, *, binds_constants: bool = True
) -> tuple[Counter[str], tvm.IRModule]:
    """The composites that TVM calls in the main function, by name, and the module."""
    fused = FuseOpsByPattern(table, bind_constants=binds_constants, annotate_codegen=False)(mod)
    called: Counter[str] = Counter()

    def count(expr: relax.Expr) -> None:
        if isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.GlobalVar):
            attributes = fused[expr.op].attrs
            if attributes is not None and "Composite" in attributes:
                called[str(attributes["Composite"])] += 1

    relax.analysis.post_order_visit(fused["main"].body, count)
    return called, fused


def merged_by_tvm(fused: tvm.IRModule) -> int:
    """How many regions TVM's merge leaves of the composites."""
    return calls_of_generated(MergeCompositeFunctions()(fused))


def calls_of_generated(mod: tvm.IRModule) -> int:
    """How often the main function calls functions of code generators."""
    found: list[relax.Expr] = []

    def count(expr: relax.Expr) -> None:
        if isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.GlobalVar):
            attributes = mod[expr.op].attrs
            found.extend([expr] if attributes is not None and "Codegen" in attributes else [])

    relax.analysis.post_order_visit(mod["main"].body, count)
    return len(found)


def composites_in_regions(partitioned: tvm.IRModule) -> Counter[str]:
    """The composites in the external functions that the main function calls, by name."""
    found: Counter[str] = Counter()

    def count(expr: relax.Expr) -> None:
        if isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.GlobalVar):
            func = partitioned[expr.op]
            for block in func.body.blocks if isinstance(func, relax.Function) else ():
                values = [binding.value for binding in block.bindings]
                found.update(
                    str(value.attrs["Composite"]) for value in values if isinstance(value, relax.Function)
                )

    relax.analysis.post_order_visit(partitioned["main"].body, count)
    return found


def ops_in_regions(partitioned: tvm.IRModule) -> int:
    """How many ops the external functions hold that the main function calls, composites among them."""
    return _ops_behind_calls(partitioned, "Codegen")


def ops_of_composites(fused: tvm.IRModule) -> int:
    """How many ops the composites hold that the main function calls."""
    return _ops_behind_calls(fused, "Composite")


def _ops_behind_calls(mod: tvm.IRModule, attribute: str) -> int:
    """How many ops the functions with an attribute hold that the main function calls."""
    found = 0

    def count(expr: relax.Expr) -> None:
        nonlocal found
        found += isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.Op)

    def enter(expr: relax.Expr) -> None:
        if isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.GlobalVar):
            attributes = mod[expr.op].attrs
            if attributes is not None and attribute in attributes:
                relax.analysis.post_order_visit(mod[expr.op].body, count)

    relax.analysis.post_order_visit(mod["main"].body, enter)
    return found
