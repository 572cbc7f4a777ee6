"""Modules that TVM accepts and no importer makes; most are of TVM's own tests."""

# TVMScript is no Python that a type checker understands:
# mypy: disable-error-code="valid-type, untyped-decorator, misc, no-untyped-def, index"

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.script import ir as I
from tvm.script import tirx as T

import annotated_region as ar


@T.prim_func(s_tir=True)
def add_one(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.sblock("b"):
            v = T.axis.spatial(4, i)
            b[v] = a[v] + T.float32(1)


LOOPS = add_one.with_attr("global_symbol", "add_one")


def private_beside_public_loops() -> tvm.IRModule:
    """A function of Relax that no name is exported for, and the loops that it calls, which have one."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([4], "float32"))
    loops = builder.add_func(LOOPS, "add_one")
    with builder.function("main", [x], private=True):
        with builder.dataflow():
            more = builder.emit(relax.call_tir(loops, (x,), out_ty=relax.TensorType([4], "float32")))
            result = builder.emit_output(relax.op.nn.relu(more))
        builder.emit_func_output(result)
    return builder.get()


def test_a_module_of_loops_alone_is_refused():
    only_loops = tvm.IRModule({"add_one": LOOPS})
    with pytest.raises(
        ar.InvalidModuleError, match="the module has no function of Relax, so there is nothing"
    ):
        ar.build(only_loops)
    with pytest.raises(
        ar.InvalidModuleError, match="the module has no function of Relax, so there is nothing"
    ):
        ar.build(ar.partition(only_loops, ["dnnl"]))


def test_a_private_function_beside_public_loops_is_not_dead():
    mod = private_beside_public_loops()
    partitioned = ar.partition(mod, ["dnnl"])
    assert "main" in {name.name_hint for name in partitioned.get_global_vars()}
    machine = relax.VirtualMachine(ar.build(mod), tvm.cpu())
    x = np.asarray([-3, -1, 0, 2], "float32")
    np.testing.assert_array_equal(machine["main"](tvm.runtime.tensor(x)).numpy(), [0, 0, 1, 3])


def test_what_a_pass_of_tvm_refuses_is_an_error_of_the_module():
    """TVM 0.27 cannot infer the type of a call inside an extent."""
    number = relax.Var("p", tvm.ir.PrimType("int64"))
    inner = tirx.call_intrin("int64", "tirx.tvm_thread_invariant", number)
    extent = tirx.call_intrin("int64", "tirx.tvm_thread_invariant", inner)
    builder = relax.BlockBuilder()
    with builder.function("main", [number]):
        builder.emit_func_output(builder.emit(relax.ShapeExpr([extent])))
    mod = builder.get()
    with pytest.raises(
        ar.InvalidModuleError, match=r"^TVM's pass CanonicalizeBindings fails with the module: "
    ):
        ar.partition(mod, ["dnnl"])


def test_a_tensor_on_a_device_that_the_module_does_not_list_is_an_error_of_the_build():
    device = I.vdevice("llvm", 0)
    x = relax.Var("x", relax.TensorType([2, 3], "float32", device))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.nn.relu(x)))
    with pytest.raises(ar.BuildError, match=r"^TVM cannot compile what the host runs: KeyError: "):
        ar.build(builder.get())
