"""Modules that TVM accepts and no importer makes; most are of TVM's own tests."""

# TVMScript is no Python that a type checker understands:
# mypy: disable-error-code="valid-type, untyped-decorator, misc, no-untyped-def, index"

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

import annotated_region as ar


@I.ir_module
class OnlyLoops:
    @T.prim_func(s_tir=True)
    def add_one(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("b"):
                v = T.axis.spatial(4, i)
                b[v] = a[v] + T.float32(1)


@I.ir_module
class PrivateBesidePublicLoops:
    @T.prim_func(s_tir=True)
    def add_one(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("b"):
                v = T.axis.spatial(4, i)
                b[v] = a[v] + T.float32(1)

    @R.function(private=True)
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = PrivateBesidePublicLoops
        with R.dataflow():
            more = R.call_tir(cls.add_one, (x,), out_ty=R.Tensor((4,), "float32"))
            result = R.nn.relu(more)
            R.output(result)
        return result


def test_a_module_of_loops_alone_is_refused():
    with pytest.raises(
        ar.InvalidModuleError, match="the module has no function of Relax, so there is nothing"
    ):
        ar.build(OnlyLoops)
    with pytest.raises(
        ar.InvalidModuleError, match="the module has no function of Relax, so there is nothing"
    ):
        ar.build(ar.partition(OnlyLoops, ["dnnl"]))


def test_a_private_function_beside_public_loops_is_not_dead():
    partitioned = ar.partition(PrivateBesidePublicLoops, ["dnnl"])
    assert "main" in {name.name_hint for name in partitioned.get_global_vars()}
    machine = relax.VirtualMachine(ar.build(PrivateBesidePublicLoops), tvm.cpu())
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
