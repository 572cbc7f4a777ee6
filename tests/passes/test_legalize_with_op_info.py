"""LegalizeWithOpInfo: the code of LegalizeOps, with the ops it was made from written on it."""

import pytest
import tvm
import tvm_ffi
from hypothesis import given
from kits.op_info.op_info_kit import calls, infos_of, module_of, prim_func, tensor
from tvm import relax

import annotated_region as ar
from annotated_region.op_info import Number, Parameter
from annotated_region.op_info.attributes import attributes_of


def bare(mod):
    """The module without the attributes that op info adds."""
    result = mod.clone()
    for global_var, func in mod.functions_items():
        if isinstance(func, tvm.tirx.PrimFunc):
            result.update_func(global_var, func.without_attr("op_info"))
    return result


@given(calls)
def test_the_code_is_that_of_legalize_ops(call):
    mod = module_of(call)
    described = ar.passes.LegalizeWithOpInfo()(mod)
    tvm.ir.assert_structural_equal(bare(described), relax.transform.LegalizeOps()(mod))


@given(calls)
def test_the_info_is_the_call(call):
    (info,) = infos_of(prim_func(ar.passes.LegalizeWithOpInfo()(module_of(call))))
    assert info.name == call.op.name
    assert dict(info.attrs) == attributes_of(call.attrs)
    assert len(info.arg_roles) == len(call.args)


def test_the_attribute_survives_text():
    mod = ar.passes.LegalizeWithOpInfo()(module_of(relax.op.nn.leakyrelu(tensor(2, 3), 0.3)))
    parsed = tvm.script.from_source(mod.script(show_meta=True))
    tvm.ir.assert_structural_equal(parsed, mod)
    assert infos_of(prim_func(parsed)) == infos_of(prim_func(mod))


def test_ops_that_lower_to_the_same_code_stay_apart():
    x = tensor(2, 3)
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            a = builder.emit(relax.op.nn.relu(x))
            b = builder.emit(relax.op.maximum(a, relax.const(0.0, "float32")))
            out = builder.emit_output(relax.op.nn.relu(b))
        builder.emit_func_output(out)
    mod = ar.passes.LegalizeWithOpInfo()(builder.get())
    names = [infos_of(mod[binding.value.args[0]])[0].name for binding in mod["main"].body.blocks[0].bindings]
    assert names == ["relax.nn.relu", "relax.maximum", "relax.nn.relu"]


def test_a_repeated_operand_is_two_parameters():
    x = tensor(2, 3)
    (info,) = infos_of(prim_func(ar.passes.LegalizeWithOpInfo()(module_of(relax.op.add(x, x)))))
    assert [role.source for role in info.arg_roles] == [Parameter(0), Parameter(1)]


def test_a_scalar_that_is_compiled_in_is_a_number():
    call = relax.op.multiply(tensor(2, 3), relax.const(0.5, "float32"))
    (info,) = infos_of(prim_func(ar.passes.LegalizeWithOpInfo()(module_of(call))))
    assert [role.source for role in info.arg_roles] == [Parameter(0), Number(0.5, "float32")]


def test_a_legalization_of_the_user_is_described_too():
    def halve(builder, call):
        return builder.call_te(lambda x: tvm.te.compute(x.shape, lambda *i: x(*i) * 0.25), call.args[0])

    mod = module_of(relax.op.nn.relu(tensor(2, 3)))
    lowered = ar.passes.LegalizeWithOpInfo({"relax.nn.relu": halve})(mod)
    plain = relax.transform.LegalizeOps({"relax.nn.relu": halve})(mod)
    assert tvm_ffi.structural_equal(bare(lowered), plain)
    assert infos_of(prim_func(lowered))[0].name == "relax.nn.relu"
    assert infos_of(prim_func(plain))[0].name == "relax.multiply"


def test_malformed_op_info_is_an_error():
    func = prim_func(relax.transform.LegalizeOps()(module_of(relax.op.exp(tensor(2)))))
    with pytest.raises(ar.OpInfoError, match="this is not op info"):
        ar.op_infos(func.with_attr("op_info", "{"))
