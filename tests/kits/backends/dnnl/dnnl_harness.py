"""Builds graphs for oneDNN and for TVM alone, so that both can be run and compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import tvm
from tvm import relax

import annotated_region as ar
from annotated_region.backends.dnnl import installation
from annotated_region.host_targets import UNOPTIMIZED
from kits.backends import relax_kit
from kits.backends.dnnl.dnnl_cases import module_of
from kits.backends.dnnl.dnnl_transformer_cases import CASES
from kits.backends.relax_kit import var
from kits.host_machines import host_machine

__all__ = [
    "ConstantNames",
    "Offloaded",
    "add_function",
    "all_cases",
    "all_cases_on_host",
    "answered",
    "external_functions",
    "joined",
    "needs_onednn",
    "offload",
    "ops_on_host",
    "run",
    "single",
    "tvm_alone",
]

needs_onednn = pytest.mark.skipif(
    installation.unavailable() is not None, reason=str(installation.unavailable())
)
"""Skips one test where oneDNN is not installed."""


class ConstantNames(dict[object, str]):
    """Names constants as TVM does, on the fly."""

    def __missing__(self, constant: object) -> str:
        self[constant] = f"const_{len(self)}"
        return self[constant]


@dataclass(frozen=True, slots=True)
class Offloaded:
    """A module whose graphs run on oneDNN.

    Attributes
    ----------
    module
        The partitioned module.
    linked
        The linked library.
    machine
        A virtual machine with the library loaded.
    """

    module: tvm.IRModule
    linked: tvm.runtime.Module
    machine: relax.VirtualMachine

    def call(self, name: str, *arrays: np.ndarray) -> list[np.ndarray]:
        """Run one function."""
        return run(self.machine, name, arrays)

    def query(self, symbol: str, what: str) -> object:
        """What the runtime tells of an external function: its ``plan`` or its ``plan_count``."""
        return self.linked.get_function(f"{symbol}__{what}", query_imports=True)()

    def plan(self, symbol: str) -> list[str]:
        """The primitives of the plan that ran last."""
        return str(self.query(symbol, "plan")).splitlines()

    def symbols_of(self, name: str) -> list[str]:
        """The external functions that a function calls."""
        externals = external_functions(self.module)
        return [
            str(binding.value.op.name_hint)
            for block in self.module[name].body.blocks
            for binding in block.bindings
            if isinstance(binding.value, relax.Call)
            and isinstance(binding.value.op, tvm.ir.GlobalVar)
            and binding.value.op.name_hint in externals
        ]


def external_functions(module: tvm.IRModule) -> list[str]:
    """The names of the external functions of a module."""
    return [
        str(variable.name_hint)
        for variable, function in module.functions.items()
        if isinstance(function, relax.Function) and function.attrs and "Codegen" in function.attrs
    ]


def offload(module: tvm.IRModule, **options: object) -> Offloaded:
    """Partition a module for oneDNN, build and load it."""
    partitioned = ar.partition(module, ["dnnl"], prepare=False)
    library = ar.build(partitioned, UNOPTIMIZED, options={"dnnl": options} if options else None).jit()
    return Offloaded(partitioned, library, relax.VirtualMachine(library, tvm.cpu()))


def answered(
    function: Callable[..., relax.Expr], *given: np.ndarray, prepare: bool = False
) -> tuple[list[np.ndarray], str]:
    """What a function computes as one region, and the plan by which it does."""
    params = [var(f"x{place}", each.shape) for place, each in enumerate(given)]
    mod = relax_kit.module(params, lambda _builder: function(*params))
    built = offload(ar.partition(mod, ["dnnl"], prepare=prepare))
    (symbol,) = built.symbols_of("main")
    return built.call("main", *given), "\n".join(built.plan(symbol))


def run(machine: relax.VirtualMachine, name: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of a function, as arrays."""
    result = machine[name](*(tvm.runtime.tensor(array) for array in arrays))
    parts = result if isinstance(result, tuple | list) or hasattr(result, "__len__") else [result]
    return [result.numpy()] if hasattr(result, "numpy") else [part.numpy() for part in parts]


def single(parameters: Sequence[relax.Var], result: relax.Expr, name: str = "main") -> tvm.IRModule:
    """A module with one function."""
    builder = relax.BlockBuilder()
    with builder.function(name, list(parameters)):
        with builder.dataflow():
            output = builder.emit_output(result)
        builder.emit_func_output(output)
    return builder.finalize()


def add_function(
    builder: relax.BlockBuilder, name: str, params: Sequence[relax.Var], make: Callable[..., relax.Expr]
) -> None:
    """Add a function of these parameters to the module that a builder makes."""
    with builder.function(name, list(params)):
        with builder.dataflow():
            output = builder.emit_output(builder.normalize(make(*params)))
        builder.emit_func_output(output)


def joined(modules: Sequence[tvm.IRModule]) -> tvm.IRModule:
    """One module with the ``main`` of each as ``case0``, ``case1``, ...: one library is linked, not many."""
    assert all(len(mod.functions) == 1 for mod in modules)
    mains = {f"case{place}": mod["main"] for place, mod in enumerate(modules)}
    return tvm.IRModule({name: main.with_attr("global_symbol", name) for name, main in mains.items()})


@cache
def all_cases() -> Offloaded:
    """All cases on oneDNN, compiled once."""
    return offload(module_of(CASES))


@cache
def all_cases_on_host() -> relax.VirtualMachine:
    """All cases on TVM alone, compiled once."""
    return tvm_alone(module_of(CASES))


def ops_on_host(module: tvm.IRModule, name: str = "main") -> set[str]:
    """The Relax ops that a function of a partitioned module computes itself."""
    found: set[str] = set()

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.Op):
            found.add(str(expr.op.name).removeprefix("relax."))

    relax.analysis.post_order_visit(module[name], visit)
    return found


def tvm_alone(module: tvm.IRModule) -> relax.VirtualMachine:
    """A module without offload, compiled in little time and therefore slow."""
    return host_machine(module)
