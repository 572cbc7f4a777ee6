"""Composites that TVM's ``FuseOpsByPattern`` has made: inlined at their calls, and kept as units.

    lv = cls.fused_relax_matmul_relax_add(x, w, b)    ->    lv_lv = R.matmul(x, w)
         # "Composite": "cublas.matmul_bias"                lv    = R.add(lv_lv, b)      one unit of cublas

The ops are inlined into the caller, so that other targets and the host may run them individually; the
target in the composite's name may claim them all or none. A function with a ``Codegen`` attribute is a region
already, and stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import tvm
from tvm import relax

from annotated_region.expr_map import ExprMap
from annotated_region.functions.rewriting import replace_operands
from annotated_region.functions.shape_variables import with_shapes_of
from annotated_region.op_info.raising import LoweredCalls, bindings_in_blocks
from annotated_region.tvm_adapter.types import expect

__all__ = ["GivenComposite", "GivenComposites"]

_OF_TVM = frozenset(("Composite", "Primitive", "global_symbol"))


@dataclass(frozen=True, slots=True)
class GivenComposite:
    """One call of a composite.

    Attributes
    ----------
    name
        Its name, such as ``"cublas.matmul_bias"``.
    attributes
        The attributes of its function, without those that TVM gives every composite.
    """

    name: str
    attributes: Mapping[str, object]

    @property
    def target(self) -> str:
        """The target: the part of the name before the first dot, by TVM's convention."""
        return self.name.partition(".")[0]


@dataclass(frozen=True, slots=True)
class GivenComposites:
    """The calls of composites in a function.

    Attributes
    ----------
    calls
        The calls, with the bindings that replace them.
    of
        The composite that each call calls, by the variable of the call.
    """

    calls: LoweredCalls
    of: Mapping[relax.Var, GivenComposite]

    @staticmethod
    def in_function(func: relax.Function, mod: tvm.IRModule) -> GivenComposites:
        """Find all calls of composites in `func`, a function of `mod`. Linear in the inlined function."""
        bindings: dict[relax.Var, tuple[relax.VarBinding, ...]] = {}
        found: dict[relax.Var, GivenComposite] = {}
        for block, binding in bindings_in_blocks(func.body):
            callee = _composite_called(binding.value, mod)
            if callee is None or not isinstance(binding, relax.VarBinding):
                continue
            kind = relax.DataflowVar if isinstance(block, relax.DataflowBlock) else relax.Var
            bindings[binding.var] = tuple(_opened(binding, callee, kind))
            further = {key: value for key, value in callee.attrs.items() if key not in _OF_TVM}
            found[binding.var] = GivenComposite(str(callee.attrs["Composite"]), further)
        return GivenComposites(LoweredCalls(func, bindings), found)


def _composite_called(value: relax.Expr, mod: tvm.IRModule) -> relax.Function | None:
    """The composite that a value calls, if its body is straight-line code that returns its last binding."""
    if not isinstance(value, relax.Call) or not isinstance(value.op, tvm.ir.GlobalVar):
        return None
    callee = mod[value.op]
    if not isinstance(callee, relax.Function) or not callee.attrs or "Composite" not in callee.attrs:
        return None
    bindings = [binding for block in callee.body.blocks for binding in block.bindings]
    is_straight = all(
        isinstance(binding, relax.VarBinding) and not isinstance(binding.value, relax.If | relax.Function)
        for binding in bindings
    )
    ends = bool(bindings) and callee.body.body.same_as(bindings[-1].var)
    return callee if is_straight and ends and "Codegen" not in callee.attrs else None


def _opened(
    binding: relax.VarBinding, callee: relax.Function, kind: type[relax.Var]
) -> Iterator[relax.VarBinding]:
    """The bindings of a composite on fresh variables; the last one binds the variable of the call."""
    args = expect(relax.Call, binding.value).args
    func = with_shapes_of(callee, args)
    here: ExprMap[relax.Expr] = ExprMap(zip(func.params, args, strict=True))
    inner = [each for block in func.body.blocks for each in block.bindings]
    for each in inner:
        value = replace_operands(each.value, lambda expr: here.get(expr, expr))
        is_last = each is inner[-1]
        var = (
            binding.var
            if is_last
            else kind(f"{binding.var.name}_{each.var.name}", each.var.ty, each.var.span)
        )
        here[each.var] = var
        yield relax.VarBinding(var, value)
