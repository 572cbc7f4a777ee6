"""The edges and rare ops of the hunt: each is generated, and the reference computes hand-written results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from kits.dense_graphs.bench import Bench
from kits.dense_graphs.comparison import Expectation
from kits.dense_graphs.defaults import DEFAULTS
from kits.dense_graphs.edges import EDGES
from kits.dense_graphs.elementary import ELEMENTARY
from kits.dense_graphs.forms import FORMS
from kits.dense_graphs.generation import EDGY, generated
from kits.dense_graphs.packed import PACKED
from kits.dense_graphs.parts import PARTS
from kits.dense_graphs.rarities import RARITIES
from kits.dense_graphs.reference import OPS, evaluate
from kits.dense_graphs.relax_graph import module_of
from kits.dense_graphs.values import UnfitValuesError, Value
from kits.dense_graphs.whole_edges import WHOLE_EDGES
from tvm import relax, tirx
from tvm.relax import op

from annotated_region.backends.onnx_emitter.conversions.absent import ABSENT
from annotated_region.targets.rules import rules_of

INF, NAN = np.inf, np.nan
I64 = np.iinfo("int64")


def evaluated(make: Callable[..., relax.Expr], *arrays: np.ndarray) -> Value:
    """What the reference makes of a function of one call."""
    builder = relax.BlockBuilder()
    params = [
        relax.Var(f"x{place}", relax.TensorType(array.shape, str(array.dtype)))
        for place, array in enumerate(arrays)
    ]
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit_output(builder.emit(make(*params)))
        builder.emit_func_output(out)
    (value,) = evaluate(builder.get(), "main", arrays)
    return value


def computed(make: Callable[..., relax.Expr], *arrays: np.ndarray) -> np.ndarray:
    """What it computes."""
    return evaluated(make, *arrays).clean


def numbers(*values: float, dtype: str = "float32") -> np.ndarray:
    return np.array(values, dtype)


WHOLE = numbers(I64.max, 2**53 + 1, 1, dtype="int64")
CASES = {
    "clip by bounds that cross": (lambda x: op.clip(x, 2, 1), [numbers(0, 1, 5)], [2, 2, 2]),
    "clip by infinite bounds": (lambda x: op.clip(x, -INF, 1), [numbers(-INF, INF)], [-INF, 1]),
    "a sum that wraps": (op.sum, [WHOLE], I64.min + 2**53 + 1),
    "a product that wraps": (op.prod, [numbers(2**16 + 1, 2**16 + 1, dtype="int32")], 2**17 + 1),
    "a sum of bytes": (op.sum, [numbers(255, 3, dtype="uint8")], 2),
    "products before each": (lambda x: op.cumprod(x, 0, exclusive=True), [numbers(3, 2, 4)], [1, 3, 6]),
    "sums before each": (lambda x: op.cumsum(x, 0, exclusive=True), [numbers(1, 2, 4)], [0, 1, 3]),
    "a remainder of tenths": (op.floor_mod, [numbers(1), numbers(0.1)], [1 - 10 * float(np.float32(0.1))]),
    "a remainder towards zero": (op.mod, [numbers(-7, 1), numbers(3, 0.1)],
                                 [-1, np.fmod(np.float32(1), np.float32(0.1), dtype="float64")]),
    "a quotient of tenths": (op.floor_divide, [numbers(1, -1), numbers(0.1, 0.3)], [10, -4]),
    "a remainder below zero": (op.floor_mod, [numbers(-7, 7, dtype="int32"), numbers(3, -3, dtype="int32")],
                               [2, -2]),
    "an index outside": (
        lambda x: op.one_hot(x, *(tirx.FloatImm("float32", each) for each in (1.0, 0.0)), 2, -1),
        [numbers(-1, 1, 2, dtype="int64")],
        [[0, 0], [0, 1], [0, 0]],
    ),
    "the largest bytes": (lambda x: op.topk(x, 2, 0, "values", True, "int64"),
                          [numbers(0, 255, 128, dtype="uint8")], [255, 128]),
    "the first of the largest": (lambda x: op.topk(x, 3, 0, "indices", True, "int64"),
                                 [numbers(1, 2, 2)], [1, 2, 0]),
    "a truth value of a part": (lambda x: op.astype(x, "bool"), [numbers(0.5, -0.0)], [True, False]),
    "a place that is named twice": (
        lambda x, i, y: op.scatter_elements(x, i, y, 0, "add"),
        [numbers(1, 2), numbers(1, 1, 1, dtype="int64"), numbers(3, 4, 5)],
        [1, 14],
    ),
    "a window of minus infinity": (
        lambda x: op.nn.max_pool1d(x, 2), [numbers(-INF, -INF, 3).reshape(1, 1, 3)], [[[-INF, 3]]]
    ),
    "the extremes of no rows without elements": (lambda x: op.max(x, [1]), [np.zeros((0, 0), "float32")], []),
    "their places": (lambda x: op.argmin(x, 1), [np.zeros((0, 0), "float32")], []),
    "linear between pixels": (lambda x, g: op.image.grid_sample(x, g, align_corners=True),
                              [numbers(1, 3).reshape(1, 1, 1, 2), numbers(0, 3, -1, 0).reshape(1, 2, 1, 2)],
                              [[[[2, 0]]]]),
    "a matrix for a grid": (lambda x: op.image.affine_grid(x, (1, 2), align_corners=False),
                            [numbers(2, 0, 0, 0, 1, 0.5).reshape(1, 2, 3)], [[[[-1, 1]], [[0.5, 0.5]]]]),
    "the lower one in the middle": (op.median, [numbers(4, 1, 3, 2)], 2),
    "a bit shifted out": (op.left_shift,
                          [numbers(2**31 - 1, dtype="int32"), numbers(1, dtype="int32")], [-2]),
    "a number on a boundary": (lambda x, b: op.bucketize(x, b, right=True), [numbers(1), numbers(0, 1)], [2]),
    "a norm of nothing": (lambda x, g: op.nn.layer_norm(x, g, g, axes=[-1]),
                          [np.zeros((0, 3), "float32"), numbers(1, 1, 1)], np.zeros((0, 3))),
    "NaN in a sum": (op.add, [numbers(NAN, 1), numbers(1, INF)], [NAN, INF]),
}  # fmt: skip


DECISIONS = {
    "equal": op.equal,
    "not_equal": op.not_equal,
    "bool": lambda x, y: op.astype(op.subtract(x, y), "bool"),
}


@pytest.mark.parametrize("name", DECISIONS)
def test_whether_numbers_are_equal_that_rounding_makes_equal_is_not_asked(name):
    """80 tenths of float32, which are 8.0000001, are 8 in float32, as products of bytes are computed."""

    def compared(x, w, y):
        return DECISIONS[name](op.matmul(x, w), y)

    row, column = numbers(1, 80, -1), numbers(100, 0.1, 100)
    assert computed(compared, row, column, numbers(9)) == (name != "equal")
    with pytest.raises(UnfitValuesError):
        computed(compared, row, column, numbers(8))


@pytest.mark.parametrize(("make", "arrays", "wanted"), CASES.values(), ids=CASES)
def test_the_reference_computes_edges(make, arrays, wanted):
    np.testing.assert_array_equal(computed(make, *arrays), wanted)


UNFIT = {
    "NaN that is ordered": (lambda x: op.maximum(x, x), [numbers(NAN)]),
    "NaN that is unequal": (lambda x: op.not_equal(x, x), [numbers(NAN)]),
    "a number that no int32 holds": (lambda x: op.astype(x, "int32"), [numbers(2.0**31)]),
    "a place among infinities": (lambda x: op.argmax(x, 0), [numbers(-INF, -INF)]),
    "an infinity less another": (lambda x: op.maximum(op.subtract(x, x), x), [numbers(INF)]),
    "the logarithm of what is rounded to 1": (
        lambda x: op.equal(op.log(op.add(op.multiply(x, x), relax.const(1.0))), relax.const(0.0)),
        [np.full(64, 8.4e-5, "float32")],
    ),
    "a remainder of what is rounded to a multiple": (
        lambda x: op.mod(op.multiply(x, x), op.square(x)),
        [np.linspace(1.1, 1.9, 64, dtype="float32")],
    ),
    "a maximum of nothing": (lambda x: op.max(x, [1]), [np.zeros((2, 0), "float32")]),
}


@pytest.mark.parametrize(("make", "arrays"), UNFIT.values(), ids=UNFIT)
def test_values_on_which_engines_need_not_agree_are_refused(make, arrays):
    with pytest.raises(UnfitValuesError):
        computed(make, *arrays)


SELDOM = (*EDGES, *WHOLE_EDGES, *RARITIES, *ELEMENTARY, *DEFAULTS, *PACKED, *FORMS)


def test_parts_begin_at_an_extent():
    """In half of the graphs of that idiom or more, and each is what Relax infers."""
    begins = []
    for seed in range(20):
        bench = Bench(np.random.default_rng(seed), symbol="n", other="m")
        bench.source(("n", 2, "m"), constant=0.0)
        (idiom,) = (idiom for _, idiom in PARTS)
        result = idiom(bench)
        if result is None:
            continue
        module_of(bench.recipe([result], [{"n": 1, "m": 2}], seed))
        begins += [node.attrs["begin"][0] for node in bench.nodes if node.op == "strided_slice"]
    assert len(begins) > 20
    assert sum(isinstance(begin, str) for begin in begins) > len(begins) / 2


@pytest.mark.parametrize("idiom", [idiom for _, idiom in SELDOM], ids=lambda idiom: idiom.__name__)
def test_a_seldom_idiom_makes_a_graph(idiom):
    made = 0
    for seed in range(20):
        bench = Bench(np.random.default_rng(seed))
        bench.source(bench.shape(3), constant=0.0)
        result = idiom(bench)
        if result is not None:
            module_of(bench.recipe([result], [{}], seed))
            made += 1
    assert made


def test_all_that_is_emitted_as_onnx_is_known_to_the_reference():
    unknown = {name.removeprefix("relax.") for name in set(rules_of("onnxruntime")) - set(ABSENT)} - set(OPS)
    assert not unknown


def test_two_symbols_are_called_with_two_numbers():
    """Of a third of the symbolic graphs; extents that are alike in one call differ in others."""
    calls = [call for seed in range(300) for call in generated(seed).calls if len(call) == 2]
    assert any(call["n"] == call["m"] for call in calls)
    assert any(call["n"] != call["m"] for call in calls)


def test_most_graphs_are_what_they_were_without_edges():
    names = {"infinite", "undefined", "sunk", "zeros", "tenths", "few", "bits"}
    edgy = sum(
        any(
            node.attrs.get("kind") in names or node.op in ("one_hot", "floor_divide") for node in recipe.nodes
        )
        for recipe in map(generated, range(400))
    )
    assert 0.1 * 400 < edgy < EDGY * 1.2 * 400


def test_a_rounded_exponent_leaves_a_tolerance():
    """With an error in the exponent, powers of negative numbers were NaN, which allows no error."""
    value = evaluated(lambda x: op.power(x, relax.const(3.0, "float16")), np.array([-0.3], "float16"))
    assert np.isfinite(value.wide).all()


def test_a_long_sum_may_be_that_of_a_loop_and_no_other():
    x = relax.Var("x", relax.TensorType((2000,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(builder.emit(op.sum(x)))
        builder.emit_func_output(out)
    given = np.full(2000, 1.1, "float32")
    expected = Expectation(builder.get(), [given], [evaluate(builder.get(), "main", [given], 0)])
    looped = np.cumsum(given, dtype="float32")[-1]
    assert abs(looped / 2200 - 1) > 5e-6
    assert expected.difference([looped]) is None
    assert expected.difference([looped * np.float32(1 + 1e-4)]) is not None
