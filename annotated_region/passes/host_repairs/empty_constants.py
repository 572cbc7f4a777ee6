"""Makes constants without elements when the function runs, because TVM cannot load a library that holds some.

::

    lv = concat((constant of (2, 4, 0), x), axis=2)    =>    nothing = zeros((2, 4, 0), dtype="float32")
                                                             lv = concat((nothing, x), axis=2)

TVM 0.27.0 writes a constant of the shape (2, 0) into a library that it refuses to load ("Invalid DLTensor
file format"). The repair can go with the first TVM for which
``tests/passes/host_repairs/test_empty_constants.py`` passes without it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tvm import relax

from annotated_region.functions.rewriting import FunctionRewriter, rebind, replace_operands, typed
from annotated_region.passes.preparation.tensors import dtype_of, static_shape
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import expect

__all__ = ["without_empty_constants"]


def without_empty_constants(function: relax.Function) -> relax.Function:
    """The function with its constants without elements made at its beginning; itself if it has none."""
    making = _Making()
    rewriter = FunctionRewriter(making.bindings, making.made)
    rebuilt = rewriter.function(function)
    if rebuilt.same_as(function):
        return function
    body = expect(relax.SeqExpr, rebuilt.body)
    blocks = [relax.BindingBlock(making.beginning()), *body.blocks]
    whole = typed(relax.SeqExpr(blocks, body.body, body.span), body.ty)
    return relax.Function(
        function.params, whole, function.ret_ty, function.is_pure, function.attrs, function.span
    )


class _Making:
    def __init__(self) -> None:
        self._builder = relax.BlockBuilder()
        self._variables: dict[tuple[tuple[int, ...], str], relax.VarBinding] = {}

    def beginning(self) -> list[relax.VarBinding]:
        """What makes the constants, each once."""
        return list(self._variables.values())

    def bindings(self, block: relax.BindingBlock, rewriter: FunctionRewriter) -> Iterator[relax.Binding]:
        for binding in block.bindings:
            yield rebind(binding, replace_operands(rewriter.nested(binding.value), self.made))

    def made(self, expr: relax.Expr) -> relax.Expr:
        """The variable that stands for a constant without elements; any other value itself."""
        shape, dtype = static_shape(expr.ty), dtype_of(expr.ty)
        if not isinstance(expr, Constant) or shape is None or 0 not in shape or dtype is None:
            return expr
        if (shape, dtype) not in self._variables:
            value = self._builder.normalize(relax.op.zeros(shape, dtype))
            variable = relax.Var(f"nothing_{len(self._variables)}", value.ty)
            self._variables[shape, dtype] = relax.VarBinding(variable, value)
        return self._variables[shape, dtype].var
