"""extract_hashed_functions: the counts of a naive walk, on light models and others, with any executor."""

import multiprocessing
import pickle
import weakref
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import tvm
import tvm_ffi
from hypothesis import given
from kits.extraction.extraction_modules import every_kind_of_call, nested_calls, small_network
from kits.extraction.naive_walk import TARGET, assert_same_tasks, count_by_function, fuse, tvm_tasks
from kits.lighter_models import LIGHTER_MODELS
from tvm import relax

import annotated_region as ar
from annotated_region.extraction import CallSite
from annotated_region.extraction.hashed_functions import _Portable
from annotated_region.testing import Ingredients, modules
from annotated_region.testing.generated import inception, residual
from annotated_region.testing.graphs import SIX_OPS, module_of
from annotated_region.testing.light_models import light_module

ZOO = [("first", small_network), ("calls", every_kind_of_call), ("second", small_network)]


def nameless(function):
    return function.without_attr("global_symbol")


def assert_same_counts(found, naive):
    """Each function of the naive walk is found once, with the same number of calls."""
    assert len(found) == len(naive)
    for function, count in naive:
        (match,) = [
            each for each in found.values() if tvm_ffi.structural_equal(nameless(each.func), function)
        ]
        assert match.count == count


@pytest.mark.parametrize("name", LIGHTER_MODELS)
def test_counts_and_weights_are_those_of_a_naive_walk_and_of_tvm_on_a_light_model(name):
    mod = light_module(name)
    fused, found = fuse(mod), ar.extract_hashed_functions(mod)
    assert_same_counts(found, count_by_function(fused))
    assert_same_tasks(ar.to_tuning_tasks(found, TARGET), tvm_tasks(fused))


@pytest.mark.parametrize(
    "make",
    [
        every_kind_of_call,
        nested_calls,
        small_network,
        partial(residual, 60),
        partial(inception, 60),
        partial(module_of, SIX_OPS),
    ],
)
def test_counts_equal_those_of_a_naive_walk(make):
    mod = make()
    assert_same_counts(ar.extract_hashed_functions(mod), count_by_function(fuse(mod)))


@given(modules(Ingredients(nodes=8, effects=False)))
def test_counts_equal_those_of_a_naive_walk_on_generated_modules(mod):
    assert_same_counts(ar.extract_hashed_functions(mod), count_by_function(fuse(mod)))


def test_every_call_is_counted_where_it_stands():
    twice, in_place = ar.extract_hashed_functions(every_kind_of_call()).values()
    assert (twice.name, twice.count, twice.counts) == ("twice", 3, {"main": 3})
    assert twice.call_sites["main"] == (
        CallSite("main", "y_then"), CallSite("main", "y_else"), CallSite("sub", "y"),
    )  # fmt: skip
    assert (in_place.name, in_place.count) == ("in_place", 1)


def test_calls_in_local_functions_and_nested_branches_are_counted_as_they_are_written():
    (twice,) = ar.extract_hashed_functions(nested_calls()).values()
    assert twice.count == 5


def test_the_ops_inside_are_known_where_that_is_certain():
    found = {each.name: each.op_infos for each in ar.extract_hashed_functions(small_network()).values()}
    infos = found["fused_conv2d_add_relu"]
    assert infos is not None
    assert [info.name for info in infos] == ["relax.nn.conv2d", "relax.add", "relax.nn.relu"]
    assert infos[0].attrs["padding"] == (1, 1, 1, 1)
    (_twice, in_place) = ar.extract_hashed_functions(every_kind_of_call()).values()
    assert in_place.op_infos is None


def test_a_zoo_is_counted_model_by_model():
    one = ar.extract_hashed_functions(small_network())
    zoo = ar.extract_hashed_functions(ZOO)
    assert list(one) == [key for key in zoo if key in one]
    for key, function in one.items():
        assert zoo[key].counts == {"first": function.count, "second": function.count}
    (twice,) = [function for function in zoo.values() if function.name == "twice"]
    assert twice.counts == {"calls": 3}


@pytest.mark.parametrize("constant", [0, (1 << 64) - 1])
def test_functions_of_the_same_hash_are_told_apart(constant):
    expected = ar.extract_hashed_functions(ZOO)
    found = ar.extract_hashed_functions(ZOO, hash_function=lambda _function: constant)
    assert list(found) == [(constant + offset) % (1 << 64) for offset in range(len(expected))]
    for left, right in zip(expected.values(), found.values(), strict=True):
        assert tvm_ffi.structural_equal(left.func, right.func)
        assert left.call_sites == right.call_sites


def as_plain(found):
    return [(key, each.name, each.call_sites, each.func.script()) for key, each in found.items()]


def test_any_executor_gives_the_same():
    expected = as_plain(ar.extract_hashed_functions(ZOO))
    with ThreadPoolExecutor(2) as threads:
        assert as_plain(ar.extract_hashed_functions(ZOO, executor=threads)) == expected
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as processes:
        assert as_plain(ar.extract_hashed_functions(ZOO, executor=processes)) == expected


def test_a_module_that_would_have_to_travel_is_refused():
    context = multiprocessing.get_context("spawn")
    with (
        ProcessPoolExecutor(1, mp_context=context) as processes,
        pytest.raises(
            ar.InvalidModuleError, match=r"'net' cannot be sent to another process.*functools\.partial"
        ),
    ):
        ar.extract_hashed_functions([("net", small_network())], executor=processes)


def test_functions_travel_without_loss():
    for _name, function in ar.extract_fused_functions(light_module("shufflenet")).functions_items():
        back = pickle.loads(pickle.dumps(_Portable(nameless(function))))
        assert tvm_ffi.structural_equal(back.func, nameless(function))


def test_models_are_taken_one_after_the_other():
    """No model is asked for before the one before it is done, so a zoo may be larger than memory."""
    events = []

    def zoo():
        for name in ("a", "b", "c"):
            events.append(f"ask {name}")
            yield name, partial(make, name)

    def make(name):
        events.append(f"make {name}")
        return small_network()

    ar.extract_hashed_functions(zoo())
    assert events == ["ask a", "make a", "ask b", "make b", "ask c", "make c"]


class Alive:
    """A zoo whose modules hold memory that can be watched: which models have not been freed yet."""

    def __init__(self):
        self.weights = []

    def module(self, value):
        space = np.full(32, value, "float32")
        start = -space.ctypes.data % 64 // 4  # TVM wants a multiple of 64 bytes
        weight = space[start : start + 16].reshape(4, 4)
        self.weights.append(weakref.ref(weight))
        x = relax.Var("x", relax.TensorType((2, 4), "float32"))
        builder = relax.BlockBuilder()
        with builder.function("main", [x]):
            with builder.dataflow():
                # Not a copy: the constant keeps the array.
                constant = relax.const(tvm.runtime.from_dlpack(weight))
                result = builder.emit_output(relax.op.matmul(x, constant))
            builder.emit_func_output(result)
        return builder.get()

    def count(self):
        return sum(weight() is not None for weight in self.weights)


@pytest.mark.parametrize("progress", [False, True])
@pytest.mark.parametrize("lazy", [False, True])
def test_no_model_is_kept_so_a_zoo_may_be_larger_than_memory(lazy, progress):
    """However a zoo hands its models over, one of them is in memory at any time."""
    alive, seen = Alive(), []

    def make(value):
        seen.append(alive.count())
        return alive.module(value)

    def zoo():
        for value in range(4):
            yield str(value), partial(make, value) if lazy else make(value)

    ((_key, found),) = ar.extract_hashed_functions(zoo(), progress=progress).items()
    assert found.counts == {"0": 1, "1": 1, "2": 1, "3": 1}
    assert seen == [0, 0, 0, 0]
    assert alive.count() == 0


def test_an_executor_is_not_given_the_whole_zoo_at_once():
    """Finished models are gone, and of those that wait no more than a few are made."""
    alive, most = Alive(), []

    def make(value):
        module = alive.module(value)
        most.append(alive.count())
        return module

    with ThreadPoolExecutor(1) as one:
        found = ar.extract_hashed_functions(((str(n), partial(make, n)) for n in range(20)), executor=one)
    assert sum(each.count for each in found.values()) == 20
    assert max(most) == 1
    assert alive.count() == 0


def test_progress_is_shown_on_the_error_output(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # else rich shows nothing where there is no terminal
    assert ar.extract_hashed_functions(ZOO, progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "extracting" in captured.err
    assert "3/3" in captured.err


def test_a_failing_model_ends_the_extraction_with_its_error():
    def broken():
        raise ar.ModelError("no such model")

    with pytest.raises(ar.ModelError, match="no such model"):
        ar.extract_hashed_functions([("good", small_network), ("bad", broken)])
