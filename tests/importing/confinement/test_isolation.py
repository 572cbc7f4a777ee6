"""Imports in a separate process: equal modules, and an error however the process ends."""

import mmap
import os
import signal
import time
from itertools import pairwise

import numpy as np
import onnx
import pytest
import tvm
import tvm_ffi
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

import annotated_region as ar
from annotated_region.importing.confinement import isolation, shared_memory
from annotated_region.importing.confinement.isolation import Job, import_isolated
from annotated_region.importing.confinement.transport import packed, unpacked
from annotated_region.importing.reading import READERS
from annotated_region.testing.light_models import light_model

FLOAT = TensorProto.FLOAT


def model_of(*nodes, inputs=(("x", FLOAT, [2, 3]),), output=("y", FLOAT, None), constants=(), opset=17):
    """A model of some nodes."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*value) for value in inputs],
        [helper.make_tensor_value_info(*output)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def doubled(values, times):
    """A constant that Concat doubles again and again: a few bytes of file, 2**times of memory."""
    names = ["k", *(f"c{number}" for number in range(times))]
    nodes = [helper.make_node("Concat", [a, a], [b], axis=0) for a, b in pairwise(names)]
    return model_of(*nodes, inputs=(), output=(names[-1], FLOAT, None), constants=[("k", values)])


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_the_module_is_the_one_that_tvm_imports(name):
    model = light_model(name)
    isolated = ar.from_onnx(model, isolated=True)
    tvm.ir.assert_structural_equal(isolated, ar.from_onnx(model), map_free_vars=True)


def test_files_and_their_external_data(tmp_path):
    weight = np.random.default_rng(0).standard_normal((3, 5000)).astype("float32")
    model = model_of(helper.make_node("MatMul", ["x", "w"], ["y"]), constants=[("w", weight)])
    onnx.save_model(
        model, str(tmp_path / "m.onnx"), save_as_external_data=True, location="w.bin", size_threshold=0
    )
    isolated = ar.from_onnx(tmp_path / "m.onnx", isolated=True)
    assert tvm_ffi.structural_equal(isolated, ar.from_onnx(str(tmp_path / "m.onnx")))
    (tmp_path / "w.bin").unlink()
    with pytest.raises(ar.ModelError, match=r"the external data of .*m\.onnx cannot be read"):
        ar.from_onnx(tmp_path / "m.onnx", isolated=True)


def test_options_reach_the_importer():
    module = ar.from_onnx(
        model_of(helper.make_node("Relu", ["x"], ["y"])), isolated=True, shape_dict={"x": [7, 3]}
    )
    assert [int(extent) for extent in module["main"].params[0].ty.shape] == [7, 3]


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int64", "float16", "float32", "float64", "bfloat16"]
)
def test_constants_of_every_type_come_back(dtype):
    numbers = np.arange(3000).reshape(2, 30, 50) % 2
    value = (
        relax.const(numbers.astype("float32"), dtype)
        if dtype == "bfloat16"
        else relax.const(numbers.astype(dtype))
    )
    small = relax.const(np.float32(1.5))
    x = relax.Var("x", value.ty)
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        pair = builder.emit(relax.Tuple([value, small, relax.Tuple([value, x])]))
        builder.emit_func_output(pair)
    module = builder.get()
    weights = shared_memory.made(2**20)
    tvm.ir.assert_structural_equal(
        unpacked(packed(module, weights, "m"), weights), module, map_free_vars=True
    )
    os.close(weights)


def test_weights_are_sealed_when_they_are_taken():
    weights = shared_memory.made(2**16)
    shared_memory.write(weights, 64, memoryview(b"written"))
    assert shared_memory.sealed(weights, 100)[64:71] == b"written"
    with pytest.raises(PermissionError):
        shared_memory.write(weights, 64, memoryview(b"changed"))
    with pytest.raises(PermissionError):
        os.truncate(weights, 0)
    with pytest.raises(ValueError, match="greater than file size"):
        shared_memory.sealed(weights, 2**16 + 1)
    os.close(weights)


def test_weights_that_somebody_can_still_change_are_not_taken():
    weights = shared_memory.made(2**16)
    with mmap.mmap(weights, 100), pytest.raises(OSError, match="busy"):
        shared_memory.sealed(weights, 100)
    os.close(weights)


# -- what ends a child ----------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [signal.SIGSEGV, signal.SIGFPE, signal.SIGABRT])
def test_a_crash_is_an_error_with_the_name(ending):
    job = Job("crash of tests", "m.onnx", "", {})
    with pytest.raises(
        ar.ModelError, match=rf"m\.onnx cannot be imported: TVM or onnx crashed on it \({ending.name}\)"
    ):
        run_in_child(job, lambda *_: os.kill(os.getpid(), ending))


def run_in_child(job, reader, limits=None):
    """Import with a reader of our own, in a server that is forked after it is registered."""

    with isolation._Server.lock:
        before, isolation._Server.instance = isolation._Server.instance, None
        READERS[job.kind] = reader
        try:
            isolation.start_server_here()
            file = os.open(os.devnull, os.O_RDONLY)
            return import_isolated(job, file, limits or ar.Limits())
        finally:
            os.close(file)
            del READERS[job.kind]
            if isolation._Server.instance is not None:
                isolation._Server.instance.stop()
            isolation._Server.instance = before


def test_a_child_writes_no_files(tmp_path):
    def reader(*_):
        (tmp_path / "f").write_text("x")

    with pytest.raises(RuntimeError, match="File too large"):
        run_in_child(Job("writer of tests", "m.onnx", "", {}), reader)


def test_a_child_that_never_ends_is_killed_with_its_children(tmp_path):
    def reader(*_):
        os.fork()
        time.sleep(3600)

    with pytest.raises(ar.ModelError, match=r"it takes longer than 0\.5 seconds, the limit of time"):
        run_in_child(Job("sleeper of tests", "m.onnx", "", {}), reader, ar.Limits(time=0.5))


def test_a_defect_of_ours_shows_its_traceback():
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        run_in_child(Job("defect of tests", "m.onnx", "", {}), lambda *_: 1 // 0)


def test_a_forked_process_gets_a_server_of_its_own():
    ar.from_onnx(model_of(helper.make_node("Relu", ["x"], ["y"])), isolated=True)
    child = os.fork()
    if child == 0:
        isolation._Server.current()
        os._exit(0 if isolation._Server.current().owner == os.getpid() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    ar.from_onnx(model_of(helper.make_node("Relu", ["x"], ["y"])), isolated=True)


# -- models that crashed TVM's importer, hung it, or ate memory ------------------------------------


def test_bombs_come_upon_the_limit_of_memory():
    with pytest.raises(ar.ModelError, match="limit of memory"):
        ar.from_onnx(doubled(np.zeros((2, 3), "float32"), 45), isolated=True, limits=ar.Limits(memory=2**29))


def test_what_hangs_comes_upon_the_limit_of_time():
    endless = doubled(np.zeros((2, 3), "float32"), 45)
    with pytest.raises(ar.ModelError, match=r"longer than 2 seconds|limit of memory"):
        ar.from_onnx(endless, isolated=True, limits=ar.Limits(time=2))


LACKING: dict[str, tuple[list[str], dict[str, object], str]] = {
    "Concat": (["x", ""], {"axis": 0}, "inputs"),
    "Einsum": (["x", ""], {"equation": "ij,jk->ik"}, "Inputs"),
    "SequenceConstruct": (["x", ""], {}, "inputs"),
    "Clip": (["", "", ""], {}, "input"),
    "Conv": (["x"], {}, "W"),
}


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("op", LACKING)
def test_inputs_left_out_are_named(op, isolated):
    inputs, attributes, missing = LACKING[op]
    model = model_of(helper.make_node(op, inputs, ["y"], name="n", **attributes))
    with pytest.raises(ar.ModelError, match=rf"node 'n' \({op}\) lacks its input '{missing}'"):
        ar.from_onnx(model, isolated=isolated)


def test_a_cycle_is_called_one():
    model = model_of(helper.make_node("Add", ["x", "b"], ["y"]), helper.make_node("Relu", ["y"], ["b"]))
    with pytest.raises(
        ar.ModelError, match=r"node 0 \(Add\) reads 'b', which nothing before it makes.*cycle"
    ):
        ar.from_onnx(model)


def test_branches_read_what_stands_outside():
    then = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["a"])], "t", [], [helper.make_tensor_value_info("a", FLOAT, [2, 3])]
    )
    other = helper.make_graph(
        [helper.make_node("Tanh", ["x"], ["b"])], "e", [], [helper.make_tensor_value_info("b", FLOAT, [2, 3])]
    )
    node = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    model = model_of(node, inputs=(("x", FLOAT, [2, 3]), ("c", TensorProto.BOOL, [])))
    assert ar.from_onnx(model, isolated=True)["main"].params


@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_the_smallest_number_by_minus_one(op):
    """As constants and as extents; the processor has no answer, and raises SIGFPE."""
    constants = [("a", np.array([-(2**63)])), ("b", np.array([-1]))]
    nodes = [helper.make_node(op, ["a", "b"], ["c"]), helper.make_node("Reshape", ["x", "c"], ["y"])]
    with pytest.raises(ar.ModelError, match=r"the model 'g'"):
        ar.from_onnx(model_of(*nodes, constants=constants), isolated=True)


def test_types_that_tvm_does_not_compute_with_are_refused():
    kind = TensorProto.FLOAT4E2M1
    model = model_of(
        helper.make_node("Identity", ["x"], ["y"]),
        inputs=(("x", kind, [2, 3]),),
        output=("y", kind, None),
        opset=23,
    )
    with pytest.raises(ar.ModelError, match="'x' is of type float4_e2m1fn, which TVM cannot compute with"):
        ar.from_onnx(model, isolated=True)


@pytest.mark.parametrize("count", [4, 5001])
def test_constants_of_half_bytes_are_refused(count):
    """Read back from TVM's JSON they overwrite memory."""
    kind = TensorProto.FLOAT4E2M1
    constant = helper.make_tensor("k", kind, [count], bytes((count + 1) // 2), raw=True)
    model = model_of(
        helper.make_node("Identity", ["k"], ["y"]), inputs=(), output=("y", kind, None), opset=23
    )
    model.graph.initializer.append(constant)
    with pytest.raises(ar.ModelError, match="is of type float4_e2m1fn, which TVM cannot compute with"):
        ar.from_onnx(model, isolated=True)


def test_a_server_that_ended_is_replaced():
    relu = model_of(helper.make_node("Relu", ["x"], ["y"]))
    ar.from_onnx(relu, isolated=True)
    server = isolation._Server.current()
    assert server.program is not None
    os.kill(server.program.pid, signal.SIGKILL)
    server.program.wait()
    with pytest.raises(ar.ModelError, match="the process that imports it has ended"):
        ar.from_onnx(relu, isolated=True)
    assert ar.from_onnx(relu, isolated=True)["main"].params
