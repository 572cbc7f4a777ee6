"""UnitCost and RooflineCost: the work of ops by hand, and what devices make of it."""

import numpy as np
import pytest
from tvm import relax

from annotated_region.cost_units import CostUnit
from annotated_region.costs import HOST, Device, RooflineCost, UnitCost
from annotated_region.costs.work import Work, work_of
from annotated_region.dataflow.walk import read_dataflow
from annotated_region.ids import NodeId
from annotated_region.targets.extents import UNKNOWN_EXTENT, extents, size_of
from annotated_region.targets.op_view import OpView

FLOAT = 4


def tensor(*shape, dtype="float32"):
    return relax.Var("x", relax.TensorType(shape, dtype))


def view(call):
    found = OpView.of(relax.BlockBuilder().normalize(call))
    assert found is not None
    return found


X = tensor(1, 8, 10, 10)


def test_a_convolution_counts_its_multiply_adds():
    weight = relax.const(np.zeros((16, 8, 3, 3), "float32"))
    work = work_of(view(relax.op.nn.conv2d(X, weight, padding=1)))
    assert work.flops == 2 * (16 * 10 * 10) * (8 * 3 * 3)
    assert work.bytes == FLOAT * (8 * 100 + 16 * 8 * 9 + 16 * 100)


def test_a_grouped_convolution_counts_only_its_own_channels():
    weight = relax.const(np.zeros((16, 2, 3, 3), "float32"))
    assert work_of(view(relax.op.nn.conv2d(X, weight, padding=1, groups=4))).flops == 2 * 1600 * (2 * 9)


def test_a_product_counts_its_multiply_adds():
    assert work_of(view(relax.op.matmul(tensor(5, 7), tensor(7, 3)))).flops == 2 * 5 * 3 * 7


def test_pooling_counts_its_window_and_a_sum_its_input():
    assert work_of(view(relax.op.nn.max_pool2d(X, (2, 2), (2, 2)))).flops == 8 * 25 * 4
    assert work_of(view(relax.op.sum(X, axis=1))).flops == 800


def test_what_moves_no_data_is_no_work_and_what_only_moves_data_is_no_computing():
    assert work_of(view(relax.op.reshape(X, (8, 100)))) == Work(0.0, 0.0)
    moved = work_of(view(relax.op.permute_dims(X, (0, 2, 3, 1))))
    assert (moved.flops, moved.bytes) == (0.0, FLOAT * 1600)


def test_sizes_of_types():
    assert size_of(relax.TensorType((3, 5), "float16")) == 30
    assert size_of(relax.TupleType([relax.TensorType((3,), "int8"), relax.TensorType((2,), "float64")])) == 19
    assert size_of(relax.ShapeType([2, 3])) == 0
    symbolic = relax.TensorType((relax.Var("n", "int64"), 4), "float32")
    assert extents(symbolic) == [UNKNOWN_EXTENT, 4]


def units():
    builder = relax.BlockBuilder()
    x = tensor(64, 64)
    with builder.function("main", [x]):
        with builder.dataflow():
            product = builder.emit(relax.op.matmul(x, x))
            out = builder.emit_output(builder.emit(relax.op.nn.relu(product)))
        builder.emit_func_output(out)
    graph = read_dataflow(builder.get()["main"])
    return (
        CostUnit.of(graph, (NodeId(0),)),
        CostUnit.of(graph, (NodeId(1),)),
        CostUnit.of(graph, (NodeId(0), NodeId(1)), "sketch.matmul_relu"),
    )


def test_the_roofline_is_the_longer_of_computing_and_moving():
    product, activation, both = units()
    device = Device(flops=1e9, bandwidth=1e6)
    model = RooflineCost({"sketch": device})
    assert model.compute("sketch", activation) == pytest.approx(2 * 64 * 64 * FLOAT / 1e6)
    fast_memory = RooflineCost({"sketch": Device(flops=1e9, bandwidth=1e12)})
    assert fast_memory.compute("sketch", product) == pytest.approx(2 * 64**3 / 1e9)
    apart = model.compute("sketch", product) + model.compute("sketch", activation)
    assert model.compute("sketch", both) == pytest.approx(apart - 2 * 64 * 64 * FLOAT / 1e6)


def test_a_transfer_waits_for_the_slower_side():
    model = RooflineCost({"far": Device(1e12, 1e12, link=1e9, latency=1e-5)})
    assert model.transfer(10**6, HOST, "far") == pytest.approx(1e-5 + 1e-3)


def test_unit_cost_counts():
    product, _activation, both = units()
    model = UnitCost(op=1, host_op=4, region=2, crossing=3)
    assert (model.compute("sketch", both), model.compute(HOST, product)) == (1, 4)
    assert (model.launch("sketch"), model.transfer(10**9, "sketch", HOST)) == (2, 3)


def test_a_unit_shows_its_ops_and_its_composite():
    product, _activation, both = units()
    assert [op.name for op in both.ops] == ["relax.matmul", "relax.nn.relu"]
    assert (both.composite, product.composite) == ("sketch.matmul_relu", None)
