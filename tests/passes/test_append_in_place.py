"""AppendInPlace: regions write new rows into the caller's memory; unsuitable functions are errors."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
import tvm_ffi
from kits.backends.dnnl.dnnl_harness import needs_onednn
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar

CAPACITY = 8


def step(results: str = "y k v", *, past_type: str = "float32", past_width: int = 6) -> tvm.IRModule:
    """``y = sum(k) + x``, new rows ``k = x w + 1`` and ``v = x - 3`` of two pasts."""
    new, old = tirx.Var("s", "int64"), tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType([new, 4], "float32"))
    pasts = [
        relax.Var("past_k", relax.TensorType([old, past_width], past_type)),
        relax.Var("past_v", relax.TensorType([old, 4], "float32")),
    ]
    weight = relax.const(np.arange(24, dtype="float32").reshape(4, 6))
    builder = relax.BlockBuilder()
    with builder.function("step", [x, *pasts]):
        with builder.dataflow():
            made = {
                "k": builder.emit_output(
                    op.add(builder.emit(op.matmul(x, weight)), relax.const(np.float32(1)))
                ),
                "v": builder.emit_output(op.subtract(x, relax.const(np.float32(3)))),
            }
            rows = builder.emit(op.concat([pasts[1], made["v"]], 0))
            sums = builder.emit(op.sum(rows, [0], keepdims=True))
            made["y"] = builder.emit_output(op.add(x, sums))
            made["x"] = x
        builder.emit_func_output(relax.Tuple([made[name] for name in results.split()]))
    return builder.finalize()


def built(mod: tvm.IRModule, pasts: dict[str, int]) -> relax.VirtualMachine:
    partitioned = ar.partition(mod, ["dnnl"], prepare=False)
    appending = ar.passes.AppendInPlace("step", pasts)(partitioned)
    return relax.VirtualMachine(ar.build(appending).jit(), tvm.cpu())


@needs_onednn
def test_rows_are_written_behind_the_past():
    """Of two pasts with rows of two sizes, by steps of several lengths, from no row on until it is full."""
    machine = built(step(), {"past_k": 1, "past_v": 2})
    cache = ar.KeyValueCache([(6,), (4,)], CAPACITY)
    for memory in cache.memory:
        np.from_dlpack(memory)[...] = np.nan  # what is not filled is not read
    rng = np.random.default_rng(0)
    weight = np.arange(24).reshape(4, 6)
    keys, values = np.zeros((0, 6)), np.zeros((0, 4))
    for count in (2, 1, 4, 1):
        x = rng.standard_normal((count, 4)).astype("float32")
        keys = np.concatenate([keys, x.astype("float64") @ weight + 1])
        values = np.concatenate([values, x.astype("float64") - 3])
        y = machine["step"](tvm.runtime.tensor(x), *cache.memory, cache.filled)
        cache.advance(count)
        np.testing.assert_allclose(y.numpy(), x + values.sum(0), rtol=1e-5, atol=1e-5)
        for past, expected in zip(cache.past(), (keys, values), strict=True):
            np.testing.assert_allclose(past.numpy(), expected, rtol=1e-5, atol=1e-5)


@needs_onednn
def test_a_memory_without_room_is_an_error_and_stays_as_it_is():
    machine = built(step(), {"past_k": 1, "past_v": 2})
    memory = [tvm.runtime.tensor(np.ones((CAPACITY, width), "float32")) for width in (6, 4)]
    x = tvm.runtime.tensor(np.ones((3, 4), "float32"))
    for filled in (6, 8, 100):
        with pytest.raises(ValueError, match=r"only contains (128|192) bytes"):
            machine["step"](x, *memory, tvm_ffi.Shape((filled,)))
    assert all((each.numpy() == 1).all() for each in memory)


@needs_onednn
def test_results_that_are_not_appended_are_returned():
    machine = built(step("v y k"), {"past_k": 2})
    past = [tvm.runtime.tensor(np.zeros(each, "float32")) for each in ((CAPACITY, 6), (5, 4))]
    x = np.ones((1, 4), "float32")
    rows, y = machine["step"](tvm.runtime.tensor(x), *past, tvm_ffi.Shape((5,)))
    np.testing.assert_array_equal(rows.numpy(), x - 3)
    np.testing.assert_array_equal(y.numpy(), x - 2)
    np.testing.assert_array_equal(past[0].numpy()[5], [37, 41, 45, 49, 53, 57])
    assert not past[0].numpy()[[0, 1, 2, 3, 4, 6, 7]].any()


def test_the_module_is_unchanged_but_for_a_note():
    mod = step()
    noted = ar.passes.AppendInPlace("step", {"past_k": 1})(mod)
    assert set(mod["step"].attrs.keys()) == {"global_symbol"}
    tvm.ir.assert_structural_equal(noted["step"].without_attr("annotated_region.appended"), mod["step"])


USAGE = {
    "function": (("other", {"past_k": 1}), "the module has no function 'other'"),
    "parameter": (("step", {"past": 1}), "'step' has the parameters x, past_k, past_v .* there is no 'past'"),
    "result": (("step", {"past_k": 3}), "and 3 results; there is no 'past_k' to which result 3"),
    "twice": (("step", {"past_k": 1, "past_v": 1}), "a result is appended to two pasts"),
    "type": (("step", "past_k"), "the argument pasts is 'past_k'"),
}


@pytest.mark.parametrize("case", USAGE)
def test_unknown_names_are_refused(case):
    given, words = USAGE[case]
    with pytest.raises(ar.UsageError, match=words):
        ar.passes.AppendInPlace(*given)(step())


@pytest.mark.parametrize(
    ("options", "pasts", "words"),
    [
        ({"past_type": "float16"}, {"past_k": 1}, "result 1 is .*float32.*, and 'past_k' is .*float16"),
        ({"past_width": 5}, {"past_k": 1}, r"'past_k' is .*\(n, 5\).* new rows have the type and the shape"),
        ({}, {"past_v": 0, "x": 2}, "'x' has s rows and 'past_v' has n; all pasts have the same number"),
    ],
)
def test_pasts_that_do_not_fit_are_refused(options, pasts, words):
    with pytest.raises(ar.InvalidModuleError, match=words):
        ar.passes.AppendInPlace("step", pasts)(step(**options))


@pytest.mark.parametrize(
    ("results", "pasts", "words"),
    [
        (
            "y x",
            {"past_k": 1},
            "result 1 is not the output of a region, so no region appends it to 'past_k'",
        ),
        ("y v v", {"past_k": 1, "past_v": 2}, "result 2 and another one are the same result of a region"),
    ],
)
@needs_onednn
def test_results_that_no_region_writes_are_refused(results, pasts, words):
    mod = ar.partition(
        ar.passes.AppendInPlace("step", pasts)(step(results, past_width=4)), ["dnnl"], prepare=False
    )
    with pytest.raises(ar.BuildError, match=words):
        ar.build(mod)
