"""to_tuning_tasks: the tasks and weights of TVM's own extraction, and where the two differ, and why."""

import pytest
import tvm_ffi
from kits.extraction.extraction_modules import every_kind_of_call, small_network
from kits.extraction.naive_walk import TARGET, assert_same_tasks, fuse, tvm_tasks

import annotated_region as ar


def test_weights_are_those_of_tvm_on_a_small_network():
    assert_same_tasks(ar.to_tuning_tasks(small_network(), TARGET), tvm_tasks(fuse(small_network())))


def test_tvm_overlooks_calls_in_place():
    """TVM's extraction knows ``call_tir`` alone, so what is called in place is never tuned."""
    mod = every_kind_of_call()
    assert [(task.task_name, task.weight) for task in tvm_tasks(fuse(mod))] == [("twice", 3)]
    ours = ar.to_tuning_tasks(mod, TARGET)
    assert [(task.task_name, task.weight) for task in ours] == [("twice", 3), ("in_place", 1)]


def test_tvm_counts_what_an_external_function_holds():
    """Code that a library runs needs no tuning; TVM's extraction looks into every Relax function."""
    fused = fuse(every_kind_of_call())
    external = fused["sub"].with_attr("Codegen", "somebody").with_attr("global_symbol", "sub")
    fused.update_func(fused.get_global_var("sub"), external)
    theirs = tvm_tasks(fused)
    assert [(task.task_name, task.weight) for task in theirs] == [("twice", 3)]
    ours = ar.to_tuning_tasks(fused, TARGET)
    assert [(task.task_name, task.weight) for task in ours] == [("twice", 2), ("in_place", 1)]


def test_tvm_wants_a_module_that_is_fused_already():
    """From the module as it was imported TVM extracts nothing, without a word."""
    assert tvm_tasks(small_network()) == []
    assert len(ar.to_tuning_tasks(small_network(), TARGET)) > 0


def test_one_layer_is_tuned_as_a_whole_model_is():
    mod = small_network()
    whole = ar.to_tuning_tasks(mod, TARGET)
    (hashed,) = [each for each in ar.extract_hashed_functions(mod).values() if "conv2d" in each.name]
    (in_model,) = [task for task in whole if "conv2d" in task.task_name]
    for layer, weight in ((hashed, 2), (hashed.func, 1)):
        (task,) = ar.to_tuning_tasks(layer, TARGET)
        assert tvm_ffi.structural_equal(task.mod, in_model.mod)
        assert task.weight == weight


def test_a_zoo_a_relax_function_and_what_was_extracted_are_taken_too():
    mod = small_network()
    single = ar.to_tuning_tasks(mod, TARGET)
    zoo = ar.to_tuning_tasks([("a", mod), ("b", mod)], TARGET)
    assert [task.weight for task in zoo] == [2 * task.weight for task in single]
    assert_same_tasks(ar.to_tuning_tasks(mod["main"], TARGET), single)
    assert_same_tasks(ar.to_tuning_tasks(ar.extract_hashed_functions(mod), TARGET), single)


def test_what_cannot_be_tuned_is_named():
    with pytest.raises(ar.InvalidModuleError, match="the argument what is 5; pass an IRModule"):
        ar.to_tuning_tasks(5, TARGET)
