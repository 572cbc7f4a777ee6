"""Calls with shapes in variables, which TVM cannot compile, agree with the same calls of literal shapes."""

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

import annotated_region as ar
from annotated_region.functions.known_shapes import with_known_shapes


def in_a_variable(extents, size, make) -> tvm.IRModule:
    """A module in which `make` gets a tensor and a variable that is bound to a shape."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(extents, "float32"))
    with builder.function("main", [x]):
        shape = builder.emit(relax.ShapeExpr(size))
        with builder.dataflow():
            result = builder.emit_output(relax.op.nn.relu(builder.emit(make(x, shape))))
        builder.emit_func_output(result)
    return builder.get()


RESIZED = in_a_variable((1, 2, 4, 4), (7, 9), relax.op.image.resize2d)
SPREAD = in_a_variable((1, 6), (4, 6), relax.op.broadcast_to)


@I.ir_module
class LikeAnother:
    @R.function
    def main(x: R.Tensor(("n", 6), "float32"), y: R.Tensor((1, 6), "float32")) -> R.Tensor(
        ndim=2, dtype="float32"
    ):
        size = R.shape_of(x)
        with R.dataflow():
            spread = R.broadcast_to(y, size)
            result = R.nn.relu(spread)
            R.output(result)
        return result


def resized_by_literals(x: relax.Var) -> relax.Expr:
    return relax.op.image.resize2d(x, (7, 9))


def spread_by_literals(x: relax.Var) -> relax.Expr:
    return relax.op.broadcast_to(x, (4, 6))


def computed(mod, *arrays):
    machine = relax.VirtualMachine(ar.build(mod, progress=False), tvm.cpu())
    return machine["main"](*map(tvm.runtime.tensor, arrays)).numpy()


def computed_by_tvm(make, array):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(array.shape, "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.nn.relu(builder.emit(make(x)))))
    machine = relax.VirtualMachine(relax.build(builder.get(), "llvm"), tvm.cpu())
    return machine["main"](tvm.runtime.tensor(array)).numpy()


@pytest.mark.parametrize("targets", [[], ["dnnl"], ["onnxruntime"], ["openvino"]], ids=str)
@pytest.mark.parametrize(
    ("mod", "literal"),
    [(RESIZED, resized_by_literals), (SPREAD, spread_by_literals)],
    ids=["resize", "broadcast"],
)
def test_a_shape_in_a_variable_is_as_good_as_a_literal_one(mod, literal, targets):
    before = tvm.ir.save_json(mod)
    shape = [int(extent) for extent in mod["main"].params[0].ty.shape]
    array = np.random.default_rng(1).standard_normal(shape).astype("float32")
    partitioned = ar.partition(mod, targets) if targets else mod
    externals = [func for func in partitioned.functions.values() if "Codegen" in (func.attrs or {})]
    assert len(externals) == len(targets)
    np.testing.assert_allclose(computed(partitioned, array), computed_by_tvm(literal, array), atol=1e-6)
    assert tvm.ir.save_json(mod) == before


def test_the_shape_of_a_tensor_of_any_length_is_written_out():
    x, y = np.zeros((5, 6), "float32"), np.arange(-2, 4, dtype="float32")[None]
    spread = np.broadcast_to(np.maximum(y, 0), (5, 6))
    np.testing.assert_array_equal(computed(LikeAnother, x, y), spread)
    np.testing.assert_array_equal(computed(ar.partition(LikeAnother, ["dnnl"]), x, y), spread)


def test_types_become_known_and_a_function_without_such_calls_is_the_same_object():
    resized = with_known_shapes(RESIZED["main"])
    assert list(resized.ret_ty.shape) == [1, 2, 7, 9]
    assert with_known_shapes(resized).same_as(resized)
