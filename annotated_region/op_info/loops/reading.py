"""Converts a PrimFunc to its normal form, or rejects it.

Supported are functions as TE and ``FuseTIR`` create them: loop nests that cover the whole domain of one
block each, with one write to each buffer. Everything else (scheduled code, loops with a predicate, a step
or threads, nested buffers, buffers inside others, opaque statements) is rejected with `NotNormalError`. A
symbolic extent is a variable, the same wherever it occurs, or is computed from variables. Integer parameters
are such variables: TVM passes ``past`` and ``length`` beside a tensor of ``past + length`` rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from tvm import relax, tirx

from annotated_region.op_info.loops.bounds import reads_in_bounds
from annotated_region.op_info.loops.expressions import Converter, NotNormalError
from annotated_region.op_info.loops.program import Block, LoopTensor, Program, Store
from annotated_region.op_info.loops.trees import Extent, Tree, loads_in
from annotated_region.tvm_adapter.nodes import BufferType, PrimExpr, SBlock, SBlockRealize
from annotated_region.tvm_adapter.types import expect, shape_vars_of

__all__ = ["NotNormalError", "read_program"]

Kind = TypeVar("Kind")

_NO_STORE = "a block has a statement other than a store"


def read_program(func: tirx.PrimFunc, sizes: Mapping[tirx.Var, Tree] | None = None) -> Program:
    """The normal form of a PrimFunc.

    Parameters
    ----------
    func
        The function.
    sizes
        The names of the variables in its shapes; by default numbers in order of first use.

    Raises
    ------
    NotNormalError
        It has no normal form.
    """
    root = _a(SBlockRealize, func.body, "the body is not a block")
    _require(not root.block.match_buffers and not root.block.iter_vars, "the root block has variables")
    scalars = {number: param for number, param in enumerate(func.params) if _is_scalar(param)}
    sizes = _sizes(func) if sizes is None else sizes
    converter = Converter({}, {}, sizes)
    numbers: dict[tirx.Var, int] = {}
    tensors: dict[int, LoopTensor] = {}
    for number, buffer in enumerate((*func.params, *root.block.alloc_buffers)):
        if number not in scalars:
            tensors[number] = _tensor(buffer, converter)
            numbers[buffer] = number
    blocks = tuple(_Nest(numbers, sizes).block(nest) for nest in _sequence(root.block.body))
    _require(all(param in sizes for param in scalars.values()), "a number has no name")
    return _checked(
        tensors, len(func.params), blocks, {number: sizes[param] for number, param in scalars.items()}
    )


def _is_scalar(param: tirx.Var) -> bool:
    """Whether a parameter is an integer, which TVM passes for an extent that no shape tells on its own."""
    if isinstance(param.ty, BufferType):
        return False
    _require(str(param.ty) == "int64", "a parameter is neither a buffer nor an integer of 64 bits")
    return True


def _checked(
    tensors: dict[int, LoopTensor], params: int, blocks: tuple[Block, ...], scalars: Mapping[int, Tree]
) -> Program:
    """The program, after checking that each buffer is written by one block, before it is read."""
    written: set[int] = set()
    read: set[int] = set()
    for block in blocks:
        read.update(load[1] for load in block.loads)
        _require(written.isdisjoint(block.written), "a buffer is written twice")
        _require(read.isdisjoint(block.written), "a buffer is read before it is written")
        _require(bool(block.init) or not _reads_itself(block), "a block reads what it has not written")
        _require(reads_in_bounds(block, tensors), "a block reads out of bounds")
        written.update(block.written)
    _require(all(b < params or b in written for b in read), "a buffer is read but never written")
    given = [b for b in range(params) if b not in scalars]
    inputs = tuple(b for b in given if b in read)
    outputs = tuple(b for b in given if b in written)
    unread = tuple(b for b in given if b not in read and b not in written)
    return Program(tensors, inputs, blocks, outputs, unread, scalars)


def _reads_itself(block: Block) -> bool:
    own = block.written
    return any(load[1] in own for store in block.stores for load in loads_in(store.value))


def _sizes(func: tirx.PrimFunc) -> dict[tirx.Var, Tree]:
    """A name for each variable in a shape, and for each scalar parameter."""
    found: dict[tirx.Var, None] = {}
    for param in func.params:
        found.update(dict.fromkeys([param] if _is_scalar(param) else _variables(param)))
    return {var: ("size", number) for number, var in enumerate(found)}


def _variables(buffer: tirx.Var) -> list[tirx.Var]:
    return shape_vars_of(relax.TensorType(list(buffer.shape), str(buffer.dtype)))


def _tensor(buffer: tirx.Var, converter: Converter) -> LoopTensor:
    _require(not buffer.strides, "a buffer has strides")
    # A variable offset is that of a view, which the caller passes with the tensor.
    _require(_is_view_or_zero(expect(BufferType, buffer.ty).elem_offset), "a buffer has an offset")
    return LoopTensor(tuple(map(converter.extent, buffer.shape)), str(buffer.dtype))


def _is_view_or_zero(offset: PrimExpr) -> bool:
    return isinstance(offset, tirx.Var) or (isinstance(offset, tirx.IntImm) and offset.value == 0)


def _sequence(statement: tirx.Stmt) -> Iterator[tirx.Stmt]:
    if isinstance(statement, tirx.SeqStmt):
        for part in statement.seq:
            yield from _sequence(part)
    else:
        yield statement


class _Nest:
    """Reads a loop nest that contains one block."""

    def __init__(self, numbers: dict[tirx.Var, int], sizes: Mapping[tirx.Var, Tree]) -> None:
        self.numbers = numbers
        self.sizes = sizes
        self.extent = Converter({}, {}, sizes).extent
        self.extents: dict[tirx.Var, Extent] = {}

    def block(self, statement: tirx.Stmt) -> Block:
        while isinstance(statement, tirx.For):
            serial = statement.kind == tirx.ForKind.SERIAL and statement.thread_binding is None
            _require(serial and self.extent(statement.min) == 0, "a loop is not a plain loop from 0")
            _require(statement.step is None or self.extent(statement.step) == 1, "a loop has a step")
            self.extents[statement.loop_var] = self.extent(statement.extent)
            statement = statement.body
        realized = _a(SBlockRealize, statement, "a loop does not contain a block")
        _require(_is_true(realized.predicate), "a block has a predicate")
        block = realized.block
        _require(not block.alloc_buffers and not block.match_buffers, "a block has its own buffers")
        self.check_bindings(block, realized.iter_values)
        spatial, reduction = self.ordered(block, realized.iter_values)
        iters = {iter_.var: index for index, iter_ in enumerate((*spatial, *reduction))}
        converter = Converter(self.numbers, iters, self.sizes)
        return Block(
            tuple(self.extent(iter_.dom.extent) for iter_ in spatial),
            tuple(self.extent(iter_.dom.extent) for iter_ in reduction),
            () if block.init is None else tuple(self.stores(block.init, converter)),
            tuple(self.stores(block.body, converter)),
        )

    def check_bindings(self, block: SBlock, values: Sequence[PrimExpr]) -> None:
        """Check that each iteration variable is a separate loop over the same domain, or constant."""
        left = dict(self.extents)
        for iter_, value in zip(block.iter_vars, values, strict=True):
            _require(self.extent(iter_.dom.min) == 0, "a domain does not start at 0")
            extent = self.extent(iter_.dom.extent)
            if isinstance(value, tirx.IntImm):
                _require(value.value == 0 and extent == 1, "a domain is not covered")
            else:
                loop = _a(tirx.Var, value, "an iteration variable is not bound to a loop")
                _require(left.pop(loop, None) == extent, "a loop does not cover a domain")
        _require(all(extent == 1 for extent in left.values()), "a loop repeats a block")

    def ordered(
        self, block: SBlock, values: Sequence[PrimExpr]
    ) -> tuple[list[tirx.IterVar], list[tirx.IterVar]]:
        """The spatial variables in the order in which they index the output, then the reduction variables."""
        kinds: dict[int, list[tirx.IterVar]] = {tirx.IterVar.DataPar: [], tirx.IterVar.CommReduce: []}
        for iter_ in block.iter_vars:
            _require(iter_.iter_type in kinds, "an iteration variable is neither spatial nor a reduction")
            kinds[iter_.iter_type].append(iter_)
        last = _a(tirx.BufferStore, list(_sequence(block.body))[-1], _NO_STORE)
        places = {index: place for place, index in enumerate(last.indices) if isinstance(index, tirx.Var)}
        spatial = sorted(kinds[tirx.IterVar.DataPar], key=lambda iter_: places.get(iter_.var, len(places)))
        loops = {iter_.var: value for iter_, value in zip(block.iter_vars, values, strict=True)}
        return spatial, self.nested(kinds[tirx.IterVar.CommReduce], loops)

    def nested(self, reduction: list[tirx.IterVar], loops: Mapping[tirx.Var, PrimExpr]) -> list[tirx.IterVar]:
        """The reduction variables in the order of their loops, in which they run.

        Those of one value run in any order, and keep their places.
        """
        depths = {loop: depth for depth, loop in enumerate(self.extents)}
        moves = [self.extent(iter_.dom.extent) != 1 for iter_ in reduction]
        moving = [iter_ for iter_, does_move in zip(reduction, moves, strict=True) if does_move]
        running = iter(sorted(moving, key=lambda iter_: depths[expect(tirx.Var, loops[iter_.var])]))
        return [
            next(running) if does_move else iter_ for iter_, does_move in zip(reduction, moves, strict=True)
        ]

    def stores(self, body: tirx.Stmt, converter: Converter) -> Iterator[Store]:
        for statement in _sequence(body):
            if isinstance(statement, tirx.Bind):
                value = converter.data(statement.value)
                converter.bind(statement.var)
                yield Store(None, (), value)
                continue
            store = _a(tirx.BufferStore, statement, _NO_STORE)
            _require(store.buffer in self.numbers, "a buffer is unknown")
            yield Store(
                self.numbers[store.buffer],
                tuple(converter.index(index) for index in store.indices),
                converter.data(store.value),
            )


def _is_true(expr: PrimExpr) -> bool:
    return isinstance(expr, tirx.IntImm) and bool(expr.value)


def _a(kind: type[Kind], value: object, otherwise: str) -> Kind:
    """`value`, which must be of this kind."""
    if not isinstance(value, kind):
        raise NotNormalError(otherwise)
    return value


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise NotNormalError(otherwise)
