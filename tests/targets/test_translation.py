"""The walk over external functions that backends share: order, composites, tuples, what is declined."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from tvm import relax, tirx
from tvm.relax import op

from annotated_region.targets.op_view import OpView
from annotated_region.targets.translation import Declined, Translation, flat, require
from annotated_region.tvm_adapter.nodes import Constant

TYPE = relax.TensorType((2, 3), "float32")


class Terms(Translation[str]):
    """Writes each value as a term over the names of the parameters."""

    def converted(self, op: OpView) -> Any:
        name = op.name.removeprefix("relax.")
        if name == "split":
            return (f"first({self.operand(op.args[0])})", None)
        inputs = self.operands(op.args[0]) if name == "concat" else [self.operand(each) for each in op.args]
        return f"{name}({', '.join(inputs)})"

    def constant(self, constant: Constant) -> str:
        return "c"

    def passed_shape(self, extents: Iterable[relax.Expr]) -> str:
        return f"shape{tuple(map(int, extents))}"

    def made(self, value: Any) -> str:
        require(isinstance(value, str), "not computed")
        return str(value)


def translated(function: relax.Function) -> tuple[str, ...]:
    return tuple(
        map(str, flat(Terms().body(function, [str(parameter.name) for parameter in function.params])))
    )


def function_of(x: relax.Var, make: Any) -> relax.Function:
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(make(builder))
        builder.emit_func_output(result)
    return builder.finalize()["main"]


def test_bindings_constants_and_tuples_are_translated_in_order() -> None:
    x = relax.Var("x", TYPE)

    def make(builder: relax.BlockBuilder) -> relax.Expr:
        relu = builder.emit(op.nn.relu(x))
        total = builder.emit(op.add(relu, relax.const(1.0, "float32")))
        return relax.Tuple([builder.emit(op.concat([relu, total])), x])

    assert translated(function_of(x, make)) == ("concat(nn.relu(x), add(nn.relu(x), c))", "x")


def test_composites_are_walked_in_their_place_and_leave_the_scope_as_it_was() -> None:
    x, inner = relax.Var("x", TYPE), relax.Var("inner", TYPE)
    composite = function_of(inner, lambda builder: builder.emit(op.nn.relu(inner)))
    local = relax.Var("local", relax.FuncType([TYPE], TYPE))
    called = relax.Var("called", TYPE)
    again = relax.Var("again", TYPE)
    call = relax.BlockBuilder().normalize(op.sigmoid(x))
    bindings = [
        relax.VarBinding(local, composite),
        relax.VarBinding(called, relax.Call(local, [x])),
        relax.VarBinding(again, call),
    ]
    body = relax.SeqExpr([relax.BindingBlock(bindings)], relax.Tuple([called, again]))
    assert translated(relax.Function([x], body, relax.TupleType([TYPE, TYPE]))) == (
        "nn.relu(x)",
        "sigmoid(x)",
    )


def test_a_result_that_is_not_made_is_declined_where_it_is_used() -> None:
    x = relax.Var("x", TYPE)

    def field(index: int) -> relax.Function:
        def make(builder: relax.BlockBuilder) -> relax.Expr:
            parts = builder.emit(op.split(x, 3, 1))
            return builder.emit(op.nn.relu(builder.emit(relax.TupleGetItem(parts, index))))

        return function_of(x, make)

    assert translated(field(0)) == ("nn.relu(first(x))",)
    with pytest.raises(Declined, match="not computed"):
        translated(field(1))


def test_what_is_no_op_and_no_function_inside_is_declined() -> None:
    x = relax.Var("x", TYPE)
    foreign = relax.Call(relax.ExternFunc("somewhere"), [x], ty_args=[TYPE], ret_ty=TYPE)
    shape = relax.ShapeExpr([tirx.IntImm("int64", 2)])
    with pytest.raises(Declined, match="is not a tensor"):
        Terms().value(shape)
    with pytest.raises(Declined, match="calls neither an op nor a composite"):
        translated(function_of(x, lambda builder: builder.emit(foreign)))
