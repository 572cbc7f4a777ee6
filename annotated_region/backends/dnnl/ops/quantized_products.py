"""Products with quantized weights as one composite: the weights stay packed in the library and in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from tvm import relax
from tvm.relax.dpl import DFPattern, is_const, is_op, is_tuple, wildcard
from tvm.relax.transform import PatternCheckContext

from annotated_region.arrays import array_of
from annotated_region.backends.dnnl.graph import DataType, Kind, TensorId
from annotated_region.backends.dnnl.importer import Importer
from annotated_region.backends.dnnl.ops.checks import first_problem, tensor_problem
from annotated_region.backends.dnnl.ops.registry import TARGET
from annotated_region.backends.dnnl.packed_weight import PackedWeight, Words
from annotated_region.backends.dnnl.parameters import PackedProduct
from annotated_region.backends.dnnl.quantized_product import Numbers, QuantizedProduct, read_product
from annotated_region.targets.rules import register_pattern
from annotated_region.targets.translation import Declined
from annotated_region.tvm_adapter.types import expect

__all__ = ["COMPOSITE", "check", "convert"]

COMPOSITE = "dnnl.quantized_matmul"

Form: TypeAlias = Callable[[], DFPattern]
"""Creates a new pattern at each call."""


def check(context: PatternCheckContext) -> bool | str:
    """Whether the runtime supports the weight."""
    call = expect(relax.Call, context.matched_expr)
    try:
        found = read_product(call, dict(context.matched_bindings.items()))
    except Declined as reason:
        return str(reason)
    return first_problem(
        tensor_problem(type_, what)
        for type_, what in ((found.data.ty, "the left operand"), (call.ty, "the result"))
    )


def convert(importer: Importer, composite: relax.Function, arguments: Sequence[relax.Expr]) -> TensorId:
    """One node, with a constant computed from those of the composite."""
    values: dict[relax.Var, relax.Expr] = dict(zip(composite.params, arguments, strict=True))
    inside = {binding.var: binding.value for block in composite.body.blocks for binding in block.bindings}
    result = composite.body.body
    while isinstance(result, relax.Var):
        result = inside[result]
    found = read_product(expect(relax.Call, result), {**values, **inside})
    weight = _weight(importer, found)
    data = importer.operand(values[found.data] if isinstance(found.data, relax.Var) else found.data)
    graph = importer.graph
    name = f"packed_{len(graph.packed)}"
    graph.packed[name] = weight
    stored = graph.tensor((weight.size,), name, dtype=DataType.UINT8)
    parameters = PackedProduct(
        *(weight.bits, weight.stored_group, weight.depth, weight.columns),
        *(weight.has_zeros, weight.halves),
    )
    shape = (*graph.shape(data)[:-1], weight.columns)
    return graph.add(Kind.PACKED_PRODUCT, (data, stored), shape, parameters)


def _weight(importer: Importer, found: QuantizedProduct) -> PackedWeight:
    zeros = found.zeros
    held = zeros if isinstance(zeros, int) else importer.name_of(zeros.constant)
    scales, words = importer.name_of(found.scales), _words(importer, found.words)
    weight = PackedWeight(words, scales, held, found.depth, found.columns, found.group)
    numbers = {scales: array_of(found.scales.value)}
    if isinstance(held, str) and not isinstance(zeros, int):
        numbers[held] = array_of(zeros.constant.value)
    return replace(weight, halves=weight.fits_halves(numbers.__getitem__))


def _words(importer: Importer, numbers: Numbers) -> Words:
    name = importer.name_of(numbers.constant)
    return Words(name, 4 if numbers.in_pairs else 8, numbers.dtype == "int8")


def _unpacked() -> DFPattern:
    """The two numbers of each byte, side by side."""
    low = is_op("relax.bitwise_and")(is_const(), is_const())
    high = is_op("relax.bitwise_and")(is_op("relax.right_shift")(is_const(), is_const()), is_const())
    return is_op("relax.reshape")(is_op("relax.stack")(is_tuple([low, high])), wildcard())


def _first_of_rows(floats: Form, bounds: int) -> Form:
    """A slice of rows, with axes, begins, ends and optional strides."""
    return lambda: is_op("relax.strided_slice")(floats(), *(wildcard() for _ in range(bounds)))


def _reshaped(floats: Form) -> Form:
    return lambda: is_op("relax.reshape")(floats(), wildcard())


def _patterns() -> Iterator[DFPattern]:
    """All forms; no two share a subpattern, because TVM matches a subpattern with one expression only."""
    words: tuple[Form, ...] = (is_const, _unpacked)
    floats = [form(each) for form in (_dequantized, _shifted) for each in words]
    for whole in (*floats, *map(_reshaped, floats)):
        for rows in (whole, _first_of_rows(whole, 3), _first_of_rows(whole, 4)):
            yield is_op("relax.matmul")(_floats(), is_op("relax.permute_dims")(rows()))


def _floats() -> DFPattern:
    """What is not dequantized: products of bytes are the graph's, which multiplies them as such."""
    return wildcard() & ~_from_bytes() & ~is_op("relax.reshape")(_from_bytes(), wildcard())


def _from_bytes() -> DFPattern:
    return is_op("relax.dequantize")(wildcard(), wildcard(), wildcard())


def _dequantized(words: Form) -> Form:
    return lambda: is_op("relax.dequantize")(words(), is_const(), is_const())


def _shifted(words: Form) -> Form:
    return lambda: is_op("relax.multiply")(
        is_op("relax.subtract")(is_op("relax.astype")(words()), is_const()), is_const()
    )


for _pattern in _patterns():
    register_pattern(TARGET, COMPOSITE, _pattern, check)
