"""The graphs of the kit as modules: construction from bindings, seeded inputs, and types."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import tvm
from tvm import relax

from annotated_region.tvm_adapter.types import expect, fixed_extents, tensor_type

__all__ = [
    "bindings_of",
    "declared_types",
    "inputs_of",
    "main_of",
    "module_of",
    "numbers",
    "results_of",
    "types_of",
    "variables_of",
    "with_operands",
]


def main_of(mod: tvm.IRModule) -> relax.Function:
    """The function called main."""
    return expect(relax.Function, mod["main"])


def bindings_of(mod: tvm.IRModule) -> list[relax.Binding]:
    """The bindings of main, in order."""
    return [binding for block in main_of(mod).body.blocks for binding in block.bindings]


def module_of(
    params: Sequence[relax.Var], bound: Sequence[relax.Binding], taps: Collection[relax.Var] = ()
) -> tvm.IRModule:
    """A module that returns all unused values, and those in `taps`."""
    read = {var for binding in bound for var in variables_of(binding.value)}
    leaving = [binding.var for binding in bound if binding.var not in read or binding.var in taps]
    results = [relax.Var(var.name, var.ty) for var in leaving]
    renamed = dict(zip(leaving, results, strict=True))
    bindings = []
    for binding in bound:
        tapped = renamed.keys() & set(variables_of(binding.value))
        value = with_operands(binding.value, _only(renamed, binding.value)) if tapped else binding.value
        bindings.append(relax.VarBinding(renamed.get(binding.var, binding.var), value))
    body = relax.Tuple(results) if len(results) > 1 else results[0]
    block = relax.SeqExpr([relax.DataflowBlock(bindings)], body)
    ty = relax.TupleType([var.ty for var in results]) if len(results) > 1 else results[0].ty
    function = relax.Function(list(params), block, ty).with_attr("global_symbol", "main")
    return relax.transform.Normalize()(tvm.IRModule({"main": function}))


def _only(renamed: Mapping[relax.Var, relax.Var], value: relax.Expr) -> dict[relax.Var, relax.Var]:
    return {var: renamed.get(var, var) for var in variables_of(value)}


def variables_of(value: relax.Expr) -> list[relax.Var]:
    """The variables that a call or a field of a tuple reads."""
    if isinstance(value, relax.TupleGetItem):
        return [expect(relax.Var, value.tuple_value)]
    return _variables_in(expect(relax.Call, value).args)


def results_of(mod: tvm.IRModule) -> list[relax.Var]:
    """The results of main."""
    return _variables_in([main_of(mod).body.body])


def _variables_in(values: Sequence[relax.Expr]) -> list[relax.Var]:
    fields = [
        part for value in values for part in (value.fields if isinstance(value, relax.Tuple) else [value])
    ]
    return [part for part in fields if isinstance(part, relax.Var)]


def with_operands(value: relax.Expr, new: Mapping[relax.Var, relax.Var], retyped: bool = False) -> relax.Expr:
    """The value with operands replaced; keeps its type unless `retyped`, which leaves it to inference."""
    if isinstance(value, relax.TupleGetItem):
        return relax.TupleGetItem(_replaced(value.tuple_value, new), value.index)
    call = expect(relax.Call, value)
    args = [_replaced(arg, new) for arg in call.args]
    return relax.Call(call.op, args, call.attrs, call.ty_args, ret_ty=None if retyped else call.ty)


def _replaced(arg: relax.Expr, new: Mapping[relax.Var, relax.Var]) -> relax.Expr:
    if isinstance(arg, relax.Tuple):
        return relax.Tuple([_replaced(part, new) for part in arg.fields])
    return new[arg] if isinstance(arg, relax.Var) else arg


# -- numbers and types -----------------------------------------------------------------------------


def inputs_of(mod: tvm.IRModule) -> list[np.ndarray]:
    """Seeded numbers for each parameter, of the kind that is encoded in its name."""
    random = np.random.default_rng(0)
    return [
        numbers(random, fixed_extents(param), param.name, str(tensor_type(param).dtype))
        for param in main_of(mod).params
    ]


def numbers(random: np.random.Generator, shape: Sequence[int], kind: str, dtype: str) -> np.ndarray:
    """Numbers of order one; `kind` begins with "positive", "unit", "below_N_", or anything else."""
    limit = re.match(r"below_(\d+)_", kind)
    values: np.ndarray
    if limit:
        values = random.integers(0, int(limit[1]), shape)
    elif not dtype.startswith("float"):
        low = 1 if kind.startswith("positive") else 0 if dtype in ("uint8", "bool") else -4
        values = random.integers(low, 2 if dtype == "bool" else 5, shape)
    elif kind.startswith("positive"):
        values = random.uniform(0.5, 1.5, shape)
    elif kind.startswith("unit"):
        values = random.uniform(-0.9, 0.9, shape)
    else:
        values = random.standard_normal(shape)
    return np.asarray(values).astype(dtype)


def types_of(mod: tvm.IRModule) -> set[str]:
    """The data types of a graph's parameters and op results."""
    values = [*main_of(mod).params, *(binding.var for binding in bindings_of(mod))]
    tys = [part for value in values for part in _parts(value.ty)]
    return {str(ty.dtype) for ty in tys if isinstance(ty, relax.TensorType)}


def _parts(ty: tvm.ir.Type) -> Sequence[tvm.ir.Type]:
    return list(ty.fields) if isinstance(ty, tvm.ir.TupleType) else [ty]


def declared_types(mod: tvm.IRModule) -> list[str]:
    """The declared data types of a graph's results."""
    return [str(expect(relax.TensorType, part).dtype) for part in _parts(main_of(mod).ret_ty)]
