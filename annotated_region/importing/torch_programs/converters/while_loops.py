"""`torch.while_loop`, as a function of Relax for a step, and functions that repeat it.

A step is the body, and the condition behind it. PyTorch demands that carried values keep their shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tvm import relax, tirx

from annotated_region.errors import ModelError
from annotated_region.functions.shape_variables import types_with
from annotated_region.importing.nested_builder import NestedBuilder
from annotated_region.importing.repetition import LoopBody, Made, repeated
from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import TorchNode, is_tensor
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import expect, shape_vars_of

if TYPE_CHECKING:
    from torch import fx

__all__ = ["while_loop"]


@converts("while_loop")
def while_loop(node: TorchNode) -> relax.Expr:
    """The carried values behind the last step."""
    condition, body = (node.argument(place) for place in (0, 1))
    carried, given = (_tensors(node, node.argument(place)) for place in (2, 3))
    outer = list(dict.fromkeys(each for value in (*carried, *given) for each in shape_vars_of(value.ty)))
    inner = {each: tirx.Var(each.name, "int64") for each in outer}
    read = [value for value in given if not isinstance(value, Constant)]
    types = types_with([value.ty for value in (*read, *carried)], inner)
    params = [relax.Var(f"value_{place}", ty) for place, ty in enumerate(types)]
    state, by_value = params[len(read) :], iter(params)
    inside = [value if isinstance(value, Constant) else next(by_value) for value in given]
    extents = relax.Var("extents", relax.ShapeType(list(inner.values())))
    number = relax.Var("step", relax.TensorType((), "int64"))
    builder = NestedBuilder(node.importer.block_builder)
    with builder.nested([extents, *params[: len(read)], number, *state]):
        with builder.dataflow():
            behind = _converted(node, builder, body, [*state, *inside])
            goes_on = _condition(node, builder, condition, [*behind, *inside])
            following = builder.emit(relax.op.add(number, relax.const(1, "int64")))
            result = builder.emit_output(relax.Tuple([following, goes_on, *behind]))
        func = builder.finished(result)
    step = LoopBody(func, len(read), len(carried), [])
    _require_kept(step, state)
    around = node.importer.block_builder
    goes_on = _condition(node, around, condition, [*carried, *given])
    first = Made(relax.const(0, "int64"), goes_on, carried, [])
    return node.emit(relax.Tuple(repeated(around, step, [relax.ShapeExpr(outer), *read], first)))


def _tensors(node: TorchNode, values: object) -> list[relax.Expr]:
    """The operands of a loop; numbers and extents as tensors."""
    found: list[relax.Expr] = []
    for value in values if isinstance(values, list) else ():
        dtype = "bool" if isinstance(value, bool) else "float32" if isinstance(value, float) else "int64"
        tensor = value if is_tensor(value) else node.number_as_tensor(value, dtype)
        if tensor is None:
            raise ModelError(f"a loop carries or reads what is no tensor, {value}")
        found.append(tensor)
    return found


def _condition(
    node: TorchNode, builder: relax.BlockBuilder, graph: Any, operands: Sequence[relax.Expr]
) -> relax.Expr:
    """Whether a loop goes on."""
    (found,) = _converted(node, builder, graph, operands)
    return builder.emit(relax.op.reshape(found, []))


def _converted(
    node: TorchNode, builder: relax.BlockBuilder, graph: fx.GraphModule, operands: Sequence[relax.Expr]
) -> list[relax.Expr]:
    """The results of a graph of a loop, emitted by a builder."""
    importer, values = node.importer, iter(operands)
    before = importer.env, importer.block_builder
    importer.env, importer.block_builder = {}, builder
    try:
        for each in graph.graph.nodes:
            match each.op:
                case "placeholder":
                    importer.env[each] = next(values)
                case "get_attr":
                    importer.env[each] = getattr(graph, each.target)
                case "call_function":
                    name = each.target.__name__
                    importer.env[each] = importer.convert_map[name](each, importer)
        (results,) = importer.retrieve_args(graph.graph.output_node())
        several = results if isinstance(results, list | tuple) else [results]
        return [expect(relax.Expr, each) for each in several]
    finally:
        importer.env, importer.block_builder = before


def _require_kept(step: LoopBody, state: Sequence[relax.Var]) -> None:
    """Raise `ModelError` if a step changes the type of a carried value."""
    behind = expect(relax.TupleType, step.func.ret_ty).fields[2 : 2 + len(state)]
    for value, ty in zip(state, behind, strict=True):
        # What is no more than unproved is checked in each call.
        if relax.analysis.type_base_check(value.ty, ty) < relax.analysis.BaseCheckResult.FAIL_L2:
            raise ModelError(f"a step of a loop makes {ty} of {value.ty}")
