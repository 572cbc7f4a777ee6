"""Threads may import, partition and build at once; TVM's builders, which all threads share, have turns."""

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread

import onnx
import pytest
from onnx import TensorProto, helper

import annotated_region as ar
from annotated_region.serial import one_at_a_time
from annotated_region.testing.graphs import SIX_OPS, module_of


def model_of(count):
    """A chain of so many Selu and Relu, which TVM lowers with tags."""
    names = [f"v{number}" for number in range(count + 1)]
    ops = ("Selu", "Relu")
    nodes = [helper.make_node(ops[i % 2], names[i : i + 1], names[i + 1 : i + 2]) for i in range(count)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in (names[0], names[-1])]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.fixture
def many_switches():
    """The interpreter goes from thread to thread as often as it can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("many_switches")
def test_threads_import_partition_and_build_at_once():
    lengths = [8, 9, 10, 11] * 4
    models = {length: onnx.ModelProto.FromString(model_of(length).SerializeToString()) for length in lengths}

    def text(length):
        mod = ar.partition(ar.from_onnx(models[length]), ["dnnl"])
        ar.build(mod, progress=False)
        return mod.script()

    alone = {length: text(length) for length in models}
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(text, lengths)) == [alone[length] for length in lengths]


def test_a_pass_on_its_own_waits_for_its_turn():
    entered, left = Event(), Event()

    @one_at_a_time
    def hold():
        entered.set()
        assert left.wait(60)

    mod = module_of(SIX_OPS)
    holder = Thread(target=hold)
    annotating = Thread(target=ar.passes.AnnotateTarget(["dnnl"]), args=[mod])
    holder.start()
    assert entered.wait(60)
    annotating.start()
    annotating.join(0.5)
    waited = annotating.is_alive()
    left.set()
    annotating.join(60)
    holder.join(60)
    assert waited
    assert not annotating.is_alive()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_the_child_of_a_fork_has_a_turn_of_its_own():
    entered, left = Event(), Event()

    @one_at_a_time
    def hold():
        entered.set()
        assert left.wait(60)

    holder = Thread(target=hold)
    holder.start()
    assert entered.wait(60)
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends a child that waits
        one_at_a_time(os._exit)(0)
    _child, status = os.waitpid(child, 0)
    left.set()
    holder.join(60)
    assert os.waitstatus_to_exitcode(status) == 0
