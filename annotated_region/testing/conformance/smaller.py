"""Reductions of a failing graph: fewer ops, then smaller extents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import tvm
from tvm import relax

from annotated_region.testing.conformance.modules import (
    bindings_of,
    main_of,
    module_of,
    results_of,
    variables_of,
    with_operands,
)
from annotated_region.tvm_adapter.types import fixed_extents, tensor_type

__all__ = ["parts_of", "size_of", "smaller_of"]


def parts_of(mod: tvm.IRModule, size: int) -> Iterator[tvm.IRModule]:
    """All modules of `size` of the ops; their other operands become parameters."""
    results = set(results_of(mod))
    for chosen in combinations(_steps(mod), size):
        yield _cut_out([binding for step in chosen for binding in step], results)


def smaller_of(mod: tvm.IRModule) -> Iterator[tvm.IRModule]:
    """The module with smaller parameters: all extents of one size become 1 or 2, if the ops allow it."""
    sizes = {extent for param in main_of(mod).params for extent in fixed_extents(param)}
    for size in sorted(sizes, reverse=True):
        for new in (1, 2):
            found = _resized(mod, size, new) if new < size else None
            if found is not None:
                yield found


def _resized(mod: tvm.IRModule, size: int, new: int) -> tvm.IRModule | None:
    """The module with extents of `new` in place of `size`; None if its ops do not allow that."""
    values: dict[relax.Var, relax.Var] = {}
    for param in main_of(mod).params:
        shape = [new if extent == size else extent for extent in fixed_extents(param)]
        values[param] = relax.Var(param.name, relax.TensorType(shape, str(tensor_type(param).dtype)))
    params = list(values.values())
    builder = relax.BlockBuilder()
    bindings = []
    for binding in bindings_of(mod):
        try:
            value = builder.normalize(with_operands(binding.value, values, retyped=True))
        except Exception:  # TVM raises various errors for incompatible shapes
            return None
        values[binding.var] = relax.DataflowVar(binding.var.name, value.ty)
        bindings.append(relax.VarBinding(values[binding.var], value))
    return module_of(params, bindings, {values[var] for var in results_of(mod) if var in values})


def _steps(mod: tvm.IRModule) -> list[list[relax.Binding]]:
    """The ops of a module, each with the bindings that extract the fields of its result."""
    steps: list[list[relax.Binding]] = []
    for binding in bindings_of(mod):
        if isinstance(binding.value, relax.TupleGetItem):
            of = binding.value.tuple_value
            next(step for step in steps if any(each.var == of for each in step)).append(binding)
        else:
            steps.append([binding])
    return steps


def size_of(mod: tvm.IRModule) -> int:
    """The number of ops of a module."""
    return len(_steps(mod))


def _cut_out(bindings: Sequence[relax.Binding], results: set[relax.Var]) -> tvm.IRModule:
    params: dict[relax.Var, relax.Var] = {}
    inside: dict[relax.Var, relax.Var] = {}
    renamed = []
    for binding in bindings:
        for var in variables_of(binding.value):
            if var not in inside:
                params.setdefault(var, relax.Var(var.name, var.ty))
        inside[binding.var] = relax.DataflowVar(binding.var.name, binding.var.ty)
        value = with_operands(binding.value, {**params, **inside})
        renamed.append(relax.VarBinding(inside[binding.var], value))
    taps = {inner for var, inner in inside.items() if var in results}
    return module_of(list(params.values()), renamed, taps)
