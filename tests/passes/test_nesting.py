"""Modules that are nested too deep for recursion, or hold half an external function: errors of ours."""

import pytest
import tvm
from kits.passes.nested_modules import nested_tuples
from tvm import relax

import annotated_region as ar
from annotated_region.functions.nesting import DEEPEST

VECTOR = relax.TensorType((2,), "float32")


def nested_branches(depth):
    condition, x = relax.Var("c", relax.TensorType((), "bool")), relax.Var("x", VECTOR)
    body = relax.op.tanh(x)
    for number in range(depth + 1):
        var = relax.Var(f"v{number}", VECTOR)
        body = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(var, body)])], var)
        if number < depth:
            body = relax.If(condition, body, relax.SeqExpr([], x))
    func = relax.Function([condition, x], body, VECTOR).with_attr("global_symbol", "main")
    return relax.transform.Normalize()(tvm.IRModule({"main": func}))


@pytest.mark.parametrize("run", [ar.explain, ar.partition])
@pytest.mark.parametrize(("nested", "deep"), [(nested_branches, 200), (nested_tuples, 500)])
def test_depth_has_a_bound(nested, deep, run):
    run(nested(DEEPEST // 2), ["dnnl"])
    with pytest.raises(
        ar.InvalidModuleError, match=r"in function 'main', .* more than 100 branches or tuples"
    ):
        run(nested(deep), ["dnnl"])


def test_a_region_without_symbol_is_named():
    x = relax.Var("x", VECTOR)
    builder = relax.BlockBuilder()
    with builder.function("f", [x], attrs={"Codegen": "dnnl"}, private=True):
        builder.emit_func_output(builder.emit(relax.op.tanh(x)))
    with pytest.raises(
        ar.InvalidModuleError, match="function 'f' has the attribute Codegen, but no global_symbol"
    ):
        ar.build(builder.get())
