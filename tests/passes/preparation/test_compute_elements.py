"""Masks and positions of symbolic lengths: the few operations that compute them, held against numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from kits.passes.preparation.preparation_kit import module, ops, prepare, run, stays
from kits.passes.preparation.whole_number_kit import evaluate
from tvm import relax

from annotated_region.passes.preparation.editor import Editor
from annotated_region.passes.preparation.elements import compute_elements, element_reader
from annotated_region.passes.preparation.elements.compute_elements import RULES
from annotated_region.passes.preparation.elements.element_reader import ElementReader, Index
from annotated_region.passes.preparation.sweep import checking, sweep
from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.nodes import Analyzer, PrimExpr

op = relax.op
Builder = relax.BlockBuilder

SIZES = [(1, 1), (1, 4), (3, 1), (2, 5)]


def number(value: int, dtype: str = "int64") -> relax.Expr:
    return relax.const(np.asarray(value, dtype), dtype)


def extents(x: relax.Expr) -> tuple[tvm.tirx.Expr, ...]:
    return tuple(x.ty.shape.values)


def inputs(rows: int, columns: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(100 * rows + columns)
    return {
        "x": rng.integers(0, 2, (rows, columns)).astype(bool),
        "y": rng.integers(-9, 9, (rows, columns)),
    }


def masked(body: Callable[..., relax.Expr]) -> tvm.IRModule:
    """A module of a mask (b, n) of truth values and whole numbers (b, n)."""
    builder = relax.BlockBuilder()
    b, n = (tvm.tirx.Var(name, "int64") for name in "bn")
    x, y = (
        relax.Var(name, relax.TensorType([b, n], dtype)) for name, dtype in (("x", "bool"), ("y", "int64"))
    )
    with builder.function("main", [x, y]):
        with builder.dataflow():
            output = builder.emit_output(body(builder, x, y))
        builder.emit_func_output(output)
    return builder.get()


def assert_same(before: tvm.IRModule, after: tvm.IRModule) -> None:
    for rows, columns in SIZES:
        given = inputs(rows, columns)
        np.testing.assert_array_equal(evaluate(after, given), evaluate(before, given))


def written_anyway(mod: tvm.IRModule) -> tvm.IRModule:
    """Each tensor that can be read is written once, also where that takes more operations."""
    done: set[str] = set()

    def once(view: OpView, editor: Editor) -> relax.Expr | None:
        if editor.target.name in done:
            return None
        done.add(editor.target.name)
        return compute_elements.compute_elements(view, editor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compute_elements, "least_weight", lambda _name: 1000)
        function = sweep(mod["main"], {name: [once] for name in compute_elements.RULES}, lowers_weight=False)
    return tvm.IRModule({"main": function})


def prepared(before: tvm.IRModule) -> tvm.IRModule:
    with checking():
        after = prepare(before)
    assert_same(before, after)
    return after


def positions(builder: Builder, extent: tvm.tirx.Expr, axis: int) -> relax.Expr:
    return builder.emit(op.expand_dims(builder.emit(op.arange(0, extent, 1, "int64")), [axis]))


def packed_sequences(builder: Builder, x: relax.Expr, _y: relax.Expr) -> relax.Expr:
    """As transformers looks for the beginnings of packed sequences among positions that it made itself."""
    b, n = extents(x)
    row = positions(builder, n, 0)
    places = builder.emit(op.broadcast_to(row, (b, n)))
    first = builder.emit(op.strided_slice(places, [1], [0], [1], [1]))
    before = builder.emit(op.subtract(first, number(1)))
    longer = builder.emit(op.concat([before, places], axis=-1))
    here = builder.emit(op.strided_slice(longer, [-1], [1], [1 + n], [1]))
    there = builder.emit(op.strided_slice(longer, [-1], [0], [n], [1]))
    begins = builder.emit(op.not_equal(builder.emit(op.subtract(here, there)), number(1)))
    counts = builder.emit(op.cumsum(begins, -1))
    index = positions(builder, b, 1)
    chosen = builder.emit(op.index_tensor(counts, [index, row]))
    return op.broadcast_to(builder.emit(op.equal(chosen, chosen)), (b, n))


def causal(builder: Builder, x: relax.Expr, _y: relax.Expr) -> relax.Expr:
    b, n = extents(x)
    index = builder.emit(op.expand_dims(positions(builder, b, 1), [2]))
    keys = builder.emit(op.expand_dims(positions(builder, n, 0), [1]))
    queries = builder.emit(op.expand_dims(positions(builder, n, 1), [0]))
    always = builder.emit(op.full(relax.ShapeExpr([]), number(1, "bool"), "bool"))
    seen = builder.emit(op.index_tensor(x, [index, keys]))
    earlier = builder.emit(op.bitwise_and(always, builder.emit(op.less_equal(keys, queries))))
    return op.broadcast_to(builder.emit(op.bitwise_and(earlier, seen)), (b, n, n))


def test_a_search_for_packed_sequences_among_positions_is_a_constant() -> None:
    """TVM cannot compile it: it adds up truth values, and its extents are unknown."""
    after = prepared(masked(packed_sequences))
    assert ops(after) == {"full": 1}


def test_a_causal_mask_is_one_comparison_and_the_mask_of_the_user() -> None:
    after = prepared(masked(causal))
    assert ops(after) == {"arange": 1, "reshape": 3, "less_equal": 1, "logical_and": 1}


def test_a_causal_mask_is_written_as_it_was_read() -> None:
    before = masked(causal)
    assert_same(before, written_anyway(before))


def test_what_is_computed_runs_on_tvm() -> None:
    """The numpy of this test and TVM agree on what is left."""
    after = prepared(masked(causal))
    given = inputs(2, 5)
    (result,) = run(after, given["x"], given["y"])
    np.testing.assert_array_equal(result, evaluate(after, given))


def test_an_index_that_is_each_place_is_no_index() -> None:
    after = prepared(
        masked(
            lambda b, x, y: op.index_tensor(
                y, [positions(b, extents(x)[0], 1), positions(b, extents(x)[1], 0)]
            )
        )
    )
    assert not ops(after)


def test_indices_of_constants_count_too() -> None:
    def body(_builder: Builder, x: relax.Expr) -> relax.Expr:
        rows = relax.const(np.arange(2).reshape(2, 1, 1))
        columns = relax.const(np.arange(5).reshape(1, 1, 5))
        return op.index_tensor(op.astype(x, "int64"), [rows, columns])

    before = module(body, x=(2, 5))
    after = prepare(before)
    assert ops(after) == {"astype": 1, "reshape": 1}
    x = np.arange(10, dtype="float32").reshape(2, 5)
    np.testing.assert_array_equal(run(after, x)[0], run(before, x)[0])


STAY = {
    "an index that may lie outside": lambda b, x, y: op.index_tensor(y, [positions(b, extents(x)[1], 1), y]),
    "an index from the end": lambda b, x, y: op.take(
        y, b.emit(op.subtract(b.emit(op.arange(0, extents(x)[1], 1, "int64")), number(1))), axis=1
    ),
    "a slice that may begin anywhere": lambda b, x, y: op.strided_slice(y, [1], [-3], [extents(x)[1]], [1]),
    "a sum of truth values in their own type": lambda b, x, y: op.cumsum(x, 1),
    "a causal mask as short as can be": lambda b, x, y: op.less_equal(
        positions(b, extents(x)[1], 0), positions(b, extents(x)[1], 1)
    ),
}


@pytest.mark.parametrize("name", STAY)
def test_what_is_not_certain_or_not_shorter_stays(name: str) -> None:
    before = masked(STAY[name])
    *_, last = before["main"].body.blocks[0].bindings
    assert last.value.op.name.removeprefix("relax.") in ops(prepare(before))


def test_positions_that_may_not_fit_are_not_read() -> None:
    """A comparison of 8 bits: place 200 of a long tensor is -56 there."""

    def body(builder: Builder, x: relax.Expr, _y: relax.Expr) -> relax.Expr:
        _, n = extents(x)
        short = builder.emit(op.astype(positions(builder, n, 0), "int8"))
        flag = builder.emit(op.greater_equal(short, number(0, "int8")))
        return op.logical_and(flag, x)

    before = masked(body)
    after = prepare(before)
    given = {"x": np.ones((1, 300), bool), "y": np.zeros((1, 300), "int64")}
    wanted = evaluate(before, given)
    assert not wanted.all()
    np.testing.assert_array_equal(evaluate(after, given), wanted)


def test_one_row_of_a_table_is_repeated() -> None:
    table = relax.const(np.arange(6, dtype="float32").reshape(2, 3))

    def body(builder: Builder, x: relax.Expr, _y: relax.Expr) -> relax.Expr:
        kinds = builder.emit(op.full(relax.ShapeExpr(extents(x)), number(1), "int64"))
        return op.take(table, kinds, axis=0)

    after = prepared(masked(body))
    assert ops(after) == {"broadcast_to": 1}


def test_a_condition_that_always_holds_chooses() -> None:
    def body(builder: Builder, x: relax.Expr, y: relax.Expr) -> relax.Expr:
        places = positions(builder, extents(x)[1], 0)
        flag = builder.emit(op.greater_equal(places, number(0)))
        return op.where(flag, y, places)

    assert not ops(prepared(masked(body)))


def test_positions_are_computed_once() -> None:
    def body(builder: Builder, x: relax.Expr, y: relax.Expr) -> relax.Expr:
        first = builder.emit(op.add(y, positions(builder, extents(x)[1], 0)))
        return op.multiply(first, positions(builder, extents(x)[1], 0))

    assert ops(prepared(masked(body)))["arange"] == 1


BINARY = [op.add, op.subtract, op.multiply, op.maximum, op.minimum]
COMPARED = [op.equal, op.not_equal, op.less, op.less_equal, op.greater, op.greater_equal]
CONNECTED = [op.logical_and, op.logical_or, op.logical_xor, op.bitwise_and, op.bitwise_or, op.bitwise_xor]


@pytest.mark.parametrize(
    "function", [*BINARY, *COMPARED, op.floor_divide, op.floor_mod], ids=lambda each: each.__name__
)
def test_an_operation_on_places_is_the_one_of_numpy(function: Callable[..., relax.Expr]) -> None:
    def body(builder: Builder, x: relax.Expr, _y: relax.Expr) -> relax.Expr:
        _, n = extents(x)
        below = builder.emit(op.add(positions(builder, n, 1), number(2)))
        return function(positions(builder, n, 0), below)

    before = masked(body)
    assert_same(before, written_anyway(before))


@pytest.mark.parametrize("function", CONNECTED, ids=lambda each: each.__name__)
def test_a_connective_of_masks_is_the_one_of_numpy(function: Callable[..., relax.Expr]) -> None:
    def body(builder: Builder, x: relax.Expr, _y: relax.Expr) -> relax.Expr:
        flags = builder.emit(op.less(positions(builder, extents(x)[1], 0), number(2)))
        return function(flags, x)

    before = masked(body)
    assert_same(before, written_anyway(before))


def test_a_ramp_of_a_table_does_not_go_on_in_front_of_it() -> None:
    """Index -1 is the last number of the table."""
    table = relax.const(np.array([0, 3, 6, 9, 12]), "int64")

    def body(builder: Builder, x: relax.Expr, _y: relax.Expr) -> relax.Expr:
        before = builder.emit(op.subtract(builder.emit(op.arange(0, extents(x)[1], 1, "int64")), number(1)))
        return builder.emit(op.broadcast_to(builder.emit(op.take(table, before, axis=0)), extents(x)))

    mod = masked(body)
    assert_same(mod, written_anyway(mod))


class Drawn:
    """Values of two axes: rows (1, b or n) and columns (1 or n)."""

    def __init__(self, builder: Builder, x: relax.Expr, y: relax.Expr, draw: Callable[..., Any]) -> None:
        self.b, self.n = extents(x)
        self.builder, self.draw = builder, draw
        self.values = [x, y, number(2), number(-1), number(1, "bool")]
        self.values += [
            positions(builder, extent, axis) for extent, axis in ((self.n, 0), (self.b, 1), (self.n, 1))
        ]

    def step(self) -> None:
        kind = self.draw(st.integers(0, 11))
        made = [
            *[lambda: self.paired(BINARY, False)] * 2,
            *[lambda: self.paired(COMPARED, False)] * 2,
            lambda: self.paired(CONNECTED, True),
            self.divided,
            self.shifted,
            self.indexed,
            self.converted,
            self.chosen,
            self.summed,
            self.turned,
        ][kind]()
        if made is not None:
            self.values.append(self.builder.emit(made))

    def one(self, truth: bool | None = None) -> relax.Expr:
        fitting = [each for each in self.values if truth is None or (str(each.ty.dtype) == "bool") == truth]
        return self.draw(st.sampled_from(fitting))

    def known(self, *tensors: relax.Expr) -> bool:
        """Whether these can be broadcast to each other, as far as their types say."""
        wide = [extents(each) for each in tensors if each.ty.ndim]
        found = [{str(pair[axis]) for pair in wide} - {"1"} for axis in (0, 1)]
        return all(len(each) <= 1 for each in found)

    def paired(self, functions: list[Callable[..., relax.Expr]], truth: bool) -> relax.Expr | None:
        left, right = self.one(truth), self.one(truth)
        return self.draw(st.sampled_from(functions))(left, right) if self.known(left, right) else None

    def divided(self) -> relax.Expr:
        function = self.draw(st.sampled_from([op.floor_divide, op.floor_mod]))
        return function(self.one(False), number(self.draw(st.integers(1, 3))))

    def shifted(self) -> relax.Expr | None:
        """The numbers of a row one place further, behind a first one."""
        value = self.one(False)
        if value.ty.ndim == 0 or not extents(value)[1].same_as(self.n):
            return None
        first = self.builder.emit(op.strided_slice(value, [1], [0], [1], [1]))
        longer = self.builder.emit(
            op.concat([self.builder.emit(op.subtract(first, number(1))), value], axis=1)
        )
        begin = self.draw(st.integers(0, 1))
        part = self.builder.emit(op.strided_slice(longer, [1], [begin], [begin + self.n], [1]))
        return op.broadcast_to(part, (extents(value)[0], self.n))

    def indexed(self) -> relax.Expr:
        rows, columns = positions(self.builder, self.b, 1), positions(self.builder, self.n, 0)
        return op.index_tensor(self.values[self.draw(st.integers(0, 1))], [rows, columns])

    def converted(self) -> relax.Expr:
        return op.astype(self.one(), self.draw(st.sampled_from(["int64", "bool"])))

    def chosen(self) -> relax.Expr | None:
        parts = [self.one(True), self.one(False), self.one(False)]
        return op.where(*parts) if self.known(*parts) else None

    def summed(self) -> relax.Expr | None:
        value = self.one(False)
        return None if value.ty.ndim == 0 else op.cumsum(value, self.draw(st.sampled_from([0, 1, -1])))

    def turned(self) -> relax.Expr | None:
        value = self.one()
        if value.ty.ndim == 0 or not extents(value)[0].same_as(self.n):
            return None
        return self.draw(st.sampled_from([op.tril, op.permute_dims]))(value)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_graph_of_places_means_the_same(data: st.DataObject) -> None:
    def body(builder: Builder, x: relax.Expr, y: relax.Expr) -> relax.Expr:
        drawn = Drawn(builder, x, y, data.draw)
        for _ in range(data.draw(st.integers(2, 9))):
            drawn.step()
        last = drawn.values[-1]
        return op.broadcast_to(last, (drawn.n if drawn.known(last, drawn.values[7]) else drawn.b, drawn.n))

    before = masked(body)
    prepared(before)
    assert_same(before, written_anyway(before))


def test_buckets_of_relative_positions_stay_within_bounds() -> None:
    stays(masked(lambda _b, x, y: op.floor_mod(y, number(4))))


def test_a_product_beyond_64_bits_is_left_to_the_op_which_wraps_around() -> None:
    """TVM's simplifier has wider numbers, and refuses to write them."""

    def body(_b: Builder, _x: relax.Expr, y: relax.Expr) -> relax.Expr:
        return op.multiply(number(2**61 + 999), op.add(number(2**62 + 12345), y))

    assert ops(prepared(masked(body)))["multiply"] == 1


def test_a_chain_whose_links_read_twice_is_not_read_exponentially_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the places in a decision tree: ``p = where(c, left[p], right[p])``."""
    tables = [relax.const(np.random.default_rng(seed).permutation(8), "int64") for seed in (0, 1)]
    links, visits = 12, 0

    def body(builder: Builder, x: relax.Expr, y: relax.Expr) -> relax.Expr:
        place = builder.emit(op.floor_mod(y, number(8)))
        for _ in range(links):
            left, right = (builder.emit(op.take(table, place, 0)) for table in tables)
            place = builder.emit(op.where(x, left, right))
        return place

    rule = RULES["relax.take"]

    def counted(view: OpView, index: Index, reader: ElementReader) -> tvm.tirx.Expr | None:
        nonlocal visits
        visits += 1
        return rule(view, index, reader)

    monkeypatch.setitem(RULES, "relax.take", counted)
    prepare(masked(body))
    # Each of 2 * 12 gathers is the reason to read the chain in front of it, which has as many, a few times.
    assert 0 < visits <= 10 * links**2


def test_expressions_that_grow_with_each_link_are_not_simplified(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the lengths behind several convolutions, with quotients that are rounded away from zero.

    TVM's simplifier took minutes for the masks of seven.
    """
    sizes: list[int] = []

    class Measured(Analyzer):
        def simplify(self, expr: PrimExpr, steps: int = 2) -> PrimExpr:
            sizes.append(len(str(expr)))
            return super().simplify(expr, steps)

    def body(builder: Builder, _x: relax.Expr, y: relax.Expr) -> relax.Expr:
        length = builder.emit(op.add(y, op.full_like(y, number(1))))
        for _ in range(4):
            rest = builder.emit(op.not_equal(op.floor_mod(length, number(3)), number(0)))
            whole = builder.emit(op.floor_divide(length, number(3)))
            length = builder.emit(op.where(rest, op.add(whole, number(1)), whole))
        return length

    monkeypatch.setattr(element_reader, "Analyzer", Measured)
    prepare(masked(body))
    assert 0 < max(sizes) <= 500
