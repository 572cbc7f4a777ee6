"""Proposes elementwise ops with broadcasting.

Ops are recognized by their expressions, which are obtained from TVM: each op is lowered once on a small
tensor and stored under its skeleton, that is, its blocks without indices and numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import permutations
from typing import TypeAlias

from tvm import relax

from annotated_region.op_info.infer.segment import Segment, lower
from annotated_region.op_info.loops import NotNormalError, Program, read_program
from annotated_region.op_info.loops.trees import Tree, commuted
from annotated_region.tvm_adapter.types import tensor_type

__all__ = ["read_elementwise"]

_UNARY = """
    nn.relu sigmoid tanh exp log sqrt rsqrt negative abs nn.gelu nn.gelu_tanh nn.silu nn.selu square erf ceil
    floor round trunc sign cos sin tan cosh sinh acos asin atan acosh asinh atanh isfinite isinf isnan
    logical_not bitwise_not
"""
_BINARY = """
    add subtract multiply divide power maximum minimum floor_divide mod floor_mod atan2 log_add_exp equal
    not_equal less less_equal greater greater_equal logical_and logical_or logical_xor bitwise_and bitwise_or
    bitwise_xor left_shift right_shift
"""
_DOMAINS = {
    "log_add_exp": ("float", "bfloat"),
    # Of integers, the code of these is a copy.
    **dict.fromkeys(("ceil", "floor", "round", "trunc"), ("float", "bfloat")),
    **dict.fromkeys(("logical_not", "logical_and", "logical_or"), ("bool",)),
    **dict.fromkeys(("left_shift", "right_shift"), ("int", "uint")),
    **dict.fromkeys(
        ("logical_xor", "bitwise_not", "bitwise_and", "bitwise_or", "bitwise_xor"), ("int", "uint", "bool")
    ),
}
"""Prefixes of the operand dtypes that are tried; TVM prints warnings when it rejects other dtypes."""

Numbers: TypeAlias = tuple[float, ...]
Maker: TypeAlias = Callable[[tuple[relax.Expr, ...], Numbers], relax.Call]
SAMPLE = 0.40625


def _function(name: str) -> Callable[..., relax.Call]:
    owner: object = relax.op
    for part in name.split("."):
        owner = getattr(owner, part)
    assert callable(owner)
    return owner


def _scalar(like: relax.Expr, number: float) -> relax.Expr:
    return relax.const(number, str(tensor_type(like).dtype))


def _makers(dtype: str) -> Iterator[tuple[int, int, Maker]]:
    """The calls of ops on such tensors: the number of tensors, the number of numbers, and the constructor."""
    for f in _functions(_UNARY, dtype):
        yield 1, 0, lambda x, _, f=f: f(x[0])  # type: ignore[misc]
    binary = _functions(_BINARY, dtype)
    for f in binary:
        yield 2, 0, lambda x, _, f=f: f(x[0], x[1])  # type: ignore[misc]
        yield 1, 0, lambda x, _, f=f: f(x[0], x[0])  # type: ignore[misc]
        yield 1, 1, lambda x, n, f=f: f(x[0], _scalar(x[0], n[0]))  # type: ignore[misc]
    for f in binary:
        yield 1, 1, lambda x, n, f=f: f(_scalar(x[0], n[0]), x[0])  # type: ignore[misc]
    yield 1, 1, lambda x, n: relax.op.nn.leakyrelu(x[0], n[0])
    yield 1, 2, lambda x, n: relax.op.clip(x[0], n[0], n[1])
    yield 1, 1, lambda x, n: relax.op.nn.softplus(x[0], 1.0, n[0])  # the product with 1 is not in the code
    yield 1, 2, lambda x, n: relax.op.nn.softplus(x[0], n[0], n[1])
    yield 3, 0, lambda x, _: relax.op.where(x[0], x[1], x[2])


def _functions(names: str, dtype: str) -> list[Callable[..., relax.Call]]:
    return [_function(name) for name in names.split() if dtype.startswith(_DOMAINS.get(name, ""))]


def read_elementwise(segment: Segment) -> Iterator[relax.Call]:
    """Calls of the ops with the skeleton of the segment, for each order of its inputs and numbers."""
    tensors = segment.inputs
    if len(segment.outputs) != 1 or not 1 <= len(tensors) <= 3 or any(b.reduction for b in segment.blocks):
        return
    if len(tensors) == 1 and segment.outputs[0].dtype != tensors[0].dtype:
        yield relax.op.astype(segment.variables[0], segment.outputs[0].dtype)
    orders = list(permutations(segment.variables))
    tables = [_table(tuple(str(tensor_type(x).dtype) for x in order)) for order in orders]
    stores = sum(len(block.stores) for block in segment.blocks)
    if not any(len(skeleton) == stores for table in tables for skeleton in table):
        return  # most segments are longer than any of these ops
    wanted = _skeleton(segment.program)
    for order, table in zip(orders, tables, strict=True):
        for count, make in table.get(wanted, ()):
            is_float = "float" in str(tensor_type(order[0]).dtype)
            numbers = [float(number) if is_float else number for number in segment.constants]
            for chosen in permutations(numbers, count) if count < 2 or len(numbers) > 1 else ():
                yield make(order, chosen)


@cache
def _table(dtypes: tuple[str, ...]) -> dict[Tree, list[tuple[int, Maker]]]:
    """The ops on tensors of these dtypes, by skeleton; ops without numbers come first."""
    samples = tuple(
        relax.Var(f"x{index}", relax.TensorType((2, 3), dtype)) for index, dtype in enumerate(dtypes)
    )
    table: dict[Tree, list[tuple[int, Maker]]] = {}
    makers = [entry for entry in _makers(dtypes[0]) if entry[0] == len(dtypes)]
    for _, count, make in sorted(makers, key=lambda entry: entry[1]):
        skeleton = _sampled(samples, count, make)
        if skeleton is not None:
            table.setdefault(skeleton, []).append((count, make))
    return table


def _sampled(samples: tuple[relax.Var, ...], count: int, make: Maker) -> Tree | None:
    is_float = "float" in str(tensor_type(samples[0]).dtype)
    numbers = tuple((index + 1) * (SAMPLE if is_float else 3) for index in range(count))
    try:
        lowered = lower(make(samples, numbers))
        return None if lowered is None else _skeleton(read_program(lowered[1]))
    except (NotNormalError, TypeError, ValueError, RuntimeError):
        return None  # not an op for these dtypes


def _skeleton(program: Program) -> Tree:
    names: dict[int, int] = {}
    skeleton = []
    for block in program.blocks:
        for store in block.stores:
            skeleton.append(_bare(store.value, names))
            if store.buffer is not None:
                names.setdefault(store.buffer, len(names))
    return tuple(skeleton)


def _bare(tree: Tree, names: dict[int, int]) -> Tree:
    """The tree without indices and numbers."""
    match tree[0]:
        case "load":
            return ("load", names.setdefault(tree[1], len(names)))
        case "float" | "int":
            return ("number", tree[1])
        case "linear":
            return ("linear",)
    return commuted(tuple(_bare_part(part, names) for part in tree))


def _bare_part(part: object, names: dict[int, int]) -> object:
    if not isinstance(part, tuple):
        return part
    if part and isinstance(part[0], str):
        return _bare(part, names)
    return tuple(_bare_part(inner, names) for inner in part)
